"""Clients at the deadline and what they may try, through real processes: cases from the field and hard scenarios.

The cases ask for hundreds of repetitions; here there are as many as a test suite bears, several matches at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from engine.command import Decline, Draw
from engine.event import MatchEnded, TileDrawn
from engine.seats import NORTH, SEATS, SOUTH
from engine.tiles import DOUBLE_SIX
from services.common.limits import DEAR_COST, PLAYER_CALLS_PER_SECOND, PLAYER_SECONDS
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.engine.tables import deal, play
from tests.integration.timing import (
    DRAWING,
    FORCED,
    in_time,
    is_over,
    near_the_deadline,
    one_row,
    reproduced,
)
from tests.processes import running
from tests.seats import Table, eventually, new_id, scripted
from tests.stack import Stack, stack, time_control

pytestmark = pytest.mark.asyncio(loop_scope="session")


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


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def limited(
    new_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stack]:
    """A stack on which a player has the allowance that is shipped; elsewhere tests have ten times as much."""
    game = {"PLAYER_CALLS_PER_SECOND": f"{PLAYER_CALLS_PER_SECOND}"}
    folder = tmp_path_factory.mktemp("limited-stack")
    async with stack(folder, await asyncio.to_thread(new_database), {"game": game}) as made:
        yield made


@pytest.mark.parametrize(("what", "cost"), [("commands", 1.0), ("records", DEAR_COST)])
async def test_a_flood_buys_no_time_and_takes_none_from_others(
    limited: Stack, tmp_path: Path, what: str, cost: float
) -> None:
    """Scenario 45: one client sends illegal commands, or asks for a record that there is not yet, from three processes as
    fast as they can, until its deadline and after it. Only its allowance is looked at: the streams end, the calls are
    refused. It loses on time, and nothing is void; a match beside it is played in time; whatever was credited to either is
    a stall that was kept."""
    flooded = await Table.create(limited, deals=scripted(FORCED), time_control=time_control(500, 4500))
    beside = await Table.create(limited, deals=scripted(FORCED), time_control=time_control(60_000, 20_000))
    decision = (await flooded.view(NORTH)).prompt.decision_id
    token = flooded.players[NORTH].token
    arguments = (what, limited.address("game"), token, flooded.match_id, str(decision))
    # The three begin one after the other.
    began = time.monotonic()
    async with AsyncExitStack() as exits:
        floods = [
            await exits.enter_async_context(
                running("tests.flood", *arguments, env={}, log_dir=tmp_path, name=f"flood-{number}")
            )
            for number in range(3)
        ]
        for flood in floods:
            await flood.event("flooding")
        await beside.do(play(NORTH, "6|6"))
        await beside.do(play(SOUTH, "0|6", "6|6 line_a"))
        figures = [await flood.event("flooded", seconds_max=60) for flood in floods]
    sent, answered = (sum(each[figure] for each in figures) for figure in ("sent", "answered"))
    seconds = time.monotonic() - began
    print(f"{sent} {what} asked for and {answered} answered in {seconds:.1f} s")
    assert answered * cost <= (PLAYER_SECONDS + seconds) * PLAYER_CALLS_PER_SECOND
    assert sent > answered
    outcome = await limited.outcome(flooded.match_id)
    assert outcome is not None
    assert (outcome["winner"], outcome["cause"]) == ("south", "time")
    evidence = (await limited.evidence(flooded.match_id))["detail"]
    assert evidence["deadline_ns"] - evidence["start_ns"] == 5_000_000_000
    assert tuple((await limited.state(beside.match_id)).banks) == (60_000_000_000, 60_000_000_000)
    kinds = await limited.pool.fetch(
        "select i.kind from incident_match m join incident i on i.incident_id = m.incident_id where m.match_id = any($1)",
        [flooded.match_id, beside.match_id],
    )
    assert {row["kind"] for row in kinds} <= {"stall", "commit_stalled"}
    await reproduced(flooded)
    await reproduced(beside)


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
