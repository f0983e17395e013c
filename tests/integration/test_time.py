"""Time through real processes: cases from the field and hard scenarios, with scaled clocks.

The cases ask for hundreds of repetitions; here there are as many as a test suite bears, several matches at once. What
is compared are stamps and rows that the services stored, never this machine's idea of the time.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import grpc
import pytest
import pytest_asyncio

from client.errors import CallError
from client.session import RATED
from engine.command import Command, Decline, Draw
from engine.event import MatchEnded, TileDrawn
from engine.seats import NORTH, SEATS, SOUTH, BySeat
from engine.tiles import DOUBLE_SIX
from services.storage.evidence import get_time_facts
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import match_service_pb2_grpc as pb_grpc
from spectacularbid.match.v1 import table_pb2
from tests.engine.tables import deal, play
from tests.integration.test_declarations import WHO, ops
from tests.integration.test_explain import worked_out
from tests.processes import free_port
from tests.proxy import Proxy, Way
from tests.seats import Table, eventually, new_id, scripted
from tests.stack import Stack, stack, time_control

pytestmark = pytest.mark.asyncio(loop_scope="session")

FORCED = deal("6|6 1|2", "0|6 0|1")
"""North opens with the double six."""
DRAWING = deal("0|0 0|1 0|2 1|1 1|2 2|2 0|3", "6|6 5|5", "1|3 0|6")
"""South opens with the double six, and north has nothing to play."""


async def reproduced(table: Table) -> None:
    """The dispute procedure agrees with everything that was stored."""
    connection = await table.stack.database()
    try:
        made = worked_out(await get_time_facts(connection, table.match_id))
    finally:
        await connection.close()
    assert made.faults == []


async def left_ms(table: Table) -> int:
    """What the running decision has left, as a spectator is told."""
    return (await table.view(NORTH)).prompt.clock.remaining_ms


async def near_the_deadline(table: Table, offset_ms: float) -> None:
    """Sleeps until so long before (or, negative, after) the deadline: the race itself."""
    await asyncio.sleep(max(0.0, (await left_ms(table) - offset_ms) / 1000))


async def in_time(table: Table, command: Command, decision_id: int) -> bool:
    """Whether a command is carried out; else it must have come too late."""
    try:
        await table.do(command, decision_id=decision_id)
    except CallError as error:
        if error.reason not in ("CLOCK_EXPIRED", "MATCH_OVER"):
            raise
        return False
    return True


async def one_row(made: Stack, query: str, match_id: str) -> asyncpg.Record:
    """The first row about a match."""
    row = await made.pool.fetchrow(query, match_id)
    assert row is not None
    return row


async def is_over(table: Table) -> bool:
    return await table.stack.outcome(table.match_id) is not None


async def test_fc_01_at_the_deadline_one_is_lost_and_the_other_is_never_touched(shared: Stack) -> None:
    """FC-01, scenario 8 on the way: 24 commands (the case asks for 300) spread over 20 ms around the deadline; each is
    accepted, or the mover has lost; the opponent's clock never started."""

    async def race(number: int) -> str:
        table = await Table.create(shared, deals=scripted(FORCED), time_control=time_control(200, 400))
        decision = (await table.view(NORTH)).prompt.decision_id
        await near_the_deadline(table, 20 - number * 40 / 23)
        if not await in_time(table, play(NORTH, "6|6"), decision):
            outcome = await shared.outcome(table.match_id)
            assert outcome is not None
            assert (outcome["winner"], outcome["cause"]) == ("south", "time")
            state = await shared.state(table.match_id)
            assert state.banks[SOUTH] == 200_000_000
            assert not state.layout.placements
            await reproduced(table)
            return "lost"
        row = await one_row(
            shared,
            "select start_ns, arrive_ns from match_log where match_id = $1 and start_ns is not null order by revision",
            table.match_id,
        )
        assert row["arrive_ns"] - row["start_ns"] < 600_000_000
        return "in time"

    results = await asyncio.gather(*(race(number) for number in range(24)))
    assert set(results) <= {"lost", "in time"}


