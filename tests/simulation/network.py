"""The connections between game processes and clocks: gRPC calls as the two ends see them, over a bad network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any, Final

import grpc

from engine.clock import SECOND
from spectacularbid.internal.clock.v1 import clock_service_pb2 as pb
from tests.simulation.process import Process, jitter
from tests.simulation.world import World

NEVER: Final = 1 << 62


def broken() -> grpc.aio.AioRpcError:
    """What an end of a broken call hears."""
    return grpc.aio.AioRpcError(
        grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), details="connection lost"
    )


class Line:
    """How the network between one game process and one clock is now."""

    def __init__(self) -> None:
        self.silent_until = 0
        """Nothing gets through, and nobody is told: what was sent arrives when this is over, or never."""
        self.slow_ms = 0.3


class Call:
    """One Govern call. This is the client's end, as grpc.aio has it; the server's task is made by the network."""

    def __init__(self, network: Network, client: Process, server: Process | None, line: Line) -> None:
        self._network = network
        self._world = network.world
        self._client = client
        self._server = server
        self._line = line
        self._to_client: asyncio.Queue[Any] = asyncio.Queue()
        self._to_server: asyncio.Queue[Any] = asyncio.Queue()
        self._last_there = self._last_back = 0
        self._backoff = network.dice.randrange(3 * SECOND)
        """How much later than the end of a silence TCP tries again."""
        self.cut = False
        self._ended = False
        if server is None or not server.alive:
            self._world.after(jitter(network.dice, 1), lambda: client.reach(self._fail_client))
        else:
            self._pass_on(lambda: server.reach(self._begin))

    # The client's end.

    async def write(self, request: pb.GovernRequest) -> None:
        """As grpc.aio."""
        if self._ended:
            raise asyncio.InvalidStateError("RPC is over")
        self._pass_on(lambda: self._at_server(request))

    async def read(self) -> Any:
        """As grpc.aio."""
        if self._ended and self._to_client.empty():
            raise broken()
        message = await self._to_client.get()
        if isinstance(message, Exception):
            raise message
        return message

    async def details(self) -> str:
        """As grpc.aio."""
        return "the call is over"

    def cancel(self) -> bool:
        """As grpc.aio. What was sent before may still arrive."""
        if not self._ended:
            self._ended = True
            self._pass_on(lambda: self._at_server(None))
        return True

    # What lies between.

    def _pass_on(self, arrives: Callable[[], None]) -> None:
        self._last_there = self._arrival(self._last_there)
        self._world.at(self._last_there, arrives)

    def _arrival(self, last: int) -> int:
        """In order, and late while the line is silent: what was sent meanwhile is sent again by TCP."""
        when = self._world.now + jitter(self._network.dice, self._line.slow_ms)
        if self._world.now < self._line.silent_until:
            when = max(when, self._line.silent_until + self._backoff)
        return max(when, last)

    def _at_server(self, request: pb.GovernRequest | None) -> None:
        if self._server is not None and not self.cut:
            if not self._server.alive:
                self._world.after(
                    jitter(self._network.dice, 1), lambda: self._client.reach(self._fail_client)
                )
            else:
                self._server.reach(lambda: self._to_server.put_nowait(request))

    def _at_client(self, message: Any) -> None:
        if not self.cut:
            self._client.reach(lambda: self._to_client.put_nowait(message))

    def _fail_client(self) -> None:
        self._ended = True
        self._to_client.put_nowait(broken())

    def break_(self, dice_ns: int) -> None:
        """The connection is reset: each end hears of it a little later."""
        self.cut = True
        self._world.after(dice_ns, lambda: self._client.reach(self._fail_client))
        if self._server is not None:
            server = self._server
            self._world.after(
                self._network.dice.randrange(2 * SECOND),
                lambda: server.reach(lambda: self._to_server.put_nowait(None)),
            )

    # The server's end.

    def _begin(self) -> None:
        assert self._server is not None
        task = self._server.loop.create_task(self._serve())
        self._network.serving.add(task)
        task.add_done_callback(self._network.serving.discard)

    async def _requests(self) -> AsyncIterator[pb.GovernRequest]:
        while (request := await self._to_server.get()) is not None:
            yield request

    async def _serve(self) -> None:
        assert self._server is not None
        context = SimpleNamespace(peer=lambda: self._client.name)
        try:
            responses = self._server.rpc.Govern(self._requests(), context)  # type: ignore[attr-defined]
            async with aclosing(responses):
                async for response in responses:
                    self._reply(response)
        except Exception as error:  # noqa: BLE001 - a call that fails ends with a status
            self._world.note(f"{self._server.name} ends a call: {error!r}")
        self._reply(broken())

    def _reply(self, message: Any) -> None:
        self._last_back = self._arrival(self._last_back)
        self._world.at(self._last_back, lambda: self._at_client(message))


class Network:
    """All calls."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.dice = world.dice("network")
        self.clocks: dict[str, Process] = {}
        """By address, those that can be reached."""
        self.route: dict[str, str] = {}
        """Which address the clock's name means, for each game process."""
        self.lines: dict[tuple[str, str], Line] = {}
        self.calls: dict[str, Call] = {}
        """The last call of each game process."""
        self.serving: set[asyncio.Task[None]] = set()

    def line(self, engine: str, address: str) -> Line:
        """The line between two."""
        return self.lines.setdefault((engine, address), Line())

    def call(self, client: Process, engine: str) -> Call:
        """A new call to whatever clock the name means now."""
        address = self.route[engine]
        call = self.calls[engine] = Call(self, client, self.clocks.get(address), self.line(engine, address))
        return call


class Channel:
    """grpc.aio.insecure_channel, for the process that runs now."""

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        pass

    async def __aenter__(self) -> Channel:
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass
