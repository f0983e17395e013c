"""Cases from the field: public bug reports of systems like ours, as inputs for this one. Named by number."""

from __future__ import annotations

import pytest

from engine import clock
from engine.command import Accept, Bid, Decline, Draw, Pass, Play
from engine.event import MatchEnded, PointsMoved, RoundBlocked, TilePlaced, TurnTimed
from engine.layout import Layout
from engine.match import (
    Auctioned,
    BidRange,
    Cause,
    Legal,
    Match,
    Outcome,
    Phase,
    Ranked,
    decide,
    expire,
    legal,
    replay,
    timed,
)
from engine.refusal import Refusal
from engine.seats import NORTH, SOUTH, BySeat
from engine.tiles import DOUBLE_SIX, End, Tile
from tests.engine import naive
from tests.engine.tables import (
    Step,
    accepted,
    after,
    auction,
    continued,
    deal,
    dealt,
    endgame,
    events_of,
    free_opening,
    layout,
    play,
    scripted_round,
    started,
)

SECOND = clock.SECOND


def counts_and_points(steps: list[Step]) -> list[tuple[int, int]]:
    """The count after each step of a round, and the points it moved."""
    state, plays = scripted_round(steps)
    result = []
    for command in plays:
        events = accepted(state, command)
        placed = next(event for event in events if isinstance(event, TilePlaced))
        result.append((placed.count, sum(e.moved for e in events if isinstance(e, PointsMoved))))
        state = replay(state, events)
    return result


def test_fc_61_a_spinner_in_the_middle_of_the_line_counts_nothing() -> None:
    """FC-61: its branch counts, its own pips do not."""
    steps: list[Step] = [
        ("2|6", None),
        ("2|2", "2|6 low"),
        ("2|4", "2|2 line_b"),
        ("2|3", "2|2 branch_a"),
    ]
    assert counts_and_points(steps) == [(8, 0), (10, 10), (10, 10), (13, 0)]


def test_fc_63_an_opening_double_counts_once_until_both_lines_are_filled() -> None:
    """FC-63."""
    steps: list[Step] = [
        ("5|5", None),
        ("0|5", "5|5 line_a"),
        ("2|5", "5|5 line_b"),
        ("3|5", "5|5 branch_a"),
    ]
    assert counts_and_points(steps) == [(10, 10), (10, 10), (2, 0), (5, 5)]


def test_fc_63_a_branch_is_closed_before_both_lines_are_filled() -> None:
    """FC-63: after the first tile already, and after the second."""
    early: list[Step] = [("5|5", None), ("0|5", "5|5 branch_a")]
    state, plays = scripted_round(early)
    assert decide(after(state, plays[0]), plays[1]) is Refusal.BRANCH_CLOSED
    later: list[Step] = [("5|5", None), ("0|5", "5|5 line_b"), ("2|5", "5|5 branch_b")]
    state, plays = scripted_round(later)
    assert decide(after(state, *plays[:2]), plays[2]) is Refusal.BRANCH_CLOSED


def test_fc_65_the_opening_tile_is_joined_to_nothing() -> None:
    """FC-65: an end is refused, a wrong tile is refused and costs nothing, without an end it works."""
    state = dealt(started(), deal("6|6 0|1", "5|5"))
    assert decide(state, play(NORTH, "6|6", "5|5 line_a")) is Refusal.END_GIVEN_FOR_OPENING
    assert decide(state, play(NORTH, "0|1")) is Refusal.OPENING_TILE_FORCED
    opened = after(state, play(NORTH, "6|6"))
    assert opened.layout.total == 12
    assert opened.to_act is SOUTH


@pytest.mark.parametrize(
    ("north", "south", "opener", "tile"),
    [
        ("6|6", "5|5", NORTH, "6|6"),
        ("0|0", "1|1", SOUTH, "1|1"),
        ("0|0", "5|6", NORTH, "0|0"),
        ("5|6 0|1", "4|6 0|2", NORTH, "5|6"),
        ("3|6 0|1", "4|5 0|2", NORTH, "3|6"),  # both nine pips: the larger half decides
        ("4|5 0|1", "3|6 0|2", SOUTH, "3|6"),
    ],
)
def test_the_highest_double_opens_or_the_heaviest_tile(
    north: str, south: str, opener: object, tile: str
) -> None:
    """Rules 2.2 and 2.3: hands filled up with light tiles and no further double."""
    light = iter(
        ["0|1", "0|2", "0|3", "0|4", "0|5", "0|6", "1|2", "1|3", "1|4", "1|5", "2|3", "2|4", "2|5", "3|4"]
    )
    hands = []
    for given_tiles in (north, south):
        hand = given_tiles.split()
        while len(hand) < 7:
            extra = next(light)
            if extra not in (north + south):
                hand.append(extra)
        hands.append(" ".join(hand))
    rest = " ".join(t.text for t in DOUBLE_SIX if t.text not in " ".join(hands))
    state = dealt(started(), deal(hands[0], hands[1], rest))
    assert (state.to_act, state.forced_tile) == (opener, Tile.parse(tile))
    assert naive.opener(state) == (opener, Tile.parse(tile))