async def test_fc_05_arrival_counts_and_neither_the_way_nor_the_work(fresh: Stack) -> None:
    """FC-05: (a) a slow line is the player's own; (b) a command that came before the deadline while the process stood
    still is in time."""
    slow = await Table.create(fresh, deals=scripted(FORCED), time_control=time_control(500, 1500))
    decision = (await slow.view(NORTH)).prompt.decision_id
    async with (
        Proxy("127.0.0.1", fresh.ports["game"]) as proxy,
        grpc.aio.insecure_channel(proxy.address) as channel,
    ):
        await channel.channel_ready()
        proxy.delay(Way.UP, 3)
        request = slow.request(play(NORTH, "6|6"), decision)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await pb_grpc.MatchServiceStub(channel).Submit(request, metadata=slow.players[NORTH].metadata)
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    outcome = await fresh.outcome(slow.match_id)
    assert outcome is not None
    assert (outcome["winner"], outcome["cause"]) == ("south", "time")

    busy = await Table.create(fresh, deals=scripted(FORCED), time_control=time_control(500, 1500))
    request = busy.request(play(NORTH, "6|6"), (await busy.view(NORTH)).prompt.decision_id)
    await near_the_deadline(busy, 700)
    game = fresh.processes["game"]
    game.signal(signal.SIGSTOP)
    sending = asyncio.create_task(busy.send(NORTH, request))
    await asyncio.sleep(1.5)  # past the deadline
    game.signal(signal.SIGCONT)
    await sending
    row = await one_row(
        fresh, "select elapsed_ns from match_log where match_id = $1 and start_ns is not null", busy.match_id
    )
    assert row["elapsed_ns"] < 2_000_000_000
    await reproduced(slow)


async def test_fc_07_an_empty_bank_still_has_its_delay(shared: Stack) -> None:
    """FC-07: with nothing in the bank there is the delay for each new decision, and no more."""
    table = await Table.create(shared, deals=scripted(FORCED), time_control=time_control(0, 1500))
    view = await table.view(NORTH)
    assert (view.prompt.clock.north_bank_ms, 0 < view.prompt.clock.delay_left_ms <= 1500) == (0, True)
    await table.do(play(NORTH, "6|6"))
    await table.do(play(SOUTH, "0|6", "6|6 line_a"))
    await table.until_over()
    evidence = (await shared.evidence(table.match_id))["detail"]
    assert evidence["deadline_ns"] - evidence["start_ns"] == 1_500_000_000
    await reproduced(table)


async def test_fc_11_a_draw_at_the_deadline_has_one_effect(shared: Stack) -> None:
    """FC-11: 16 draws (the case asks for 500) within milliseconds of the deadline: a tile, or a forfeit, never both."""

    async def race(number: int) -> None:
        table = await Table.create(shared, deals=scripted(DRAWING), time_control=time_control(200, 400))
        await table.do(play(SOUTH, "6|6"))
        decision = (await table.view(NORTH)).prompt.decision_id
        await near_the_deadline(table, 6 - number)
        drawn = int(await in_time(table, Draw(NORTH), decision))
        await eventually(lambda: is_over(table))
        truth = await shared.truth(table.match_id)
        assert sum(isinstance(event, TileDrawn) for event in truth.events) == drawn
        assert sum(isinstance(event, MatchEnded) for event in truth.events) == 1
        state = truth.states[-1]
        held = [tile for seat in SEATS for tile in state.hands[seat]] + list(state.boneyard)
        held += [placed.tile for placed in state.layout.placements]
        assert sorted(held) == sorted(DOUBLE_SIX)
        await reproduced(table)

    await asyncio.gather(*(race(number) for number in range(16)))


