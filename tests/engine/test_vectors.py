"""Every figure and every worked number of the rule pages, as data in `tests/vectors`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine import auction, clock, points
from engine.command import Accept, Bid, Pass, Play
from engine.deal import Deal
from engine.event import Event, PointsMoved, RoundBlocked, TilePlaced
from engine.layout import Layout
from engine.match import Cause, Match, Ranked
from engine.seats import NORTH, SEATS, SOUTH, BySeat, Seat
from engine.tiles import DOUBLE_SIX, HAND_SIZE, End, Port, Tile
from tests.engine import tables

VECTORS = Path(__file__).parent.parent / "vectors"
DIAGRAMS = json.loads((VECTORS / "diagrams.json").read_text())
FIGURES = [*DIAGRAMS["diagrams"], *DIAGRAMS["derived"]]
EXAMPLES = json.loads((VECTORS / "examples.json").read_text())["examples"]
KINDS = {"constants", "score", "blocked", "bid", "clock", "clock_sequence"}


def steps_of(figure: dict[str, Any]) -> list[tables.Step]:
    return [
        (step["tile"], f"{step['at']['tile']} {step['at']['port']}" if step["at"] else None)
        for step in figure["sequence"]
    ]


def of_kind(kind: str) -> list[Any]:
    return [pytest.param(example, id=example["id"]) for example in EXAMPLES if example["kind"] == kind]


def test_every_vector_is_used() -> None:
    """A vector of an unknown kind must not be skipped in silence."""
    assert len(FIGURES) == 12
    assert {example["kind"] for example in EXAMPLES} == KINDS


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: str(figure["id"]))
def test_a_figure_has_its_ends_its_count_and_its_points(figure: dict[str, Any]) -> None:
    """Rules 3.1 to 3.6, played through the engine by both seats in turn."""
    state, plays = tables.scripted_round(steps_of(figure))
    events: tuple[Event, ...] = ()
    for command in plays:
        events = tables.accepted(state, command)
        state = tables.after(state, command)
    layout: Layout = state.layout
    ends = {(end.tile.text, end.port.value): (end.value, counts) for end, counts in layout.open_ends}

    assert figure["total"] == layout.total == sum(counts for _, counts in ends.values())
    assert {(a["tile"], a["port"]): a["value"] for a in figure["attachments"]} == {
        place: value for place, (value, _) in ends.items()
    }
    assert figure["tiles"] == [placement.tile.text for placement in layout.placements]
    assert figure["spinner"] == (layout.spinner.text if layout.spinner else None)
    counted = sorted((c["tile"], c["value"]) for c in figure["counted"])
    found: dict[str, list[int]] = {}
    for (tile, port), (_, counts) in ends.items():
        if not port.startswith("branch"):
            found.setdefault(tile, []).append(counts)
    # An opening double is listed once, with both halves; a lone non-double twice, with one half each.
    listed = [
        (tile, value)
        for tile, values in found.items()
        for value in ([max(values)] if Tile.parse(tile).is_double else values)
    ]
    assert counted == sorted(listed)
    if "summands" in figure:
        assert figure["total"] == sum(figure["summands"])
    moved = [event.moved for event in events if isinstance(event, PointsMoved)]
    assert figure["points"] == sum(moved)
    if "joins" in figure:
        joins = [
            [
                {"tile": placement.end.tile.text, "port": placement.end.port.value},
                {"tile": placement.tile.text, "port": placement.joined.value},
            ]
            for placement in layout.placements
            if placement.end is not None and placement.joined is not None
        ]
        assert figure["joins"] == joins


def test_the_ports_of_the_figures_are_ours() -> None:
    assert set(DIAGRAMS["ports"]) == {port.value for port in Port}


@pytest.mark.parametrize("example", of_kind("constants"))
def test_a_constant_is_what_the_page_says(example: dict[str, Any]) -> None:
    ours = {
        "start_balance": points.START_BALANCE,
        "token": points.UNIT,
        "start_tokens": points.START_BALANCE // points.UNIT,
        "total_points": points.TOTAL,
        "tiles": len(DOUBLE_SIX),
        "hand_size": HAND_SIZE,
        "boneyard_size": len(Deal.from_shuffle(DOUBLE_SIX).boneyard),
        "drawable": len(tables.dealt(tables.started(), tables.deal()).boneyard),
        "min_bid": auction.BID_MIN,
        "min_raise": auction.RAISE_MIN,
        "bid_step": points.UNIT,
        "jockey_discount": auction.DISCOUNT,
        "bank_ms": Match.start().banks.north // clock.MILLISECOND,
        "delay_ms": Match.start().delay_ns // clock.MILLISECOND,
    }
    assert example["expect"] == {name: ours[name] for name in example["expect"]}


def scoring_position(end_total: int, scorer: Seat, balances: BySeat[int]) -> tuple[Match, Play]:
    """A position in which the scorer's play brings the count to this total."""
    table, tile, end = {
        15: (tables.layout(("3|6", None)), "6|6", "3|6 high"),
        20: (tables.layout(("4|4", None), ("4|6", "4|4 line_a")), "6|6", "4|6 high"),
    }[end_total]
    hands = (f"{tile} 1|5", "1|2") if scorer is NORTH else ("1|2", f"{tile} 1|5")
    state = tables.endgame(*hands, table=table, to_act=scorer, balances=(balances.north, balances.south))
    return state, tables.play(scorer, tile, end)


