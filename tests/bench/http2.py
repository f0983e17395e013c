"""A client of gRPC that costs little: many calls on few connections, all frames of a loop turn in one write.

The load generator must not be what saturates. grpc.aio takes some 50 µs a message, this some 5; the server cannot tell
them apart. Only what the benchmarks need: no TLS, no compression, and what it does not understand is an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from hpack import Decoder

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
WINDOW_MAX: Final = 2**31 - 1
WINDOW_FIRST: Final = 65_535
FRAME_MAX: Final = 2**14
TOP_UP_BYTES: Final = 2**24
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
INITIAL_WINDOW_SIZE: Final = 4
_FRAME: Final = Struct(">BHBBL")
"""The length in two parts, type, flags, stream."""
_MESSAGE: Final = Struct(">BL")
_SETTING: Final = Struct(">HL")


class ProtocolError(RuntimeError):
    """The server ended the connection, or did what this client does not understand."""


@dataclass(slots=True, eq=False, repr=False)
class Call:
    """One call: what it is told, and where it writes."""

    connection: Connection
    number: int
    heard: Callable[[bytes], None]
    """Called with each message, without its prefix."""
    ended: Callable[[], None]
    """Called once when the server has ended the call, well or not."""
    unread: bytes = b""
    window: int = WINDOW_FIRST
    status: str = ""
    """How it ended: number and text, as gRPC says it; empty when the server only broke off."""

    def send(self, message: bytes, *, last: bool = False) -> None:
        """A message; `last` says that no more will come."""
        self.connection.write(self, message, END_STREAM if last else 0)


@dataclass(eq=False, repr=False)
class Connection(asyncio.Protocol):
    """One connection and its calls; made by `connect`."""

    authority: str
    calls: dict[int, Call] = field(default_factory=dict)
    error: ProtocolError | None = None
    """Why it is of no more use."""
    _transport: asyncio.Transport | None = None
    _out: list[bytes] = field(default_factory=list)
    _unread: bytes = b""
    _number: int = -1
    _window: int = WINDOW_FIRST
    _window_first: int = WINDOW_FIRST
    _consumed: int = 0
    _decoder: Decoder = field(default_factory=Decoder)

    # What is said.

    def call(
        self,
        path: str,
        metadata: Sequence[tuple[str, str]],
        heard: Callable[[bytes], None],
        ended: Callable[[], None],
    ) -> Call:
        """Begins a call of the method at `path`, /package.Service/Method."""
        self._number += 2
        made = Call(self, self._number, heard, ended, window=self._window_first)
        self.calls[self._number] = made
        block = header_block(path, self.authority, metadata)
        self._frame(HEADERS, END_HEADERS, self._number, block)
        return made

    def write(self, call: Call, message: bytes, flags: int) -> None:
        """One message of a call, in one frame."""
        size = len(message) + _MESSAGE.size
        self._window -= size
        call.window -= size
        if size > FRAME_MAX or self._window < 0 or call.window < 0:
            raise ProtocolError("more was sent than the server lets us")
        self._frame(DATA, flags, call.number, _MESSAGE.pack(0, len(message)) + message)

    def _frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if not self._out:
            # All that is said in this turn of the loop leaves together.
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(
            _FRAME.pack(len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, number) + payload
        )

    def _flush(self) -> None:
        assert self._transport is not None
        self._transport.write(b"".join(self._out))
        self._out.clear()

    def close(self) -> None:
        """Ends the connection and with it all calls."""
        if self._transport is not None:
            self._transport.abort()

    # What is heard.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(PREFACE)
        self._frame(SETTINGS, 0, 0, _SETTING.pack(INITIAL_WINDOW_SIZE, WINDOW_MAX))
        self._top_up(WINDOW_MAX - WINDOW_FIRST)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, and every call with it."""
        self.error = self.error or ProtocolError(f"the connection was lost: {exc}")
        calls, self.calls = self.calls, {}
        for call in calls.values():
            call.ended()

    def data_received(self, data: bytes) -> None:
        """Frames, perhaps a part of one."""
        if self._unread:
            data = self._unread + data
        at, end = 0, len(data)
        while end - at >= _FRAME.size:
            high, low, kind, flags, number = _FRAME.unpack_from(data, at)
            begins = at + _FRAME.size
            ends = begins + (high << 16) + low
            if ends > end:
                break
            self._heard(kind, flags, number, data[begins:ends])
            at = ends
        self._unread = data[at:]
        self._consumed += at
        if self._consumed > TOP_UP_BYTES:
            self._top_up(self._consumed)
            self._consumed = 0

    def _heard(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == DATA:
            if flags & PADDED:
                raise ProtocolError("padding is not understood here")
            if (call := self.calls.get(number)) is not None:
                self._messages(call, payload)
        elif kind == HEADERS:
            self._headers(flags, number, payload)
        elif kind == SETTINGS and not flags & ACK:
            self._set(payload)
        elif kind == PING and not flags & ACK:
            self._frame(PING, ACK, 0, payload)
        elif kind == WINDOW_UPDATE:
            more = int.from_bytes(payload, "big")
            if number == 0:
                self._window += more
            elif (call := self.calls.get(number)) is not None:
                call.window += more
        elif kind == GOAWAY:
            self.error = ProtocolError(
                f"the server ends the connection: {payload[8:].decode(errors='replace')}"
            )
        if (kind in (DATA, HEADERS) and flags & END_STREAM) or kind == RST_STREAM:
            call = self.calls.pop(number, None)
            if call is not None:
                call.ended()

    def _headers(self, flags: int, number: int, payload: bytes) -> None:
        if flags & (PADDED | PRIORITY) or not flags & END_HEADERS:
            raise ProtocolError("padded, prioritised or continued headers are not understood here")
        # All of them, in order: what one names by a number, an earlier one has defined.
        headers = {str(name): str(value) for name, value in self._decoder.decode(payload)}
        if (call := self.calls.get(number)) is not None and "grpc-status" in headers:
            call.status = f"{headers['grpc-status']} {headers.get('grpc-message', '')}"

    @staticmethod
    def _messages(call: Call, payload: bytes) -> None:
        if call.unread:
            payload = call.unread + payload
        at, end = 0, len(payload)
        while end - at >= _MESSAGE.size:
            compressed, size = _MESSAGE.unpack_from(payload, at)
            if compressed:
                raise ProtocolError("compression is not understood here")
            begins = at + _MESSAGE.size
            if begins + size > end:
                break
            at = begins + size
            call.heard(payload[begins:at])
        call.unread = payload[at:]

    def _set(self, payload: bytes) -> None:
        for name, value in _SETTING.iter_unpack(payload):
            if name == INITIAL_WINDOW_SIZE:
                for call in self.calls.values():
                    call.window += value - self._window_first
                self._window_first = value
        self._frame(SETTINGS, ACK, 0, b"")

    def _top_up(self, bytes_: int) -> None:
        self._frame(WINDOW_UPDATE, 0, 0, bytes_.to_bytes(4, "big"))


async def connect(address: str) -> Connection:
    """A connection to host:port."""
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: Connection(address), host, int(port))
    return connection


def header_block(path: str, authority: str, metadata: Sequence[tuple[str, str]]) -> bytes:
    """The headers of a gRPC call as HPACK writes them, nothing indexed and nothing in Huffman's code."""
    named = (("te", "trailers"), ("content-type", "application/grpc"), *metadata)
    return b"".join(
        (
            b"\x83\x86",  # :method POST, :scheme http
            b"\x04" + _text(path),
            b"\x01" + _text(authority),
            *(b"\x00" + _text(name) + _text(value) for name, value in named),
        )
    )


def _text(value: str) -> bytes:
    raw = value.encode("ascii")
    size = len(raw)
    if size < 127:
        return bytes((size,)) + raw
    size -= 127
    prefix = bytearray((127,))
    while size > 127:
        prefix.append(size & 127 | 128)
        size >>= 7
    prefix.append(size)
    return bytes(prefix) + raw