def test_fc_67_a_seat_without_a_tile_passes_and_two_passes_settle_the_round() -> None:
    """FC-67."""
    state = endgame("1|2", "1|6 1|3")
    assert legal(state) == Legal(pass_=True)
    state = after(state, Pass(NORTH))
    assert state.to_act is SOUTH
    state = after(state, play(SOUTH, "1|6", "6|6 line_a"))
    assert state.passes == 0
    blocked = after(endgame("1|2", "3|4"), Pass(NORTH))
    assert legal(blocked) == Legal(pass_=True)
    settled = after(blocked, Pass(SOUTH))
    assert settled.phase is Phase.SETTLED
    assert settled.hand_totals == BySeat(3, 7)


def test_a_placement_between_two_passes_keeps_the_round_going() -> None:
    """Rule 4.6: only two passes in a row block the round."""
    state = endgame("1|2 2|3", "1|6 3|3", table=layout(("6|6", None)))
    state = after(state, Pass(NORTH), play(SOUTH, "1|6", "6|6 line_a"), play(NORTH, "1|2", "1|6 low"))
    state = after(state, Pass(SOUTH))
    assert state.phase is Phase.PLAYING
    assert state.to_act is NORTH


def test_fc_69_a_tie_moves_nothing_and_the_next_round_has_no_auction() -> None:
    """FC-69: six pips against six."""
    state = endgame("1|5", "2|4", passes=1)
    events = accepted(state, Pass(NORTH))
    assert events[1:] == (RoundBlocked(BySeat(6, 6), None),)
    settled = replay(state, events)
    assert list(settled.balances) == [150, 150]
    assert settled.jockey is None
    assert isinstance(settled.opening, Ranked)
    again = dealt(continued(settled), deal("6|6"))
    assert again.phase is Phase.OPENING
    assert again.forced_tile is Tile.parse("6|6")


@pytest.mark.parametrize(
    ("winner", "loser", "total", "due"),
    [
        ("0|1", "0|2", 2, 0),
        ("0|1", "0|3", 3, 5),
        ("0|1", "4|5 3|5", 17, 15),
        ("0|1", "5|5 4|4", 18, 20),
        ("0|1", "5|5 4|4 0|4", 22, 20),
        ("0|1", "5|5 4|4 0|5", 23, 25),
    ],
)
def test_fc_71_a_blocked_hand_is_rounded_to_the_nearest_five(
    winner: str, loser: str, total: int, due: int
) -> None:
    """FC-71: the loser's whole total, not the difference; no halves exist."""
    state = endgame(winner, loser, passes=1)
    after_pass = after(state, Pass(NORTH))
    assert after_pass.hand_totals == BySeat(1, total)
    assert after_pass.balances == BySeat(150 + due, 150 - due)
    assert (after_pass.last_transfer is None) is (due == 0)


def test_fc_71_a_debt_is_capped_by_the_balance_and_ends_the_match() -> None:
    """FC-71: 20 are due from a balance of 5."""
    state = endgame("0|1", "5|5 4|4", passes=1, balances=(295, 5))
    over = after(state, Pass(NORTH))
    assert over.last_transfer is not None
    assert (over.last_transfer.due, over.last_transfer.moved) == (20, 5)
    assert over.outcome == Outcome(NORTH, Cause.BALANCE)
    assert over.hand_totals == BySeat(1, 18)


def test_fc_72_an_outbid_bid_is_not_credited_again() -> None:
    """FC-72: B (40 points) bids 30, jockey A raises to 35; 60 and 45 are beyond B, 40 costs the match."""
    state = auction(NORTH, balances=(260, 40))
    state = after(state, Bid(SOUTH, 30), Bid(NORTH, 35))
    for amount in (60, 45):
        assert decide(state, Bid(SOUTH, amount)) is Refusal.BID_UNAFFORDABLE
        assert state.standing_bid == (NORTH, 35)
        assert state.to_act is SOUTH
    state = after(state, Bid(SOUTH, 40))
    lost = after(state, Accept(NORTH))
    assert lost.balances == BySeat(300, 0)
    assert lost.outcome == Outcome(NORTH, Cause.BALANCE)
    assert not lost.layout.placements


def test_fc_74_a_challenger_with_ten_points_can_only_decline() -> None:
    """FC-74 and rule 5.8."""
    state = auction(NORTH, balances=(290, 10))
    assert legal(state) == Legal(decline=True)
    opened = after(state, Decline(SOUTH))
    assert opened.to_act is NORTH
    assert opened.balances == state.balances
    assert len(legal(opened).play) == 7


