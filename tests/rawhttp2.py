"""HTTP/2 as nobody should speak it: frames as they are, none of the rules that a client keeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from hpack import Decoder, Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from tests.seats import SECONDS_MAX

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
EMPTY_MESSAGE = b"\x00\x00\x00\x00\x00"
"""How gRPC frames a message of no bytes."""


class Raw:
    """One connection. It answers pings and settings while it reads, if it speaks at all, and nothing else by itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, speaks: bool) -> None:
        self._speaks = speaks
        self._reader = reader
        self._writer = writer
        self._encoder = Encoder()
        self._decoder = Decoder()
        self._next = 1

    def say(self, *frames: Frame) -> None:
        """Sends frames, without waiting."""
        self._writer.write(b"".join(frame.serialize() for frame in frames))

    def say_bytes(self, raw: bytes) -> None:
        """The same of what was made already."""
        self._writer.write(raw)

    async def pushed(self) -> None:
        """What was said is on its way."""
        await self._writer.drain()

    def headers(self, method: str, metadata: Iterable[tuple[str, str]] = ()) -> bytes:
        """The headers of a gRPC call, as HPACK writes them."""
        named = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", method),
            (":authority", "localhost"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            *metadata,
        ]
        return self._encoder.encode(named)

    def opened(
        self, method: str, metadata: Iterable[tuple[str, str]] = (), message: bytes | None = EMPTY_MESSAGE
    ) -> tuple[int, list[Frame]]:
        """The frames of a call, and its stream; without a message nothing is said after the headers."""
        stream, self._next = self._next, self._next + 2
        frames: list[Frame] = [HeadersFrame(stream, self.headers(method, metadata), flags=["END_HEADERS"])]
        if message is not None:
            frames.append(DataFrame(stream, message, flags=["END_STREAM"]))
        return stream, frames

    def call(
        self, method: str, metadata: Iterable[tuple[str, str]] = (), message: bytes | None = EMPTY_MESSAGE
    ) -> int:
        """Makes a call; its stream."""
        stream, frames = self.opened(method, metadata, message)
        self.say(*frames)
        return stream

    async def frame(self) -> Frame | None:
        """The next frame; None when the connection has ended."""
        try:
            head = await self._reader.readexactly(9)
            frame, length = Frame.parse_frame_header(memoryview(head))
            frame.parse_body(memoryview(await self._reader.readexactly(length)))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        if not self._speaks:
            return frame
        if isinstance(frame, SettingsFrame) and "ACK" not in frame.flags:
            self.say(SettingsFrame(0, flags=["ACK"]))
        if isinstance(frame, PingFrame) and "ACK" not in frame.flags:
            self.say(PingFrame(0, frame.opaque_data, flags=["ACK"]))
        return frame

    async def ended(self, stream: int) -> dict[str, str]:
        """The trailers with which a call ends; empty when it, or the connection, ends without any."""
        found: dict[str, str] = {}
        async with asyncio.timeout(SECONDS_MAX):
            while (frame := await self.frame()) is not None:
                if isinstance(frame, HeadersFrame):
                    decoded = {str(name): str(value) for name, value in self._decoder.decode(frame.data)}
                    if frame.stream_id == stream:
                        found |= decoded
                over = "END_STREAM" in frame.flags or isinstance(frame, RstStreamFrame)
                if (frame.stream_id == stream and over) or isinstance(frame, GoAwayFrame):
                    break
        return found

    async def statuses(self, streams: Iterable[int]) -> list[str]:
        """How each of these calls ends, by its number; of a connection that ends, those that it told."""
        left, found = set(streams), []
        async with asyncio.timeout(SECONDS_MAX):
            while left and (frame := await self.frame()) is not None:
                if isinstance(frame, HeadersFrame):
                    decoded = {str(name): str(value) for name, value in self._decoder.decode(frame.data)}
                    if frame.stream_id in left and "grpc-status" in decoded:
                        left.discard(frame.stream_id)
                        found.append(decoded["grpc-status"])
        return found

    async def closed(self) -> bool:
        """Waits until the other side has ended the connection; False: it has not."""
        try:
            async with asyncio.timeout(SECONDS_MAX):
                while await self.frame() is not None:
                    pass
        except TimeoutError:
            return False
        return True


@asynccontextmanager
async def raw(address: str, window: int | None = None, *, speaks: bool = True) -> AsyncIterator[Raw]:
    """A connection whose streams have that window from the start; one that does not even say what it speaks."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    made = Raw(reader, writer, speaks=speaks)
    if speaks:
        settings = {} if window is None else {SettingsFrame.INITIAL_WINDOW_SIZE: window}
        made.say_bytes(PREFACE)
        made.say(SettingsFrame(0, settings))
    try:
        yield made
    finally:
        writer.close()


def rapid_resets(made: Raw, method: str, count: int) -> None:
    """Calls that are taken back in the same breath."""
    for _ in range(count):
        stream, frames = made.opened(method)
        made.say(*frames, RstStreamFrame(stream, error_code=8))


def pings(count: int) -> bytes:
    """So many pings."""
    return PingFrame(0, b"12345678").serialize() * count


def settings(count: int) -> bytes:
    """So many changes of settings, each of which must be acknowledged."""
    return SettingsFrame(0, {SettingsFrame.INITIAL_WINDOW_SIZE: 1000}).serialize() * count


def endless_headers(stream: int, count: int) -> bytes:
    """Headers that go on and on: CONTINUATION after CONTINUATION, of names that say nothing."""
    entry = b"\x00\x01x\x7f\x81\x1f" + b"y" * 4096
    first = HeadersFrame(stream, b"", flags=[]).serialize()
    return first + ContinuationFrame(stream, entry, flags=[]).serialize() * count


def bomb(made: Raw, method: str, count: int) -> bytes:
    """Headers that are small on the wire and large when they are read: one long value, named over and over."""
    # The newest entry of the table has the number 62.
    return made.headers(method, [("x", "y" * 3000)]) + b"\xbe" * count


def window(stream: int, by: int) -> Frame:
    """Room for so many bytes more."""
    return WindowUpdateFrame(stream, window_increment=by)