async def test_fc_19_one_end_whoever_looks(shared: Stack) -> None:
    """FC-19: 12 races (the case asks for 500) between the tile that ends the match and the deadline: one winner and one
    cause for both streams, a query, the list of matches and the database."""

    async def race(number: int) -> None:
        table = await Table.create(
            shared,
            deals=scripted(deal("5|5 1|2", "0|5 0|1")),
            balances=table_pb2.Balances(north=290, south=10),
            jockey=table_pb2.SEAT_NORTH,
            time_control=time_control(300, 500),
        )
        streams = [asyncio.create_task((await table.events(seat)).to_the_end()) for seat in SEATS]
        await table.do(Decline(SOUTH))
        decision = (await table.view(NORTH)).prompt.decision_id
        await near_the_deadline(table, 5 - number)
        await in_time(table, play(NORTH, "5|5"), decision)
        seen = set()
        for stream in streams:
            ended = [
                event.match_ended.outcome
                for message in await stream
                for event in message.events
                if event.HasField("match_ended")
            ]
            assert len(ended) == 1
            seen.add((ended[0].winner, ended[0].cause))
        view = await table.view(NORTH)
        seen.add((view.outcome.winner, view.outcome.cause))
        outcome = await shared.outcome(table.match_id)
        assert outcome is not None
        assert len(seen) == 1, seen
        ((winner, cause),) = seen
        assert table_pb2.Seat.Name(winner) == f"SEAT_{outcome['winner'].upper()}"
        assert table_pb2.Cause.Name(cause) == f"CAUSE_{outcome['cause'].upper()}"
        assert (outcome["winner"], outcome["cause"]) in (("north", "balance"), ("south", "time"))

    await asyncio.gather(*(race(number) for number in range(12)))


async def test_an_illegal_command_at_the_deadline_proves_nothing(shared: Stack) -> None:
    """Scenario 8: illegal commands before and after the deadline change nothing; the forfeit rests on the watermark, and
    the legal command that comes after it is lost."""
    table = await Table.create(shared, deals=scripted(FORCED), time_control=time_control(200, 600))
    decision = (await table.view(NORTH)).prompt.decision_id
    reasons = set()
    while not await is_over(table):
        reasons.add((await table.refused(play(NORTH, "1|2"), decision_id=decision)).reason)
    assert reasons <= {"OPENING_TILE_FORCED", "MATCH_OVER"}
    evidence = (await shared.evidence(table.match_id))["detail"]
    assert evidence["proof"] == "watermark"
    assert evidence["deadline_ns"] - evidence["start_ns"] == 800_000_000
    assert (await table.refused(play(NORTH, "6|6"), decision_id=decision)).reason == "MATCH_OVER"
    assert (
        await shared.pool.fetchval(
            "select count(*) from match_log where match_id = $1 and start_ns is not null", table.match_id
        )
        == 0
    )


async def test_a_slow_commit_is_nobodys_time(fresh: Stack) -> None:
    """Scenario 40, faults 11 and 24: the database takes no rulings for two seconds. The mover is charged up to the arrival,
    the opponent's delay begins after the commit, and the stall is kept as an incident that held the match. Another match,
    in which nobody is to move, loses nothing either (scenario 41)."""
    waiting = await Table.create(fresh, start=False)
    table = await Table.create(fresh, deals=scripted(FORCED), time_control=time_control(300, 1500))
    async with fresh.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("lock table match_log in exclusive mode")
        moving = asyncio.create_task(table.do(play(NORTH, "6|6")))
        await asyncio.sleep(2)  # longer than delay and bank together
        await transaction.rollback()
    await moving
    view = await table.view(SOUTH)
    assert (view.prompt.clock.north_bank_ms, view.prompt.clock.south_bank_ms) == (300, 300)
    assert view.prompt.clock.remaining_ms > 800
    await table.do(play(SOUTH, "0|6", "6|6 line_a"))

    async def noted() -> bool:
        return bool(
            await fresh.pool.fetchval(
                """
                select count(*) from incident i join incident_match m on m.incident_id = i.incident_id
                where i.kind = 'commit_stalled' and m.match_id = $1 and m.effect = 'held'
                """,
                table.match_id,
            )
        )

    await eventually(noted)
    await waiting.start()
    await reproduced(table)


