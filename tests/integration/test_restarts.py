"""Processes that die, stop, freeze or lose their database in the middle of matches: those go on, and nobody pays for it."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable

import grpc
import pytest

from client.bots.player import play as sit
from client.errors import CallError, from_rpc
from client.match import News
from client.session import CASUAL
from engine.command import Resign, Start
from engine.event import RoundDealt
from engine.seats import NORTH, SEATS, SOUTH, BySeat
from engine.shuffle import drawn
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.engine.tables import deal, play
from tests.integration.conftest import Behind
from tests.integration.soundness import sound
from tests.integration.test_resume import gauge, stored
from tests.knownmatches import LONG, unhurried
from tests.proxy import Way
from tests.seats import Table, eventually, on_a_stream, scripted
from tests.stack import Player, Stack, time_control

pytestmark = pytest.mark.asyncio(loop_scope="session")

FORCED = scripted(deal("6|6 1|2", "0|6 0|1"))


async def bots_through(
    made: Stack, trouble: Callable[[int], Awaitable[None]], *, times: int, each: int = 12
) -> str:
    """Two bots of the client library play on while `trouble` strikes after every so many events."""
    players = BySeat(*await made.players(2))
    match_id = await made.create(players, **LONG.wanted())

    async def one(player: Player) -> None:
        client = await made.client(player)
        heard: list[int] = []
        snapshots = 0

        def hear(news: News) -> None:
            nonlocal snapshots
            heard.extend(event.sequence for event in news.events)
            snapshots += news.snapshot

        await sit(client.play(match_id), unhurried(0.03), hear)
        assert heard == list(range(heard[0], heard[-1] + 1))
        assert snapshots == 1

    async def strike() -> None:
        for number in range(times):

            async def far_enough(wanted: int = (number + 1) * each) -> bool:
                sequence = await made.pool.fetchval(
                    "select coalesce(max(last_sequence), 0) from match_log where match_id = $1", match_id
                )
                return bool(sequence >= wanted) or await made.outcome(match_id) is not None

            await eventually(far_enough)
            await trouble(number)

    await asyncio.gather(strike(), *(one(player) for player in players))
    await sound(made, match_id)
    outcome = await made.outcome(match_id)
    assert outcome is not None
    assert outcome["cause"] == "balance"
    return match_id


async def test_bots_play_through_crashes_and_restarts_of_every_process(own: Stack) -> None:
    """SIGKILL and SIGTERM of the game process, SIGKILL of the clock and of matchmaking, one after the other in one match: the
    bots of the client library finish it; nothing is lost, nothing done twice, no bank pays."""

    async def trouble(number: int) -> None:
        name, end = [
            ("game", own.processes["game"].kill),
            ("clock", own.processes["clock"].kill),
            ("matchmaking", own.processes["matchmaking"].kill),
            ("game", None),
            ("clock", None),
        ][number]
        if end is None:
            assert await own.processes[name].terminate() == 0
        else:
            end()
        await own.start(name)

    match_id = await bots_through(own, trouble, times=5)
    fences = await own.pool.fetch("select distinct fence from match_log where match_id = $1", match_id)
    assert {row["fence"] for row in fences} >= {1, 2}
    assert (await own.state(match_id)).banks == BySeat(120 * 10**9, 120 * 10**9)


async def test_bots_play_through_lost_database_connections(own: Stack) -> None:
    """Every connection of the services is cut again and again: rulings wait and are stored once, calls that look something
    up say UNAVAILABLE at worst and never INTERNAL."""
    watcher = own.spectator()
    seen: set[str] = set()

    async def trouble(number: int) -> None:
        await own.pool.execute(
            """
            select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and application_name in ('game', 'matchmaking', 'clock')
            """
        )
        for call in (
            own.matches().ListMyMatches(pb.ListMyMatchesRequest(), metadata=watcher.metadata),
            own.matches().GetRecord(
                pb.GetRecordRequest(match_id="00000000-0000-4000-8000-000000000000"),
                metadata=watcher.metadata,
            ),
        ):
            try:
                await call
                seen.add("OK")
            except grpc.aio.AioRpcError as error:
                seen.add(from_rpc(error).reason)

    await bots_through(own, trouble, times=6)
    assert seen <= {"OK", "TRY_AGAIN", "MATCH_NOT_FOUND"}


async def test_a_query_that_the_database_ends_is_asked_for_again(own: Stack) -> None:
    """The connection of a waiting query is ended: UNAVAILABLE with RetryInfo, not INTERNAL; the next call works."""
    (player,) = await own.players(1)

    async def ended() -> bool:
        return bool(
            await own.pool.fetchval(
                """
                select count(pg_terminate_backend(pid)) from pg_stat_activity
                where datname = current_database() and application_name = 'game' and wait_event_type = 'Lock'
                """
            )
        )

    async with own.pool.acquire() as connection, connection.transaction():
        await connection.execute("lock table match_outcome in access exclusive mode")
        call = own.matches().ListMyMatches(pb.ListMyMatchesRequest(), metadata=player.metadata)
        await eventually(ended)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call
    error = from_rpc(refused.value)
    assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "TRY_AGAIN")
    assert error.retry_after_seconds
    await own.matches().ListMyMatches(pb.ListMyMatchesRequest(), metadata=player.metadata)


async def test_a_database_that_is_away_costs_nobody_time(behind: Behind) -> None:
    """A command is judged in time, but cannot be stored for longer than the next seat has altogether: nobody is told, nobody
    pays, and the next decision starts with its whole time when the commit is through (clock.md R8, fault 11)."""
    made = behind.stack
    table = await Table.create(made, deals=FORCED, time_control=time_control(500, 1500))
    watching = await table.events(SOUTH)
    await watching.read()
    behind.proxy.refusing = True
    behind.proxy.cut()
    request = table.request(play(NORTH, "6|6"), 2)
    sent = asyncio.create_task(on_a_stream(table, table.players.north, request))
    until = time.monotonic() + 3

    async def long_after() -> bool:
        return time.monotonic() > until

    await eventually(long_after)
    assert not sent.done()
    assert not any(response.events for response in watching.responses)
    behind.proxy.heal()
    (answer,) = await sent
    assert answer.HasField("applied")
    await table.do(Resign(SOUTH))
    row = await made.pool.fetchrow(
        "select * from match_log where match_id = $1 and request_id = $2", table.match_id, request.request_id
    )
    assert row is not None
    assert (row["charge_ns"], row["bank_after_ns"]) == (0, 500 * 10**6)
    assert await stored(table, request) == 1
    outcome = await made.outcome(table.match_id)
    assert outcome is not None
    assert outcome["cause"] == "resignation"


async def test_every_process_can_be_stopped_while_the_database_hangs(behind: Behind) -> None:
    """In order, within four times the drain grace and ten seconds, a match that cannot be handed over included: connections
    that are in the middle of something are left as they are."""
    made = behind.stack
    names = ("clock", "matchmaking", "game")

    async def noticed() -> bool:
        return all(
            any("database" in line.get("missing", ()) for line in made.processes[name].events())
            for name in names
        )

    behind.proxy.hold(*Way)
    try:
        await eventually(noticed)
        ended = await asyncio.gather(*(made.processes[name].terminate(seconds_max=30) for name in names))
        assert ended == [0, 0, 0]
    finally:
        behind.proxy.heal()
        await made.restore(*names)


async def test_a_deadline_survives_the_crash_of_the_clock(own: Stack) -> None:
    """FC-03: the clock dies while a decision runs and comes back after its deadline: the forfeit is decided from the stamps
    of the game process, at the same deadline; nothing is void, nothing is stuck, no remainder is negative."""
    table = await Table.create(own, deals=FORCED, time_control=time_control(500, 500))
    watching = await table.events(own.spectator())
    first = await watching.read()
    assert first is not None
    own.processes["clock"].kill()

    async def past() -> bool:
        return (await table.view(NORTH)).prompt.clock.remaining_ms == 0

    await eventually(past)
    assert await own.outcome(table.match_id) is None
    await own.start("clock")
    for response in await watching.to_the_end():
        clock = response.prompt.clock if response.HasField("prompt") else response.snapshot.table.prompt.clock
        assert min(clock.remaining_ms, clock.delay_left_ms, clock.north_bank_ms, clock.south_bank_ms) >= 0
    outcome, evidence = await own.outcome(table.match_id), await own.evidence(table.match_id)
    assert outcome is not None
    assert (outcome["cause"], outcome["winner"]) == ("time", "south")
    detail = evidence["detail"]
    assert detail["deadline_ns"] == detail["start_ns"] + 10**9
    assert detail["proof_ns"] >= detail["deadline_ns"]


async def test_a_command_at_the_deadline_while_the_clock_stands_still_is_expired(own: Stack) -> None:
    """CLOCK_EXPIRED: the clock process is frozen past the deadline, so that the command itself is the proof; it changes
    nothing; the match is lost on time; the same command again finds it over."""
    table = await Table.create(own, deals=FORCED, time_control=time_control(300, 700))
    own.processes["clock"].signal(signal.SIGSTOP)

    async def past() -> bool:
        return (await table.view(NORTH)).prompt.clock.remaining_ms == 0

    await eventually(past)
    request = table.request(play(NORTH, "6|6"), 2)
    sent = asyncio.create_task(on_a_stream(table, table.players.north, request))

    async def under_way() -> bool:
        return await gauge(own, "game", "spectacular_bid_game_held_commands") == 1

    await eventually(under_way)
    own.processes["clock"].signal(signal.SIGCONT)
    (answer,) = await sent
    assert (answer.refused.reason_word, answer.refused.rule) == ("CLOCK_EXPIRED", "6.7")
    assert answer.refused.code == grpc.StatusCode.FAILED_PRECONDITION.value[0]
    with pytest.raises(CallError) as over:
        await table.send(NORTH, request)
    assert over.value.reason == "MATCH_OVER"
    evidence = await own.evidence(table.match_id)
    assert evidence["detail"]["proof"] == "arrival"
    assert evidence["detail"]["arrive_ns"] >= evidence["detail"]["deadline_ns"]
    state = await own.state(table.match_id)
    assert not state.layout.placements
    assert state.banks == BySeat(0, 300 * 10**6)
    assert await stored(table, request) == 0


async def test_a_command_before_the_deadline_is_in_time_however_late_the_verdict(own: Stack) -> None:
    """P0: heard is heard. The clock process is frozen until long after the deadline, the command came before it."""
    table = await Table.create(own, deals=FORCED, time_control=time_control(1500, 1500))
    own.processes["clock"].signal(signal.SIGSTOP)
    request = table.request(play(NORTH, "6|6"), 2)
    sent = asyncio.create_task(on_a_stream(table, table.players.north, request))
    deadline = time.monotonic() + 3.5

    async def past() -> bool:
        return time.monotonic() > deadline

    await eventually(past)
    assert not sent.done()
    own.processes["clock"].signal(signal.SIGCONT)
    (answer,) = await sent
    assert answer.HasField("applied")
    row = await own.pool.fetchrow(
        "select * from match_log where match_id = $1 and request_id = $2", table.match_id, request.request_id
    )
    assert row is not None
    assert row["arrive_ns"] < row["start_ns"] + 3 * 10**9


async def test_another_owner_takes_over_and_the_zombie_writes_nothing(own: Stack) -> None:
    """Two processes believe they own a match: the database lets the newer one write. The older is told by its first write, its
    player by TRY_AGAIN and then WRONG_ADDRESS with the new address; the command has one effect."""
    await own.start("game-1")
    table = await Table.create(own, deals=FORCED)
    await own.pool.execute(
        "update match_owner set engine_id = 'game-1', fence = 2 where match_id = $1", table.match_id
    )
    request = table.request(play(NORTH, "6|6"), 2)
    (answer,) = await on_a_stream(table, table.players.north, request)
    assert (answer.refused.reason_word, answer.refused.retry_after_ms > 0) == ("TRY_AGAIN", True)
    with pytest.raises(CallError) as wrong:
        await table.send(NORTH, request)
    assert (wrong.value.reason, wrong.value.metadata["address"]) == ("WRONG_ADDRESS", own.address("game-1"))
    there = Table(own, table.match_id, table.players, game="game-1")
    applied = await there.send(NORTH, request)
    assert await there.send(NORTH, request) == applied
    await there.do(Resign(SOUTH))
    rows = await own.pool.fetch(
        "select fence, request_id from match_log where match_id = $1 and turn is not null", table.match_id
    )
    assert [tuple(row) for row in rows] == [(2, request.request_id)]
    await sound(own, table.match_id)


async def test_a_process_listens_before_its_matches_go_on(own: Stack) -> None:
    """Where a match goes on its time runs, so its players must be heard by then: those who come back while the matches are
    still being taken up are answered, however long that takes."""
    table = await Table.create(own, deals=FORCED)
    own.processes["game"].kill()
    database = await own.database()
    async with database.transaction():
        await database.execute("select from match_owner where match_id = $1 for update", table.match_id)
        await own.launch("game")
        await own.processes["game"].event("readiness", missing=["custody"])
        with pytest.raises(CallError) as refused:
            await view(own, table)
        assert refused.value.reason == "TRY_AGAIN"
        assert refused.value.message == "the match is being taken up again"
    await own.processes["game"].ready()
    await table.do(play(NORTH, "6|6"))


async def view(made: Stack, table: Table) -> None:
    """What north is told of the match, asked once."""
    request = pb.GetMatchRequest(match_id=table.match_id)
    try:
        await made.matches().GetMatch(
            request, metadata=table.players[NORTH].metadata, wait_for_ready=True, timeout=30
        )
    except grpc.aio.AioRpcError as error:
        raise from_rpc(error) from None


async def test_a_match_that_cannot_be_loaded_stops_no_process(own: Stack) -> None:
    """The log cannot be read in the moment of the placement: other matches go on, and this one as soon as it is asked for."""
    players = await own.players(2)
    clients = [await own.client(player) for player in players]
    await own.pool.execute("alter table match_log rename to elsewhere")
    seeking = [asyncio.create_task(client.seek(CASUAL)) for client in clients]
    await own.processes["game"].event("placement_failed")
    await own.pool.execute("alter table elsewhere rename to match_log")
    handles = await asyncio.gather(*seeking)
    table = Table(
        own,
        handles[0].match_id,
        BySeat(*(player for _, player in sorted(zip((h.seat for h in handles), players, strict=True)))),
    )
    await table.start()
    await table.do(Resign(NORTH))
    assert own.processes["game"].exit_status() is None


async def test_a_seek_survives_the_restart_of_matchmaking(own: Stack) -> None:
    """The client library seeks again by itself; both are matched once."""
    players = await own.players(2)
    clients = [await own.client(player) for player in players]
    waited = asyncio.Event()
    first = asyncio.create_task(clients[0].seek(CASUAL, waiting=lambda _: waited.set()))
    async with asyncio.timeout(30):
        await waited.wait()
    own.processes["matchmaking"].kill()
    await own.start("matchmaking")
    second = await clients[1].seek(CASUAL)
    assert (await first).match_id == second.match_id
    ids = [player.player_id for player in players]
    assert await own.pool.fetchval("select count(*) from match where north = any($1)", ids) == 1
    assert await own.pool.fetchval("select count(*) from seek where player_id = any($1)", ids) == 0


async def test_half_a_start_and_a_lone_continue_survive_a_crash(own: Stack) -> None:
    """What one seat has pressed stays pressed; no tile is dealt by the restart. The deal is drawn from the seed that was
    announced before the first crash, and from what both have added, one on each side of a crash."""
    table = await Table.create(own, start=False)
    announced = (await table.view(SOUTH)).next_commitment
    for seat in SEATS:
        await table.do(Start(seat, f"what {seat} adds".encode()))
        own.processes["game"].kill()
        await own.start("game")
        view = await table.view(seat)
        assert (view.round == 1) is (seat is SOUTH)
    view = await table.view(SOUTH)
    dealt = next(event for event in await own.events(table.match_id) if isinstance(event, RoundDealt))
    assert view.commitment == dealt.commitment == announced
    assert dealt.contributions == BySeat(b"what north adds", b"what south adds")
    assert dealt.deal == drawn(table.match_id, 1, dealt.salt, dealt.contributions)
    assert view.next_commitment == dealt.next_commitment
    await table.do(Resign(NORTH))
