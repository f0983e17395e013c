"""Pings of clients on quiet streams: what keeps a connection alive through middleboxes is not punished."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
import pytest

from services.common.host import SERVER_OPTIONS
from tests.proxy import Proxy, Way
from tests.seats import SECONDS_MAX

FASTER: Final = 160
"""So many times: three minutes with a ping every 20 s are a good second."""
PING_MS: Final = 20_000 // FASTER
QUIET_SECONDS: Final = 180 / FASTER
PINGS_MIN: Final = 4
"""More than are forgiven where they are punished."""
PING_BYTES: Final = 17
INTERVAL = "grpc.http2.min_ping_interval_without_data_ms"
CLIENT: Final = [
    ("grpc.keepalive_time_ms", PING_MS),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.use_local_subchannel_pool", 1),
]


@asynccontextmanager
async def quiet_server(options: list[tuple[str, Any]]) -> AsyncIterator[Proxy]:
    """A server with one stream that says one word and nothing more; the way to it, which counts connections."""

    async def say_little(_request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        await context.write(b"hello")
        await asyncio.Event().wait()

    server = grpc.aio.server(options=options)
    methods = {"Say": grpc.unary_stream_rpc_method_handler(say_little)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("quiet", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with Proxy("127.0.0.1", port) as proxy:
            yield proxy
    finally:
        await server.stop(0)


@asynccontextmanager
async def sitting(proxy: Proxy) -> AsyncIterator[asyncio.Task[Any]]:
    """A client with pings on the stream; what it reads next."""
    async with grpc.aio.insecure_channel(proxy.address, options=CLIENT) as channel:
        call: Any = channel.unary_stream("/quiet/Say")(b"")
        assert await call.read() == b"hello"
        more = asyncio.create_task(call.read())
        yield more
        more.cancel()
        await asyncio.wait({more})


async def test_fc_84_a_client_that_pings_on_a_quiet_stream_is_not_sent_away() -> None:
    """FC-84, 160 times as fast: pings every 20 s for three minutes, no GOAWAY, no new connection. By the options alone of
    our servers, whose shortest interval is as much faster; a server without them sends the same client away."""
    scaled = [(name, value // FASTER if name == INTERVAL else value) for name, value in SERVER_OPTIONS]
    assert dict(scaled)[INTERVAL] * 1.5 < PING_MS
    async with (
        quiet_server(scaled) as ours,
        quiet_server([]) as other,
        sitting(ours) as stays,
        sitting(other) as leaves,
    ):
        before = ours.traffic[Way.UP].carried
        await asyncio.wait({stays}, timeout=QUIET_SECONDS)
        async with asyncio.timeout(SECONDS_MAX):
            with pytest.raises(grpc.aio.AioRpcError, match="Too many pings"):
                await leaves
        assert ours.traffic[Way.UP].carried > before + PINGS_MIN * PING_BYTES
        assert not stays.done()
        assert ours.accepted == 1
