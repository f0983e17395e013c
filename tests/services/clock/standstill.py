"""What tests of live time run on: a kernel clock and a loop that do as they are told, and a real server of gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc

from engine.clock import SECOND
from services.game.livetime import SLACK_NS, TICK_NS, LiveTime
from tests.services.clock.burst import SERVICE


class Kernel:
    """A kernel clock that goes on only when told, and a loop that does what it is told."""

    def __init__(self) -> None:
        self.now = 1_000 * SECOND
        self.live = LiveTime("test", read=lambda: self.now)

    def work(self, ns: int) -> None:
        """The loop is busy, or the process does not run."""
        self.now += ns

    def turn(self, ns: int) -> None:
        """A turn of the loop that finds something to do, which takes `ns`."""
        self.live.turns(self.live.raw())
        self.now += ns

    def wait(self, ns: int, *, asked_ns: int = TICK_NS) -> None:
        """The loop finds nothing to do and waits for `ns`."""
        entered = self.now
        self.live.raw()
        self.live.waits(entered)
        self.now += ns
        self.live.woke(entered, entered + asked_ns + SLACK_NS)


@asynccontextmanager
async def serving(hear: Callable[[bytes], None]) -> AsyncIterator[int]:
    """A server of gRPC that hands all messages on as soon as it has read them; its port."""

    async def unary(request: bytes, context: Any) -> bytes:
        hear(request)
        return b""

    async def stream(requests: Any, context: Any) -> None:
        async for request in requests:
            hear(request)

    server = grpc.aio.server()
    handlers: dict[str, Any] = {
        "Unary": grpc.unary_unary_rpc_method_handler(unary),
        "Stream": grpc.stream_stream_rpc_method_handler(stream),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE[1:], handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(0)
