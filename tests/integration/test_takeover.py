"""Matches outlive the process that plays them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from client.bots import greedy
from client.bots.player import play
from client.match import HEARTBEAT_SECONDS_MAX, MatchStream, News
from client.table import TableState
from engine.command import Command
from engine.seats import BySeat
from spectacularbid.match.v1 import table_pb2
from tests.processes import Process
from tests.stack import Stack, stack

MATCHES = 6
pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def two(database_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    """A stack with two game processes; each notices quickly that the other is gone."""
    quick = {"HEARTBEAT_SECONDS": "0.5", "LEASE_SECONDS": "2"}
    async with stack(tmp_path, database_url, {"game": quick, "game-1": quick}) as made:
        await made.start("game-1")
        yield made


class Playing:
    """Matches between greedy bots; something happens to the stack once each has got under way."""

    def __init__(self, made: Stack, *, heartbeat_seconds_max: float = HEARTBEAT_SECONDS_MAX) -> None:
        self._stack = made
        self._heartbeat_seconds_max = heartbeat_seconds_max
        self.match_ids: list[str] = []
        self._under_way: dict[str, asyncio.Event] = {}
        self.commands = 0

    async def run(self, disturb: Callable[[], object]) -> list[TableState]:
        """Plays MATCHES matches and calls `disturb` when a few commands of each are done. Both last tables of each."""
        tasks = []
        for _ in range(MATCHES):
            players = BySeat(*await self._stack.players(2))
            balances = table_pb2.Balances(north=100, south=200)
            match_id = await self._stack.create(players, balances=balances)
            self.match_ids.append(match_id)
            self._under_way[match_id] = asyncio.Event()
            for player in players:
                client = await self._stack.client(player)
                stream = MatchStream(
                    client._connections,
                    match_id,
                    client.game_address,
                    locate=client.locate,
                    heartbeat_seconds_max=self._heartbeat_seconds_max,
                )
                tasks.append(asyncio.create_task(play(stream, self._choose, self._hear(match_id))))
        await asyncio.gather(*(event.wait() for event in self._under_way.values()))
        disturb()
        return list(await asyncio.wait_for(asyncio.gather(*tasks), 120))

    def _choose(self, table: TableState) -> Command | None:
        command = greedy.choose(table)
        self.commands += command is not None
        return command

    def _hear(self, match_id: str) -> Callable[[News], None]:
        def hear(news: News) -> None:
            if news.table.sequence > 12:
                self._under_way[match_id].set()

        return hear


async def explained(made: Stack, match_id: str) -> str:
    """The dispute procedure of a match; fails when a figure cannot be reproduced."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.clock", "explain", match_id, "--database-url", made.database_url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=os.environ,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()


async def assert_fair(made: Stack, match_ids: list[str]) -> None:
    """One outcome each, decided by points; every figure follows from what is stored."""
    causes = await made.pool.fetch(
        "select cause, count(*) from match_outcome where match_id = any($1::uuid[]) group by cause", match_ids
    )
    voids = await made.pool.fetch("select match_id, detail from clock_evidence where kind = 'void'")
    assert not [dict(row) for row in voids]
    assert {row["cause"]: row["count"] for row in causes} == {"balance": len(match_ids)}
    for match_id in match_ids:
        assert "reproduced" in await explained(made, match_id)


async def test_a_killed_process_loses_no_match(two: Stack) -> None:
    """Fault 9: SIGKILL in mid-match; the other process goes on, nobody forfeits, the outage is an incident."""
    playing = Playing(two)
    killed: Process = two.processes["game"]
    tables = await playing.run(killed.kill)
    assert all(table.outcome is not None for table in tables)
    await assert_fair(two, playing.match_ids)
    owners = await two.pool.fetch("select engine_id, fence from match_owner")
    assert {(row["engine_id"], row["fence"]) for row in owners} == {("game-1", 2)}
    kinds = await two.pool.fetch("select distinct kind from incident where kind <> 'stall'")
    assert [row["kind"] for row in kinds] == ["takeover"]


async def test_a_process_that_is_told_to_stop_hands_its_matches_over(two: Stack) -> None:
    """Fault 8: SIGTERM; the matches go on elsewhere at once, and the players are told where."""
    playing = Playing(two)
    leaving = two.processes["game"]
    await playing.run(lambda: leaving.signal(signal.SIGTERM))
    assert await leaving.ended() == 0
    await assert_fair(two, playing.match_ids)
    kinds = await two.pool.fetch("select distinct kind from incident where kind <> 'stall'")
    assert [row["kind"] for row in kinds] == ["handoff"]


async def test_a_process_that_was_paused_past_its_lease_changes_nothing(two: Stack) -> None:
    """Faults 14, 15: a zombie wakes up with matches that others play on; its writes and its streams come to nothing."""
    playing = Playing(two)
    paused = two.processes["game"]

    def pause() -> None:
        paused.signal(signal.SIGSTOP)
        asyncio.get_running_loop().call_later(5, paused.signal, signal.SIGCONT)

    await playing.run(pause)
    await assert_fair(two, playing.match_ids)
    fences = await two.pool.fetch("select distinct fence from match_owner")
    assert [row["fence"] for row in fences] == [2]


async def test_the_players_of_a_process_that_hangs_find_the_next_one(two: Stack) -> None:
    """Fault 15, and the process never wakes up: its connections stay open and silent, new ones are taken and silent too."""
    playing = Playing(two, heartbeat_seconds_max=2.0)
    hanging = two.processes["game"]
    await playing.run(lambda: hanging.signal(signal.SIGSTOP))
    await assert_fair(two, playing.match_ids)
    owners = await two.pool.fetch("select distinct engine_id from match_owner")
    assert [row["engine_id"] for row in owners] == ["game-1"]
    hanging.kill()
