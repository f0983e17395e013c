"""Streams opened and dropped by the thousand, links reset again and again: what a process keeps of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import grpc

from services.wire import clock as clock_wire
from spectacularbid.internal.clock.v1.clock_service_pb2_grpc import ClockServiceStub
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import match_service_pb2_grpc as pb_grpc
from tests.services.clock.desk import Desk
from tests.stack import SECRET, Player, Stack

AT_ONCE: Final = 20
OPTIONS: Final = [("grpc.use_local_subchannel_pool", 1)]


async def open_and_cancel(made: Stack, match_id: str, players: Sequence[Player], times: int) -> None:
    """So many Watch streams, each read once and cancelled; the players take turns."""
    numbers = iter(range(times))
    async with grpc.aio.insecure_channel(made.address("game"), options=OPTIONS) as channel:
        stub: Any = pb_grpc.MatchServiceStub(channel)

        async def work() -> None:
            for number in numbers:
                player = players[number % len(players)]
                call = stub.Watch(pb.WatchRequest(match_id=match_id), metadata=player.metadata)
                await call.read()
                call.cancel()

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))


async def reset_links(made: Stack, times: int) -> None:
    """A game process attaches to the clock, and its stream breaks; so many times, each on a connection of its own."""
    desk = Desk()
    for number in range(times):
        async with grpc.aio.insecure_channel(made.address("clock"), options=OPTIONS) as channel:
            stub: Any = ClockServiceStub(channel)
            call = stub.Govern(metadata=(("authorization", f"Bearer {SECRET}"),))
            hello = desk.hello(number + 1, engine_id="unlucky")
            await call.write(clock_wire.request_to_pb([hello]))
            await call.read()
            call.cancel()
