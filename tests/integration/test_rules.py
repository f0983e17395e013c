"""The rules through the whole stack: cases from the field, played with scripted deals over gRPC."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from client.wire import command_to_pb
from engine.command import Accept, Bid, Continue, Decline, Pass
from engine.event import Event, PointsMoved, RoundBlocked
from engine.match import Match
from engine.seats import NORTH, SEATS, SOUTH, BySeat
from spectacularbid.match.v1 import table_pb2
from tests.engine.tables import deal, play
from tests.integration.rounds import find_round
from tests.seats import Table, legal_commands, scripted
from tests.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")

Step = tuple[str, str | None]


async def free_round(made: Stack, steps: list[Step], **wanted: Any) -> Table:
    """A round that north, as jockey, opens with any tile; the seats hold the tiles of the steps in turn."""
    hands = (" ".join(tile for tile, _ in steps[::2]), " ".join(tile for tile, _ in steps[1::2]))
    table = await Table.create(made, deals=scripted(deal(*hands)), jockey=table_pb2.SEAT_NORTH, **wanted)
    await table.do(Decline(SOUTH))
    return table


async def played(table: Table, steps: list[Step]) -> list[tuple[int, int]]:
    """The count after each step, and the points it moved."""
    result = []
    seat = NORTH
    for tile, end in steps:
        await table.do(play(seat, tile, end))
        view = await table.view(seat)
        result.append((view.layout.count, view.last_transfer.moved))
        seat = seat.opponent
    return result


async def test_fc_61_a_spinner_in_the_middle_of_the_line_counts_nothing(shared: Stack) -> None:
    """FC-61: totals 8, 10, 10, 13; points 0, 10, 10, 0."""
    steps: list[Step] = [
        ("2|6", None),
        ("2|2", "2|6 low"),
        ("2|4", "2|2 line_b"),
        ("2|3", "2|2 branch_a"),
    ]
    table = await free_round(shared, steps)
    assert await played(table, steps) == [(8, 0), (10, 10), (10, 10), (13, 0)]
    view = await table.view(NORTH)
    assert (view.balances.north, view.balances.south) == (150, 150)
    assert (view.layout.spinner.low, view.layout.spinner.high) == (2, 2)


async def test_fc_63_an_opening_double_counts_once_until_both_lines_are_filled(shared: Stack) -> None:
    """FC-63: totals 10, 10, 2, 5; points 10, 10, 0, 5; a branch is closed before both lines are filled."""
    steps: list[Step] = [
        ("5|5", None),
        ("0|5", "5|5 line_a"),
        ("2|5", "5|5 line_b"),
        ("3|5", "5|5 branch_a"),
    ]
    table = await free_round(shared, steps)
    assert await played(table, steps[:1]) == [(10, 10)]
    error = await table.refused(play(SOUTH, "0|5", "5|5 branch_a"))
    assert (error.reason, error.metadata["rule"]) == ("BRANCH_CLOSED", "3.4")
    await table.do(play(SOUTH, "0|5", "5|5 line_a"))
    assert (await table.refused(play(NORTH, "2|5", "5|5 branch_b"))).reason == "BRANCH_CLOSED"
    await table.do(play(NORTH, "2|5", "5|5 line_b"))
    assert (await table.view(SOUTH)).layout.count == 2
    await table.do(play(SOUTH, "3|5", "5|5 branch_a"))
    view = await table.view(SOUTH)
    assert view.layout.count == 5
    assert (view.balances.north, view.balances.south) == (145, 155)
    assert view.last_transfer.moved == 5


def standing_still(view: table_pb2.Table) -> table_pb2.Table:
    """A table without the time that runs on."""
    still = table_pb2.Table()
    still.CopyFrom(view)
    still.prompt.clock.ClearField("remaining_ms")
    still.prompt.clock.ClearField("delay_left_ms")
    return still


async def test_fc_65_the_opening_tile_is_joined_to_nothing(shared: Stack) -> None:
    """FC-65: an end is refused, a tile other than the forced one is refused; both change nothing; without an end it works."""
    table = await Table.create(shared, deals=scripted(deal("6|6 1|2", "5|5")))
    before = standing_still(await table.view(NORTH))
    assert [play.tile for play in before.prompt.legal.plays] == [table_pb2.Tile(low=6, high=6)]
    assert not before.prompt.legal.plays[0].HasField("end")
    error = await table.refused(play(NORTH, "6|6", "1|2 high"))
    assert (error.reason, error.metadata["rule"]) == ("END_GIVEN_FOR_OPENING", "3.1")
    error = await table.refused(play(NORTH, "1|2"))
    assert (error.reason, error.metadata["rule"]) == ("OPENING_TILE_FORCED", "2.2")
    assert standing_still(await table.view(NORTH)) == before
    await table.do(play(NORTH, "6|6"))
    assert (await table.view(NORTH)).layout.count == 12


async def test_fc_67_a_seat_without_a_tile_passes_and_two_passes_settle_the_round(shared: Stack) -> None:
    """FC-67: with the boneyard empty a seat passes, the other goes on; later nobody can, and the round is settled.

    While a decision is open, the seat to act is always offered something. (5,000 random rounds are played against the
    engine in tests/engine; here it is one round over gRPC, and all the matches of test_random_play.)
    """

    def passed_and_blocked(events: Sequence[Event], states: Sequence[Match]) -> bool:
        went_on = any(one.passes == 1 and two.passes == 0 for one, two in itertools.pairwise(states))
        return went_on and isinstance(events[-1], RoundBlocked | PointsMoved) and states[-1].passes == 2

    dealt, commands = find_round(passed_and_blocked, 67)
    table = await Table.create(shared, deals=scripted(dealt))
    for command in commands:
        offered = legal_commands((await table.view(command.seat)).prompt.legal)
        assert command_to_pb(command) in offered
        if isinstance(command, Pass):
            assert len(offered) == 1
        await table.do(command)
    view = await table.view(NORTH)
    assert view.prompt.phase == table_pb2.PHASE_SETTLED
    assert view.HasField("hand_totals")
    assert view.prompt.legal.continue_round


async def test_fc_69_a_tie_moves_nothing_and_the_next_round_has_no_auction(shared: Stack) -> None:
    """FC-69: a blocked round with equal totals (any; six against six is in tests/engine)."""

    def tie(events: Sequence[Event], states: Sequence[Match]) -> bool:
        return isinstance(events[-1], RoundBlocked) and events[-1].winner is None

    dealt, commands = find_round(tie, 69)
    table = await Table.create(shared, deals=scripted(dealt))
    for command in commands[:-1]:
        await table.do(command)
    before = (await table.view(NORTH)).balances
    await table.do(commands[-1])
    view = await table.view(NORTH)
    assert view.balances == before
    assert not view.HasField("last_transfer")
    assert view.hand_totals.north == view.hand_totals.south > 0
    for seat in SEATS:
        await table.do(Continue(seat))
    view = await table.view(SOUTH)
    assert (view.prompt.phase, view.prompt.kind) == (table_pb2.PHASE_OPENING, table_pb2.DECISION_KIND_OPEN)
    assert (view.jockey, view.round) == (table_pb2.SEAT_UNSPECIFIED, 2)


async def test_fc_71_a_blocked_hand_is_rounded_to_the_nearest_five(shared: Stack) -> None:
    """FC-71: one total that is no multiple of five; all totals and the cap are in tests/engine."""

    def rounded(events: Sequence[Event], states: Sequence[Match]) -> bool:
        match events[-2:]:
            case [RoundBlocked(totals, winner), PointsMoved()] if winner is not None:
                return totals[winner.opponent] % 5 in (2, 3)
        return False

    dealt, commands = find_round(rounded, 71)
    table = await Table.create(shared, deals=scripted(dealt))
    for command in commands:
        await table.do(command)
    view = await table.view(NORTH)
    totals = BySeat(view.hand_totals.north, view.hand_totals.south)
    loser = max(totals)
    assert view.last_transfer.due == (loser + 2) // 5 * 5
    assert view.last_transfer.reason == table_pb2.TRANSFER_REASON_BLOCKED


async def test_fc_72_an_outbid_bid_is_not_credited_again(shared: Stack) -> None:
    """FC-72: south has 40, bids 30, the jockey raises to 35; 60 and 45 are beyond south, 40 costs it the match."""
    table = await Table.create(
        shared, jockey=table_pb2.SEAT_NORTH, balances=table_pb2.Balances(north=260, south=40)
    )
    await table.do(Bid(SOUTH, 30))
    await table.do(Bid(NORTH, 35))
    before = standing_still(await table.view(SOUTH))
    assert (before.prompt.legal.bid.min, before.prompt.legal.bid.max) == (40, 40)
    for amount in (60, 45):
        error = await table.refused(Bid(SOUTH, amount))
        assert (error.reason, error.metadata["rule"]) == ("BID_UNAFFORDABLE", "5.6")
        assert standing_still(await table.view(SOUTH)) == before
    assert (before.prompt.clock.running, before.standing_bid) == (table_pb2.SEAT_SOUTH, 35)
    await table.do(Bid(SOUTH, 40))
    await table.do(Accept(NORTH))
    view = await table.view(SOUTH)
    assert (view.balances.north, view.balances.south) == (300, 0)
    assert view.outcome.winner == table_pb2.SEAT_NORTH
    assert view.outcome.cause == table_pb2.CAUSE_BALANCE
    assert not view.layout.placements
    outcome = await shared.outcome(table.match_id)
    assert outcome is not None
    assert (outcome["winner"], outcome["cause"]) == ("north", "balance")


async def test_fc_74_a_challenger_with_ten_points_can_only_decline(shared: Stack) -> None:
    """FC-74, first part: the jockey then opens free of charge."""
    table = await Table.create(
        shared, jockey=table_pb2.SEAT_NORTH, balances=table_pb2.Balances(north=290, south=10)
    )
    assert (await table.view(SOUTH)).prompt.legal == table_pb2.Legal(decline=True, resign=True)
    assert (await table.refused(Bid(SOUTH, 10))).reason == "MUST_DECLINE"
    await table.do(Decline(SOUTH))
    view = await table.view(NORTH)
    assert (view.balances.north, view.balances.south) == (290, 10)
    assert (view.prompt.to_act, view.prompt.kind) == (table_pb2.SEAT_NORTH, table_pb2.DECISION_KIND_OPEN)
    assert len(view.prompt.legal.plays) == 7


async def test_fc_74_a_seat_that_cannot_raise_can_only_accept(shared: Stack) -> None:
    """FC-74, second part: south (25) has bid 15, the jockey raises to 25; south must accept, the jockey pays 10."""
    table = await Table.create(
        shared, jockey=table_pb2.SEAT_NORTH, balances=table_pb2.Balances(north=275, south=25)
    )
    await table.do(Bid(SOUTH, 15))
    await table.do(Bid(NORTH, 25))
    assert (await table.view(SOUTH)).prompt.legal == table_pb2.Legal(accept=True, resign=True)
    assert (await table.refused(Bid(SOUTH, 30))).reason == "BID_UNAFFORDABLE"
    await table.do(Accept(SOUTH))
    view = await table.view(NORTH)
    assert (view.balances.north, view.balances.south) == (265, 35)
    assert view.prompt.to_act == table_pb2.SEAT_NORTH
    assert not (await table.view(SOUTH)).prompt.legal.plays


async def test_the_answer_to_a_hidden_tile_says_nothing_about_where_it_lies(shared: Stack) -> None:
    """FC-59: a tile of the other hand and one of the boneyard get the very same answer, text and size included; a tile
    on the table and an own one at a wrong end are refused too; nothing changes."""
    table = await Table.create(
        shared,
        deals=scripted(deal("6|6 1|2", "0|1 5|6", "0|0")),
    )
    await table.do(play(NORTH, "6|6"))
    before = [standing_still(await table.view(seat)) for seat in SEATS]
    answers = []
    for tile in ("1|2", "0|0"):  # in the other hand, in the boneyard
        error = await table.refused(play(SOUTH, tile, "6|6 line_a"))
        answers.append((error.code, error.reason, error.message, error.metadata))
    assert answers[0] == answers[1]
    assert answers[0][1] == "TILE_NOT_IN_HAND"
    assert (await table.refused(play(SOUTH, "6|6", "6|6 line_a"))).reason == "TILE_NOT_IN_HAND"
    assert (await table.refused(play(SOUTH, "0|1", "6|6 line_a"))).reason == "TILE_DOES_NOT_FIT"
    assert [standing_still(await table.view(seat)) for seat in SEATS] == before
