"""What processes keep of streams and links that are gone, and of a quiet one: as many and as long as the cases ask for."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import match_service_pb2_grpc as pb_grpc
from tests.bench.usage import resident_megabytes
from tests.growth import open_and_cancel
from tests.integration.test_resume import gauge
from tests.proxy import Proxy
from tests.seats import Table, eventually
from tests.stack import HOST, Stack, stack, time_control

pytestmark = [pytest.mark.asyncio, pytest.mark.long]

STREAMS, STREAM_ROUNDS = 5_000, 3
RESETS, RESET_ROUNDS = 250, 4
GROWTH_MB_MAX: Final = 5.0
"""From the end of the first round, which warms up, to that of the last."""
SESSIONS: Final = "spectacular_bid_game_clock_sessions_total"
NAMES: Final = ("game", "clock")
QUIET_SECONDS: Final = 180.0
PINGS: Final = [("grpc.keepalive_time_ms", 20_000), ("grpc.http2.max_pings_without_data", 0)]


def memory(made: Stack) -> dict[str, float]:
    """Of both ends of a link, in MB."""
    return {name: resident_megabytes(made.processes[name].pid) for name in NAMES}


def flat(rounds: list[dict[str, float]]) -> None:
    """Fails when a process has grown after its first round."""
    print(rounds)
    for name in NAMES:
        assert rounds[-1][name] - rounds[0][name] < GROWTH_MB_MAX


async def test_fc_77_five_thousand_streams_opened_and_cancelled_leave_nothing(
    new_database: Callable[[], str], tmp_path: Path
) -> None:
    """FC-77, three rounds of 5,000."""
    async with stack(tmp_path, await asyncio.to_thread(new_database)) as made:
        table = await Table.create(made)
        spectators = [made.spectator() for _ in range(STREAMS // 10)]
        rounds = []
        for _ in range(STREAM_ROUNDS):
            await open_and_cancel(made, table.match_id, spectators, STREAMS)
            rounds.append(memory(made))
        flat(rounds)


async def test_fc_77_a_thousand_resets_of_the_link_to_the_clock_leave_nothing(
    new_database: Callable[[], str], tmp_path: Path
) -> None:
    """FC-77, a thousand resets of the real link in four rounds, with a match whose decision is open all the time."""
    async with (
        Proxy(HOST, 0) as link,
        stack(tmp_path, await asyncio.to_thread(new_database), names=()) as made,
    ):
        made.extra["game"] = {"CLOCK_ADDRESS": link.address}
        made.address("clock")
        link.aim((HOST, made.ports["clock"]))
        await made.start("clock", "matchmaking", "game")
        table = await Table.create(made, time_control=time_control(3_600_000, 10_000))
        rounds = []
        for _ in range(RESET_ROUNDS):
            for _ in range(RESETS):
                before = await gauge(made, "game", SESSIONS)
                link.cut()
                await eventually(partial(attached, made, before))
            rounds.append(memory(made))
        assert await made.outcome(table.match_id) is None
        flat(rounds)


async def attached(made: Stack, before: float) -> bool:
    """Whether a clock has accepted one more session."""
    return await gauge(made, "game", SESSIONS) > before


async def test_fc_84_twenty_second_pings_for_three_minutes(
    new_database: Callable[[], str], tmp_path: Path
) -> None:
    """FC-84, in full: grpc's own client with a ping every 20 s sits on a stream of a match in which nobody moves."""
    async with stack(tmp_path, await asyncio.to_thread(new_database)) as made:
        table = await Table.create(made, start=False, start_limit_ms=3_600_000)
        async with (
            Proxy(HOST, made.ports["game"]) as way,
            grpc.aio.insecure_channel(way.address, options=PINGS) as channel,
        ):
            stub: Any = pb_grpc.MatchServiceStub(channel)
            call = stub.Watch(pb.WatchRequest(match_id=table.match_id), metadata=made.spectator().metadata)
            heard = itertools.count()

            async def listen() -> None:
                while await call.read() is not grpc.aio.EOF:
                    next(heard)

            listening = asyncio.create_task(listen())
            done, _ = await asyncio.wait({listening}, timeout=QUIET_SECONDS)
            assert not done, "the stream was ended"
            assert way.accepted == 1
            assert next(heard) > 1
            listening.cancel()