async def test_evidence_that_cannot_be_stored_leaves_no_outcome(fresh: Stack) -> None:
    """Scenario 43, fault 27: the forfeit is proven, its evidence is refused: there is no outcome, and the match is held."""
    await fresh.pool.execute("alter table clock_evidence add constraint full_up check (false) not valid")
    table = await Table.create(fresh, deals=scripted(FORCED), time_control=time_control(100, 300))

    async def held() -> bool:
        try:
            await table.do(play(NORTH, "6|6"), decision_id=1)
        except CallError as error:
            return error.reason == "MATCH_HELD"
        return False

    await eventually(held)
    assert await fresh.outcome(table.match_id) is None
    log = await fresh.pool.fetch("select events from match_log where match_id = $1", table.match_id)
    assert not any("match_ended" in row["events"] for row in log)


async def test_a_client_that_leaves_at_every_decision_gets_no_credit(shared: Stack) -> None:
    """Scenario 46, rule R24, fault 18: reloads and broken streams stop no clock; what is credited is the service's fresh."""
    table = await Table.create(shared, deals=scripted(FORCED), time_control=time_control(1000, 500))
    for _ in range(12):
        for seat in SEATS:
            stream = await table.events(seat)
            await stream.read()
            stream.call.cancel()
    await table.until_over()
    assert (await shared.outcome(table.match_id))["cause"] == "time"  # type: ignore[index]
    kinds = await shared.pool.fetch(
        "select i.kind from incident_match m join incident i on i.incident_id = m.incident_id where m.match_id = $1",
        table.match_id,
    )
    assert {row["kind"] for row in kinds} <= {"stall"}  # of a busy machine
    await reproduced(table)


async def test_a_flood_buys_no_time_and_takes_none_from_others(shared: Stack) -> None:
    """Scenario 45: a client sends as many illegal commands as it can until its deadline and after it. It loses on time;
    a match beside it is played in time; whatever was credited to either is a stall that was kept."""
    flooded = await Table.create(shared, deals=scripted(FORCED), time_control=time_control(500, 1500))
    beside = await Table.create(shared, deals=scripted(FORCED), time_control=time_control(10_000, 5_000))
    decision = (await flooded.view(NORTH)).prompt.decision_id
    call = flooded.stub.Play(metadata=flooded.players[NORTH].metadata)
    await call.write(pb.PlayRequest(join=pb.WatchRequest(match_id=flooded.match_id)))
    answered = sent = 0

    async def listen() -> None:
        nonlocal answered
        while isinstance(message := await call.read(), pb.PlayResponse):
            answered += len(message.answers)

    async def flood() -> None:
        nonlocal sent
        while not listening.done():
            await call.write(pb.PlayRequest(submit=flooded.request(play(NORTH, "1|2"), decision)))
            sent += 1

    listening = asyncio.create_task(listen())
    flooding = asyncio.create_task(flood())
    await beside.do(play(NORTH, "6|6"))
    await beside.do(play(SOUTH, "0|6", "6|6 line_a"))
    await eventually(lambda: is_over(flooded))
    call.cancel()
    await asyncio.gather(listening, flooding, return_exceptions=True)
    assert sent > 200
    assert answered > 0
    evidence = (await shared.evidence(flooded.match_id))["detail"]
    assert evidence["deadline_ns"] - evidence["start_ns"] == 2_000_000_000
    assert not await is_over(beside)
    kinds = await shared.pool.fetch(
        "select i.kind from incident_match m join incident i on i.incident_id = m.incident_id where m.match_id = any($1)",
        [flooded.match_id, beside.match_id],
    )
    assert {row["kind"] for row in kinds} <= {"stall"}
    await reproduced(flooded)


async def test_no_message_of_a_client_has_a_time_in_it() -> None:
    """Scenario 47: there is no field for a forged timestamp; what a client adds of its own is not read."""
    seen = set()

    def fields(message: type) -> None:
        descriptor = message.DESCRIPTOR  # type: ignore[attr-defined]
        for field in descriptor.fields:
            seen.add(field.full_name)
            if field.message_type is not None and f"{field.message_type.full_name}" not in walked:
                walked.add(field.message_type.full_name)
                fields(field.message_type._concrete_class)

    walked: set[str] = set()
    for message in (pb.SubmitRequest, pb.PlayRequest, pb.WatchRequest):
        fields(message)
    words = ("_ms", "_ns", "_at", "time", "stamp", "clock", "elapsed", "lag")
    assert [name for name in seen if any(word in name.rpartition(".")[2] for word in words)] == []
    assert len(seen) > 10
    forged = pb.SubmitRequest(match_id="m", request_id=new_id())
    raw = forged.SerializeToString() + b"\xf8\x07\x01"  # field 127, a varint
    assert pb.SubmitRequest.FromString(raw).match_id == "m"


