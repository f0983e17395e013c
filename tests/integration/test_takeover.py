"""Matches outlive the process that plays them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
import pytest_asyncio

from client.bots.player import play
from client.match import HEARTBEAT_SECONDS_MAX, MatchStream, News
from client.table import TableState
from engine.seats import BySeat
from services.storage.evidence import get_time_facts
from tests.drains import drained, faults_of, operate, pauses, samples, sit_down
from tests.integration.test_explain import worked_out
from tests.knownmatches import UNEVEN, Known, unhurried
from tests.processes import Process
from tests.stack import Stack, stack

THINKING_SECONDS = 0.03
pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pair(
    new_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stack]:
    """The stack behind `two`."""
    quick = {"HEARTBEAT_SECONDS": "0.5", "LEASE_SECONDS": "2"}
    url = await asyncio.to_thread(new_database)
    async with stack(
        tmp_path_factory.mktemp("pair-stack"), url, {"game": quick, "game-1": quick}, names=()
    ) as made:
        await made.start("clock", "matchmaking", "game", "game-1")
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def two(pair: Stack) -> AsyncIterator[Stack]:
    """A stack with two game processes, both there for each test; each notices quickly that the other is gone."""
    yield pair
    await pair.restore("clock", "matchmaking", "game", "game-1")


class Playing:
    """Matches between greedy bots, 150 to 190 commands long; something happens once each has got under way."""

    def __init__(
        self,
        made: Stack,
        *,
        known: Sequence[Known] = UNEVEN,
        heartbeat_seconds_max: float = HEARTBEAT_SECONDS_MAX,
    ) -> None:
        self._stack = made
        self._known = known
        self._heartbeat_seconds_max = heartbeat_seconds_max
        self.match_ids: list[str] = []
        self._under_way: dict[str, asyncio.Event] = {}

    async def run(self, disturb: Callable[[], object]) -> list[TableState]:
        """Plays the matches and calls `disturb` when a few commands of each are done. Both last tables of each."""
        streams = []
        for known in self._known:
            players = BySeat(*await self._stack.players(2))
            match_id = await self._stack.create(players, **known.wanted())
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
                streams.append((stream, self._hear(match_id)))
        # All begin together: none is over before the others are under way.
        choose = unhurried(THINKING_SECONDS)
        tasks = [asyncio.create_task(play(stream, choose, hear)) for stream, hear in streams]
        await asyncio.gather(*(event.wait() for event in self._under_way.values()))
        disturb()
        return list(await asyncio.wait_for(asyncio.gather(*tasks), 120))

    def _hear(self, match_id: str) -> Callable[[News], None]:
        def hear(news: News) -> None:
            if news.table.sequence > 12:
                self._under_way[match_id].set()

        return hear


async def assert_fair(made: Stack, match_ids: list[str]) -> None:
    """One outcome each, decided by points; every figure follows from what is stored."""
    causes = await made.pool.fetch(
        "select cause, count(*) from match_outcome where match_id = any($1::uuid[]) group by cause", match_ids
    )
    voids = await made.pool.fetch(
        "select match_id, detail from clock_evidence where kind = 'void' and match_id = any($1::uuid[])",
        match_ids,
    )
    assert not [dict(row) for row in voids]
    assert {row["cause"]: row["count"] for row in causes} == {"balance": len(match_ids)}
    async with made.pool.acquire() as connection:
        for match_id in match_ids:
            assert worked_out(await get_time_facts(connection, match_id)).faults == []


async def owners(made: Stack, match_ids: list[str]) -> set[tuple[str, int]]:
    """Who owned these matches last, under which fence."""
    rows = await made.pool.fetch(
        "select engine_id, fence from match_owner where match_id = any($1::uuid[])", match_ids
    )
    return {(row["engine_id"], row["fence"]) for row in rows}


async def incidents(made: Stack, match_ids: list[str]) -> set[str]:
    """What happened to these matches, but for the stalls of a busy machine, its disk included."""
    rows = await made.pool.fetch(
        """
        select distinct i.kind from incident i join incident_match m on m.incident_id = i.incident_id
        where m.match_id = any($1::uuid[]) and i.kind not in ('stall', 'commit_stalled')
        """,
        match_ids,
    )
    return {row["kind"] for row in rows}


async def test_a_killed_process_loses_no_match(two: Stack) -> None:
    """Fault 9: SIGKILL in mid-match; the other process goes on, nobody forfeits, the outage is an incident."""
    playing = Playing(two)
    killed: Process = two.processes["game"]
    tables = await playing.run(killed.kill)
    assert all(table.outcome is not None for table in tables)
    await assert_fair(two, playing.match_ids)
    assert await owners(two, playing.match_ids) == {("game-1", 2)}
    assert await incidents(two, playing.match_ids) == {"takeover"}


async def test_a_process_that_is_told_to_stop_hands_its_matches_over(two: Stack) -> None:
    """Fault 8: SIGTERM; the matches go on elsewhere at once, and the players are told where."""
    playing = Playing(two)
    leaving = two.processes["game"]
    await playing.run(lambda: leaving.signal(signal.SIGTERM))
    assert await leaving.ended() == 0
    await assert_fair(two, playing.match_ids)
    assert await incidents(two, playing.match_ids) == {"handoff"}


async def test_a_process_that_was_paused_past_its_lease_changes_nothing(two: Stack) -> None:
    """Faults 14, 15: a zombie wakes up with matches that others play on; its writes and its streams come to nothing."""
    playing = Playing(two)
    paused = two.processes["game"]

    def pause() -> None:
        paused.signal(signal.SIGSTOP)
        asyncio.get_running_loop().call_later(5, paused.signal, signal.SIGCONT)

    await playing.run(pause)
    await assert_fair(two, playing.match_ids)
    assert {fence for _, fence in await owners(two, playing.match_ids)} == {2}


async def test_the_players_of_a_process_that_hangs_find_the_next_one(two: Stack) -> None:
    """Fault 15, and the process never wakes up: its connections stay open and silent, new ones are taken and silent too."""
    playing = Playing(two, heartbeat_seconds_max=2.0)
    hanging = two.processes["game"]
    await playing.run(lambda: hanging.signal(signal.SIGSTOP))
    await assert_fair(two, playing.match_ids)
    assert {engine_id for engine_id, _ in await owners(two, playing.match_ids)} == {"game-1"}
    hanging.kill()


async def test_the_end_of_a_match_can_be_read_when_its_process_is_gone(two: Stack) -> None:
    """Whoever comes back after the end, to the address of a process that died, is shown another and reads the result."""
    playing = Playing(two, known=UNEVEN[:1])
    await playing.run(lambda: None)
    gone = two.processes["game"]
    gone.kill()
    await gone.ended()
    client = await two.client(two.spectator())
    async with asyncio.timeout(60), client.play(playing.match_ids[0]) as stream:
        async for _ in stream:
            pass
        assert stream.table.outcome is not None


async def test_a_drained_process_loses_no_match_and_no_command(two: Stack) -> None:
    """An operator takes a process out of service while people play on it, with a command; it stays so over a restart."""
    sittings = [await sit_down(two, "game", (0.0, 0.3), number) for number in range(10)]
    playing = asyncio.gather(*(sitting.play() for sitting in sittings))
    await asyncio.gather(*(sitting.under_way.wait() for sitting in sittings))
    game = two.processes["game"]
    before = (await pauses(two, "game-1"))[-1][1]
    await drained(two, sittings)
    await game.event("readiness", ready=False, missing=["in_service"])
    assert ("spectacular_bid_draining", {}, 1.0) in await samples(two, "game")
    players = await two.players(2)
    client = await two.client(players[0])
    created = await client.challenge(player_id=players[1].player_id)
    assert created.address == two.address("game-1")
    await asyncio.wait_for(playing, 60)
    assert await faults_of(two, sittings) == []
    assert (await pauses(two, "game-1"))[-1][1] - before == len(sittings)
    carried = await two.pool.fetch(
        """
        select distinct on (match_id) carried_ns from match_log
        where match_id = any($1::uuid[]) and fence = 2 and carried_ns is not null order by match_id, revision
        """,
        [sitting.match_id for sitting in sittings],
    )
    assert {row["carried_ns"] for row in carried} == {0}, "each was left between two turns"
    assert await incidents(two, [sitting.match_id for sitting in sittings]) == {"handoff"}
    await game.terminate()
    await two.launch("game")
    restarted = two.processes["game"]
    await restarted.event("drain_ordered", matches=0)
    await restarted.event("readiness", ready=False, missing=["in_service"])
    await operate(two, "resume", "game", "--reason", "done")
    await restarted.ready()
