"""What a game process tells matchmaking of itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import grpc
import pytest

from services.game import placement_client
from services.game.incarnation import Incarnation
from services.game.placement_client import PlacementLink
from spectacularbid.internal.placement.v1 import placement_service_pb2 as pb
from spectacularbid.internal.placement.v1 import placement_service_pb2_grpc as pb_grpc
from tests.proxy import Proxy

PLACES = 50


class Listener(pb_grpc.PlacementServiceServicer):
    """A matchmaking that listens and places one match after the other, each when the last is confirmed."""

    def __init__(self) -> None:
        self.loads: asyncio.Queue[pb.Load] = asyncio.Queue()
        self.placed: list[str] = []
        self.all_placed = asyncio.Event()

    async def Register(  # type: ignore[override]
        self,
        requests: AsyncIterator[pb.RegisterRequest],
        _: grpc.aio.ServicerContext[pb.RegisterRequest, pb.RegisterResponse],
    ) -> AsyncIterator[pb.RegisterResponse]:
        """Welcomes whoever comes."""
        yield pb.RegisterResponse(welcome=pb.Welcome())
        async for request in requests:
            match request.WhichOneof("message"):
                case "load":
                    self.loads.put_nowait(request.load)
                case "placed":
                    self.placed.append(request.placed.match_id)
                    if len(self.placed) == PLACES:
                        self.all_placed.set()
                        return
                    yield self.place()

    def place(self) -> pb.RegisterResponse:
        """The next match."""
        return pb.RegisterResponse(place=pb.Place(match_id=f"m{len(self.placed)}", fence=1))


class Placer(Listener):
    """Begins to place as soon as somebody registers."""

    async def Register(  # type: ignore[override]
        self,
        requests: AsyncIterator[pb.RegisterRequest],
        context: grpc.aio.ServicerContext[pb.RegisterRequest, pb.RegisterResponse],
    ) -> AsyncIterator[pb.RegisterResponse]:
        """Welcomes whoever comes, with a match."""
        async for response in super().Register(requests, context):
            yield response
            if response.HasField("welcome"):
                yield self.place()


class OpenRooms:
    """A process that opens every room at once."""

    def __len__(self) -> int:
        return 0

    async def open(self, match_id: str, fence: int) -> object:
        """It is open."""
        return match_id, fence


@asynccontextmanager
async def serving(listener: Listener) -> AsyncIterator[int]:
    """A server of it; its port."""
    server = grpc.aio.server()
    pb_grpc.add_PlacementServiceServicer_to_server(listener, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(0)


@asynccontextmanager
async def linked(address: str, accepting: Callable[[], bool]) -> AsyncIterator[None]:
    """A process that registers there."""
    incarnation = Incarnation("game", "first", "127.0.0.1:1")
    link = PlacementLink(address, "secret", incarnation, 10, OpenRooms(), accepting)  # type: ignore[arg-type]
    running = asyncio.create_task(link.run())
    try:
        async with asyncio.timeout(30):
            yield
    finally:
        running.cancel()
        await asyncio.wait({running})


async def test_a_process_that_begins_to_take_matches_says_so_before_its_next_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It registers before its clock has answered, and nothing is placed anywhere until matchmaking knows that it has."""
    monkeypatch.setattr(placement_client, "ACCEPTING_CHECKS", 1_000_000)
    listener, accepting = Listener(), False
    async with serving(listener) as port, linked(f"127.0.0.1:{port}", lambda: accepting):
        assert not (await listener.loads.get()).accepting
        accepting = True
        assert (await listener.loads.get()).accepting


async def test_what_spoke_to_a_leader_that_died_takes_no_word_from_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each match that is loaded is confirmed to the one that placed it, or its players wait for nothing."""
    monkeypatch.setattr(placement_client, "ACCEPTING_CHECKS", 1_000_000)
    monkeypatch.setattr(placement_client, "ACCEPTING_SECONDS", 0.001)
    first, second = Listener(), Placer()
    async with (
        serving(first) as one,
        serving(second) as other,
        Proxy("127.0.0.1", one) as proxy,
        linked(proxy.address, lambda: True),
    ):
        await first.loads.get()
        proxy.aim(("127.0.0.1", other))
        proxy.cut()
        await second.all_placed.wait()
    assert second.placed == [f"m{number}" for number in range(PLACES)]