@pytest_asyncio.fixture(loop_scope="session")
async def blinking(database_url: str, tmp_path: Path) -> AsyncIterator[tuple[Stack, Proxy]]:
    """A stack whose game process reaches the clock through a proxy."""
    port = free_port()
    async with Proxy("127.0.0.1", port) as proxy:
        extra = {
            "game": {"CLOCK_ADDRESS": proxy.address, "HEARTBEAT_SECONDS": "0.5"},
            "clock": {"INTERNAL_LISTEN": f"127.0.0.1:{port}"},
        }
        async with stack(tmp_path, database_url, extra) as made:
            yield made, proxy


async def test_fc_17_a_blink_of_the_link_to_the_clock_voids_nothing(blinking: tuple[Stack, Proxy]) -> None:
    """FC-17, fault 6: 20 matches (the case asks for 100) through a 2 s hole between game and clock: no void, no charge for
    the wait, each bank as its stamps say; both sides keep that they had lost each other."""
    made, proxy = blinking
    clock = asyncio.get_running_loop().time
    began = clock()
    tables = await asyncio.gather(
        *(
            Table.create(made, deals=scripted(FORCED), time_control=time_control(100_000, 500))
            for _ in range(20)
        )
    )
    proxy.swallow(Way.UP, Way.DOWN)
    before_ns = int((clock() - began) * 1e9)
    moving = [asyncio.create_task(table.do(play(NORTH, "6|6"))) for table in tables]
    await asyncio.sleep(2)
    proxy.heal()
    await asyncio.gather(*moving)
    assert await made.pool.fetchval("select count(*) from match_outcome") == 0
    for table in tables:
        row = await one_row(
            made,
            """
            select start_ns, arrive_ns, charge_ns, credited_ns from match_log
            where match_id = $1 and start_ns is not null
            """,
            table.match_id,
        )
        assert row["charge_ns"] == max(0, row["arrive_ns"] - row["start_ns"] - 500_000_000)
        # The 2 s of waiting for the verdict are not in it.
        assert row["arrive_ns"] - row["start_ns"] < before_ns + 1_900_000_000
        await reproduced(table)

    async def noted() -> bool:
        rows = await made.pool.fetch("select noticed_by from incident where kind = 'clock_lost'")
        return {row["noticed_by"].partition("/")[0] for row in rows} == {"game", "clock"}

    await eventually(noted)


async def test_fc_15_a_void_match_leaves_no_trace_on_the_ladder(fresh: Stack) -> None:
    """FC-15: a rated match is void in its middle: no rating, no counts; the ladder is as before, byte by byte, and the match
    is listed as void."""
    players = await fresh.players(2)
    clients = [await fresh.client(player) for player in players]
    handles = await asyncio.gather(*(client.seek(RATED) for client in clients))
    seats = {handle.seat: player for handle, player in zip(handles, players, strict=True)}
    table = Table(fresh, handles[0].match_id, BySeat(seats[NORTH], seats[SOUTH]))
    await table.start()

    async def ladder() -> str:
        rows = await fresh.pool.fetch("select to_jsonb(t)::text as row from rating t order by 1")
        return json.dumps([row["row"] for row in rows])

    before = await ladder()
    await ops(fresh, "declare", "--effect", "void", *WHO, "--match", table.match_id)

    async def decided() -> bool:
        return bool(
            await fresh.pool.fetchval(
                "select count(*) from rating_decision where match_id = $1", table.match_id
            )
        )

    await eventually(decided)
    assert await ladder() == before
    decision = await one_row(fresh, "select * from rating_decision where match_id = $1", table.match_id)
    assert decision["reason"] == "void"
    listed = await table.stub.ListMyMatches(pb.ListMyMatchesRequest(), metadata=table.players[NORTH].metadata)
    assert [match.outcome.cause for match in listed.matches] == [table_pb2.CAUSE_VOID]