@pytest.mark.parametrize("example", of_kind("score"))
def test_a_score_moves_what_the_payer_has(example: dict[str, Any]) -> None:
    """Rules 1.2 to 1.4 and 3.6."""
    expect, scorer = example["expect"], SEATS[example["scorer"]]
    balances = BySeat(*example["balances"])
    assert expect["points_due"] == points.score(example["end_total"])
    assert expect["transferred"] == points.payable(expect["points_due"], balances[scorer.opponent])
    assert expect["tokens"] * points.UNIT == expect["transferred"]
    if example["end_total"] == 0:
        # A count of zero after a placement: a lone [0|0].
        state = tables.free_opening(
            scorer, tables.deal("0|0") if scorer is NORTH else tables.deal(south="0|0")
        )
        command = tables.play(scorer, "0|0")
    else:
        state, command = scoring_position(example["end_total"], scorer, balances)
    events = tables.accepted(state, command)
    placed = next(event for event in events if isinstance(event, TilePlaced))
    assert example["end_total"] == placed.count
    after = tables.after(state, command)
    assert expect["balances"] == list(after.balances)
    loser = after.outcome.winner.opponent if after.outcome and after.outcome.winner else None
    assert (None if expect["loser"] is None else SEATS[expect["loser"]]) == loser
    if after.outcome:
        assert after.outcome.cause is Cause.BALANCE


HANDS_BY_TOTAL = {4: "0|4", 6: "1|5 ", 17: "4|5 3|5", 18: "4|4 5|5"}


@pytest.mark.parametrize("example", of_kind("blocked"))
def test_a_blocked_round_pays_the_lower_hand(example: dict[str, Any]) -> None:
    """Rule 4.6."""
    expect = example["expect"]
    north, south = (HANDS_BY_TOTAL[total] for total in example["hand_totals"])
    if north == south:
        south = "2|4"  # six pips again, in another tile
    state = tables.endgame(north, south, passes=1)
    events = tables.accepted(state, Pass(NORTH))
    blocked = next(event for event in events if isinstance(event, RoundBlocked))
    after = tables.after(state, Pass(NORTH))
    assert example["hand_totals"] == list(blocked.hand_totals)
    assert (None if expect["winner"] is None else SEATS[expect["winner"]]) == blocked.winner
    due = [event.due for event in events if isinstance(event, PointsMoved)]
    assert expect["points_due"] == sum(due)
    assert expect["balances"] == list(after.balances)
    assert expect["next_opening"] == "ranked"
    assert isinstance(after.opening, Ranked)


@pytest.mark.parametrize("example", of_kind("bid"))
def test_a_winning_bid_is_paid(example: dict[str, Any]) -> None:
    """Rules 5.4 and 5.5."""
    expect, jockey = example["expect"], SEATS[example["jockey"]]
    state = tables.auction(jockey, balances=tuple(example["balances"]))
    seat = jockey.opponent
    for amount in example["bids"]:
        state = tables.after(state, Bid(seat, amount))
        seat = seat.opponent
    assert SEATS[example["winning_bidder"]] is seat.opponent
    before = state.balances
    state = tables.after(state, Accept(seat))
    assert expect["payment"] == before[seat.opponent] - state.balances[seat.opponent]
    assert expect["balances"] == list(state.balances)
    assert SEATS[expect["opener"]] is state.to_act
    assert expect["total_points"] == sum(state.balances)


@pytest.mark.parametrize("example", of_kind("clock"))
def test_a_turn_costs_what_exceeds_the_delay(example: dict[str, Any]) -> None:
    """Rules 6.2 and 6.7."""
    expect = example["expect"]
    bank, elapsed = (example[name] * clock.MILLISECOND for name in ("bank_ms", "elapsed_ms"))
    in_time = clock.judge(0, elapsed, 0, bank) is clock.Verdict.IN_TIME
    assert expect["in_time"] is in_time
    cost = (
        clock.settle(0, elapsed, 0, bank, clock.DELAY, clock.Effect.ENDS) if in_time else clock.forfeit(bank)
    )
    assert expect["bank_ms"] * clock.MILLISECOND == cost.bank_after


@pytest.mark.parametrize("example", of_kind("clock_sequence"))
def test_each_new_turn_has_a_fresh_delay(example: dict[str, Any]) -> None:
    """Rule 6.2."""
    bank, after = example["bank_ms"] * clock.MILLISECOND, []
    for elapsed_ms in example["elapsed_ms"]:
        elapsed = elapsed_ms * clock.MILLISECOND
        bank = clock.settle(0, elapsed, 0, bank, clock.DELAY, clock.Effect.ENDS).bank_after
        after.append(bank // clock.MILLISECOND)
    assert example["expect"]["bank_after_each_ms"] == after


def test_a_placement_is_where_the_end_says() -> None:
    """An end is one object wherever it comes from."""
    assert End.parse("1|4 high") is End.of(Tile.parse("1|4"), Port.HIGH)
    assert SOUTH is Seat("south")
