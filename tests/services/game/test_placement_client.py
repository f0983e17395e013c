"""What a game process tells matchmaking of itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from services.game import placement_client
from services.game.incarnation import Incarnation
from services.game.placement_client import PlacementLink
from spectacularbid.internal.placement.v1 import placement_service_pb2 as pb
from spectacularbid.internal.placement.v1 import placement_service_pb2_grpc as pb_grpc


class Listener(pb_grpc.PlacementServiceServicer):
    """A matchmaking that only listens."""

    def __init__(self) -> None:
        self.loads: asyncio.Queue[pb.Load] = asyncio.Queue()

    async def Register(  # type: ignore[override]
        self,
        requests: AsyncIterator[pb.RegisterRequest],
        _: grpc.aio.ServicerContext[pb.RegisterRequest, pb.RegisterResponse],
    ) -> AsyncIterator[pb.RegisterResponse]:
        """Welcomes whoever comes."""
        yield pb.RegisterResponse(welcome=pb.Welcome())
        async for request in requests:
            if request.HasField("load"):
                self.loads.put_nowait(request.load)


async def test_a_process_that_begins_to_take_matches_says_so_before_its_next_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It registers before its clock has answered, and nothing is placed anywhere until matchmaking knows that it has."""
    monkeypatch.setattr(placement_client, "ACCEPTING_CHECKS", 1_000_000)
    listener, server = Listener(), grpc.aio.server()
    pb_grpc.add_PlacementServiceServicer_to_server(listener, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    accepting = False
    link = PlacementLink(
        f"127.0.0.1:{port}",
        "secret",
        Incarnation("game", "first", "127.0.0.1:1"),
        10,
        [],  # type: ignore[arg-type]
        lambda: accepting,
    )
    running = asyncio.create_task(link.run())
    try:
        async with asyncio.timeout(30):
            assert not (await listener.loads.get()).accepting
            accepting = True
            assert (await listener.loads.get()).accepting
    finally:
        running.cancel()
        await asyncio.wait({running})
        await server.stop(0)