async def test_the_database_s_wall_clock_may_jump(database_url: str, tmp_path: Path) -> None:
    """Scenario 42: for the leases an hour passes in an instant. A living process loses its matches to another, too early,
    and nothing else: one owner writes, the match goes on, nobody is charged for it."""
    quick = {"HEARTBEAT_SECONDS": "0.5", "LEASE_SECONDS": "2"}
    async with stack(tmp_path, database_url, {"game": quick, "game-1": quick}) as made:
        await made.start("game-1")
        table = await Table.create(made, deals=scripted(FORCED), time_control=time_control(60_000, 20_000))
        jump = "update engine_lease set renewed_at = now() - interval '3 s', lease_until = now() - interval '1 s' where engine_id = 'game'"

        async def moved() -> bool:
            # The living process renews; the clock jumps again.
            await made.pool.execute(jump)
            return bool(await made.pool.fetchval("select engine_id = 'game-1' from match_owner"))

        await eventually(moved)
        # An hour back: the lease seems to hold for another hour, and that does no harm.
        await made.pool.execute("update engine_lease set lease_until = lease_until + interval '1 hour'")
        later = Table(made, table.match_id, table.players, game="game-1")

        async def played() -> bool:
            try:
                await later.do(play(NORTH, "6|6"))
            except CallError as error:
                if error.reason not in ("TRY_AGAIN", "STALE_DECISION"):
                    raise
                return False
            return True

        await eventually(played)
        await later.do(play(SOUTH, "0|6", "6|6 line_a"))
        fences = await made.pool.fetch(
            "select fence from match_log where match_id = $1 order by revision", table.match_id
        )
        assert [row["fence"] for row in fences] == sorted(row["fence"] for row in fences)
        state = await made.state(table.match_id)
        assert tuple(state.banks) == (60_000_000_000, 60_000_000_000)
        await reproduced(later)


async def test_all_players_lost_at_once_are_not_forfeited(blinking: tuple[Stack, Proxy]) -> None:
    """Scenario 48 through the real stack: the streams of 24 players break at once, the processes are well: live time stands
    still for everybody until they are back, and the pause is credited to the matches as what it was."""
    made, _ = blinking
    tables = await asyncio.gather(
        *(Table.create(made, deals=scripted(FORCED), time_control=time_control(500, 2500)) for _ in range(12))
    )
    async with Proxy("127.0.0.1", made.ports["game"]) as ingress:

        async def attach() -> list[grpc.aio.Channel]:
            opened = []
            for table in tables:
                for seat in SEATS:
                    channel = grpc.aio.insecure_channel(
                        ingress.address, options=[("grpc.use_local_subchannel_pool", 1)]
                    )
                    call = pb_grpc.MatchServiceStub(channel).Watch(
                        pb.WatchRequest(match_id=table.match_id), metadata=table.players[seat].metadata
                    )
                    await call.read()
                    opened.append(channel)
            return opened

        first = await attach()
        ingress.cut()
        await made.processes["game"].event("mass_disconnect")
        await asyncio.sleep(3.5)  # longer than delay and bank together
        assert await made.pool.fetchval("select count(*) from match_outcome") == 0
        second = await attach()
        await made.processes["game"].event("mass_disconnect_over")
        await asyncio.gather(*(table.do(play(NORTH, "6|6")) for table in tables))
        for channel in (*first, *second):
            await channel.close()
    for table in tables:
        row = await one_row(
            made,
            """
            select m.effect, m.credited_ns from incident_match m join incident i on i.incident_id = m.incident_id
            where i.kind = 'mass_disconnect' and m.match_id = $1
            """,
            table.match_id,
        )
        assert row["effect"] == "credited"
        assert row["credited_ns"] > 3_000_000_000
        await reproduced(table)