def test_fc_74_a_seat_that_cannot_raise_can_only_accept() -> None:
    """FC-74: B (25) has bid 15, A raises to 25; A pays 10 after the discount."""
    state = after(auction(NORTH, balances=(275, 25)), Bid(SOUTH, 15), Bid(NORTH, 25))
    assert legal(state) == Legal(accept=True)
    opened = after(state, Accept(SOUTH))
    assert opened.balances == BySeat(265, 35)
    assert opened.to_act is NORTH


@pytest.mark.parametrize(
    ("balances", "bid", "allowed"),
    [
        ((150, 150), None, BidRange(15, 150)),
        ((150, 150), 15, BidRange(20, 165)),
        ((5, 295), 15, BidRange(20, 20)),
        ((5, 295), 20, None),
    ],
)
def test_the_jockey_may_bid_its_discount_on_top(
    balances: tuple[int, int], bid: int | None, allowed: BidRange | None
) -> None:
    """Rule 5.6."""
    state = auction(NORTH, balances=balances)
    if bid is None:
        assert legal(state).bid == allowed
    else:
        assert legal(after(state, Bid(SOUTH, bid))).bid == allowed


def test_the_discount_is_for_one_auction_and_only_for_the_jockey() -> None:
    """Rules 5.4 and 5.5: the challenger pays its whole bid; a jockey that opens free gets nothing back."""
    state = after(auction(NORTH), Bid(SOUTH, 20), Accept(NORTH))
    assert state.balances == BySeat(170, 130)
    free = after(auction(NORTH), Decline(SOUTH))
    assert free.balances == BySeat(150, 150)
    assert free.last_transfer is None


def test_going_out_and_winning_is_winning() -> None:
    """Rule 7.8: 1.3 comes before 4.5; nobody becomes jockey."""
    table = layout(("4|4", None), ("4|6", "4|4 line_a"))
    state = endgame("6|6", "1|2", table=table, balances=(295, 5))
    events = accepted(state, play(NORTH, "6|6", "4|6 high"))
    assert [type(event) for event in events] == [TilePlaced, PointsMoved, MatchEnded]
    over = replay(state, events)
    assert over.jockey is not NORTH or over.jockey is state.jockey
    assert over.outcome == Outcome(NORTH, Cause.BALANCE)


def test_going_out_is_scored_and_makes_the_jockey() -> None:
    """Rule 4.5: the last placement is scored as usual; the other hand is not paid for."""
    table = layout(("4|4", None), ("4|6", "4|4 line_a"))
    state = endgame("6|6", "1|2 5|5", table=table, to_act=NORTH)
    settled = after(state, play(NORTH, "6|6", "4|6 high"))
    assert settled.balances == BySeat(170, 130)
    assert settled.phase is Phase.SETTLED
    assert settled.opening == Auctioned(NORTH)
    assert dealt(continued(settled), deal()).to_act is SOUTH  # the challenger speaks first (5.1)


def test_a_drawn_tile_that_fits_must_be_placed_where_the_player_likes() -> None:
    """Rules 4.2, 4.3 and 6.3: drawing goes on until the tile fits, in one turn."""
    table = layout(("1|4", None))
    state = endgame("0|2", "3|3", table=table, boneyard="0|0 2|2 1|1 5|5")
    turn = state.turn
    for _ in range(3):
        assert legal(state) == Legal(draw=True)
        assert decide(state, Pass(NORTH)) is Refusal.MUST_DRAW
        state = after(state, Draw(NORTH))
        assert (state.turn, state.to_act) == (turn, NORTH)
    assert legal(state).play == ((Tile.parse("1|1"), End.parse("1|4 low")),)
    assert decide(state, Draw(NORTH)) is Refusal.MUST_PLAY_DRAWN_TILE
    placed = after(state, play(NORTH, "1|1", "1|4 low"))
    assert placed.turn == turn + 1
    assert placed.drawn_tile is None


def test_an_empty_boneyard_after_drawing_ends_in_a_pass_of_the_same_turn() -> None:
    """Rules 4.2, 4.4: the pass belongs to the turn that drew the last tile."""
    state = endgame("0|2", "3|3", boneyard="0|0")
    turn = state.turn
    state = after(state, Draw(NORTH))
    assert legal(state) == Legal(pass_=True)
    assert decide(state, Draw(NORTH)) is Refusal.BONEYARD_EMPTY
    assert state.turn == turn
    assert after(state, Pass(NORTH)).turn == turn + 1


# Time


