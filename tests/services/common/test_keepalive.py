"""Pings of clients on quiet streams: what keeps a connection alive through middleboxes is not punished.

The client is written in bytes: grpc's own sends no more than one ping a second, whatever it is told.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc

from services.common.host import SERVER_OPTIONS
from tests.seats import SECONDS_MAX

FASTER: Final = 200
"""So many times: three minutes with a ping every 20 s, nine of them, are less than a second."""
PING_SECONDS: Final = 20 / FASTER
PINGS: Final = 9
INTERVAL: Final = "grpc.http2.min_ping_interval_without_data_ms"
DATA, HEADERS, SETTINGS, PING, GOAWAY = 0, 1, 4, 6, 7
ACK = 1


def frame(kind: int, payload: bytes = b"", *, flags: int = 0, stream: int = 0) -> bytes:
    """A frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def text(value: str) -> bytes:
    """A string of a header, as it is."""
    return bytes((len(value),)) + value.encode()


NAMED: Final = (("te", "trailers"), ("content-type", "application/grpc"))
# POST, http, path and authority are in the static table.
CALL: Final = b"\x83\x86\x04" + text("/quiet/Say") + b"\x01" + text("quiet")
OPENING: Final = b"".join(
    (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        frame(SETTINGS),
        frame(
            HEADERS,
            CALL + b"".join(b"\x00" + text(name) + text(value) for name, value in NAMED),
            flags=4,  # these are all headers
            stream=1,
        ),
        frame(DATA, bytes(5), flags=1, stream=1),  # one empty message, the last
    )
)


@asynccontextmanager
async def quiet_server(options: list[tuple[str, Any]]) -> AsyncIterator[int]:
    """A server with one stream that says one word and nothing more; its port."""

    async def say_little(_request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        await context.write(b"hello")
        await asyncio.Event().wait()

    server = grpc.aio.server(options=options)
    methods: dict[str, Any] = {"Say": grpc.unary_stream_rpc_method_handler(say_little)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("quiet", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(0)


async def goodbye(port: int) -> bytes:
    """Sits on the stream and pings; with which words the server sends the client away, empty when it does not."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answered = 0
    pinging: asyncio.Task[None] | None = None

    async def ping() -> None:
        for number in range(PINGS):
            writer.write(frame(PING, number.to_bytes(8, "big")))
            await asyncio.sleep(PING_SECONDS)

    try:
        writer.write(OPENING)
        while answered < PINGS:
            head = await reader.readexactly(9)
            length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
            payload = await reader.readexactly(length)
            if kind == GOAWAY:
                return payload[8:]
            if kind in (SETTINGS, PING) and not flags & ACK:
                writer.write(frame(kind, payload if kind == PING else b"", flags=ACK))
            answered += kind == PING and flags & ACK
            if kind == DATA:
                assert payload.endswith(b"hello")
                pinging = asyncio.create_task(ping())
        return b""
    finally:
        if pinging is not None:
            pinging.cancel()
        writer.close()


async def test_fc_84_a_client_that_pings_on_a_quiet_stream_is_not_sent_away() -> None:
    """FC-84, 200 times as fast: a ping every 20 s for three minutes, all answered, no GOAWAY. By the options of our
    servers, whose shortest interval is as much faster; a server without them sends the same client away."""
    scaled = [(name, value // FASTER if name == INTERVAL else value) for name, value in SERVER_OPTIONS]
    async with quiet_server(scaled) as ours, quiet_server([]) as other, asyncio.timeout(SECONDS_MAX):
        assert tuple(await asyncio.gather(goodbye(ours), goodbye(other))) == (b"", b"too_many_pings")