WAITING = {
    "first auction answer": auction(),
    "answer to a raise": after(auction(), Bid(SOUTH, 15), Bid(NORTH, 20)),
    "free opening by the jockey": after(auction(), Decline(SOUTH)),
    "forced opening tile": dealt(started(), deal("6|6")),
    "drawn playable tile waiting": after(endgame("1|2", "3|4", boneyard="1|6"), Draw(NORTH)),
    "forced pass": endgame("1|2", "3|4"),
}


@pytest.mark.parametrize("state", WAITING.values(), ids=WAITING.keys())
def test_fc_13_time_runs_out_in_every_kind_of_turn(state: Match) -> None:
    """FC-13: the seat to act loses; nothing else moves."""
    assert state.to_act is not None
    events = expire(state)
    lost = replay(state, events)
    assert lost.outcome == Outcome(state.to_act.opponent, Cause.TIME)
    assert lost.banks[state.to_act] == 0
    assert lost.balances == state.balances
    assert lost.hands == state.hands
    assert lost.boneyard == state.boneyard
    assert lost.layout == state.layout
    assert lost.to_act is None
    assert decide(lost, Pass(state.to_act)) is Refusal.MATCH_OVER


def test_fc_01_the_deadline_itself_is_too_late() -> None:
    """FC-01: bank 2 s left; 11.999… s is in time, 12 s is lost."""
    state = WAITING["forced opening tile"]._replace(banks=BySeat(2 * SECOND, 120 * SECOND))
    command = play(NORTH, "6|6")
    cost = timed(state, command, 12 * SECOND - 1)
    assert (cost.charge_ns, cost.bank_after_ns) == (2 * SECOND - 1, 1)
    with pytest.raises(ValueError, match="deadline"):
        timed(state, command, 12 * SECOND)


def test_fc_07_an_empty_bank_still_has_its_delay() -> None:
    """FC-07."""
    state = WAITING["forced opening tile"]._replace(banks=BySeat(0, 0))
    assert state.budget_ns == 10 * SECOND
    cost = timed(state, play(NORTH, "6|6"), 10 * SECOND - 1)
    assert (cost.charge_ns, cost.bank_after_ns) == (0, 0)
    with pytest.raises(ValueError, match="deadline"):
        timed(state, play(NORTH, "6|6"), 10 * SECOND)


def test_fc_11_a_draw_at_the_deadline_is_a_draw_or_a_forfeit_never_both() -> None:
    """FC-11: one nanosecond decides."""
    state = endgame("1|2", "3|4", boneyard="0|0 1|6")
    budget = state.budget_ns
    assert budget is not None
    drawn = replay(state, (timed(state, Draw(NORTH), budget - 1), *accepted(state, Draw(NORTH))))
    assert (drawn.consumed_ns, drawn.budget_ns) == (budget - 1, 1)
    assert drawn.banks == state.banks  # settled with the end of the turn
    lost = replay(state, expire(state))
    assert lost.hands == state.hands


def test_drawing_does_not_start_the_delay_again() -> None:
    """Rule 6.3: draws at 3, 6 and 9 s, a play at 12 s: one delay, 2 s to pay."""
    state = endgame("0|2", "3|3", table=layout(("1|4", None)), boneyard="0|0 2|2 1|1")
    for _ in range(3):
        state = replay(state, (timed(state, Draw(NORTH), 3 * SECOND), *accepted(state, Draw(NORTH))))
    command = play(NORTH, "1|1", "1|4 low")
    cost = timed(state, command, 3 * SECOND)
    assert (cost.elapsed_ns, cost.charge_ns) == (12 * SECOND, 2 * SECOND)
    state = replay(state, (cost, *accepted(state, command)))
    assert state.banks == BySeat(118 * SECOND, 120 * SECOND)
    assert state.consumed_ns == 0


def test_a_bid_hands_the_clock_over_and_an_answer_starts_the_openers() -> None:
    """Rule 6.4: a fresh turn each time."""
    state = auction(NORTH)
    seats = [state.to_act]
    turns = [state.turn]
    for command in (Bid(SOUTH, 15), Bid(NORTH, 20), Accept(SOUTH)):
        state = after(state, command)
        seats.append(state.to_act)
        turns.append(state.turn)
    assert seats == [SOUTH, NORTH, SOUTH, NORTH]
    assert turns == [1, 2, 3, 4]


def test_no_clock_runs_between_rounds() -> None:
    """Rule 6.5."""
    settled = after(endgame("1|2", "3|4", passes=1), Pass(NORTH))
    assert settled.to_act is None
    assert settled.budget_ns is None
    assert events_of(expire(auction()), TurnTimed)


def test_every_opening_layout_counts_its_tile() -> None:
    """Rule 3.5: both halves of whatever lies there alone."""
    for tile in DOUBLE_SIX:
        alone: Layout = after(free_opening(NORTH, deal(tile.text)), Play(NORTH, tile)).layout
        assert alone.total == tile.pips
