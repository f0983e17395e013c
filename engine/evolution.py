"""How events change a match. `evolve` never refuses: whether something may happen was decided before."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Final, assert_never

from engine.auction import StandingBid
from engine.event import (
    BidMade,
    Continued,
    MatchEnded,
    OpeningWon,
    PointsMoved,
    Revealed,
    RoundBlocked,
    RoundDealt,
    RoundWentOut,
    Started,
    TileDrawn,
    TilePlaced,
    TurnPassed,
    TurnTimed,
)
from engine.layout import EMPTY
from engine.opening import ranked_opening
from engine.outcome import Cause
from engine.seats import NORTH, SOUTH, BySeat
from engine.state import Match, Mode, Phase
from engine.tiles import tile_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.event import Event
    from engine.seats import Seat
    from engine.tiles import Tile

_ONLINE: Final = Mode.ONLINE
_PLAYING: Final = Phase.PLAYING
_OPENING: Final = Phase.OPENING
_AWAITING_DEAL: Final = Phase.AWAITING_DEAL
_AUCTION: Final = Phase.AUCTION
_OVER: Final = Phase.OVER
_new: Final = tuple.__new__
_SETTLED: Final = Phase.SETTLED
(
    _PHASE, _MODE, _BALANCES, _BANKS, _DELAY_NS, _CONSUMED_NS, _ROUND_NO, _DECISION_ID, _TURN, _TO_ACT,
    _AWAITING_REVEAL, _PRESSED, _JOCKEY, _STANDING_BID, _FORCED_TILE, _DRAWN_TILE, _PASSES, _NORTH_HAND, _SOUTH_HAND,
    _BONEYARD, _LAYOUT, _LAST_TRANSFER, _HAND_TOTALS, _COMMITMENT, _OUTCOME,
) = range(len(Match._fields))  # fmt: skip


def replay(state: Match, events: Iterable[Event]) -> Match:
    """The state after these events."""
    return reduce(evolve, events, state)


def evolve(state: Match, event: Event) -> Match:
    """The state after one event."""
    kind = event.__class__
    if kind in _FREQUENT:
        return _FREQUENT[kind](state, event)
    draft: Draft = [*state]
    _change(draft, state, event)
    return _new(Match, draft)


Draft = list[Any]
"""The fields of the next state, to be changed in place: far quicker than to name what changes."""


def _change(draft: Draft, state: Match, event: Event) -> None:
    """One of the less frequent events."""
    match event:
        case BidMade():
            _ask(draft, state)
            draft[_STANDING_BID] = StandingBid(event.seat, event.amount)
            _begin_turn(draft, state, event.seat.opponent)
        case OpeningWon():
            _ask(draft, state)
            draft[_PHASE] = _OPENING
            draft[_STANDING_BID] = None
            _begin_turn(draft, state, event.seat)
        case Started() | Continued():
            if state.pressed:
                _ask(draft, state)
                draft[_PHASE] = _AWAITING_DEAL
                draft[_PRESSED] = ()
            else:
                draft[_LAST_TRANSFER] = None
                draft[_PRESSED] = (event.seat,)
        case TurnPassed():
            _ask(draft, state)
            draft[_PASSES] = state.passes + 1
            blocked = state.passes == 1
            _begin_turn(draft, state, None if blocked else event.seat.opponent)
        case RoundDealt():
            _deal(draft, state, event)
        case RoundWentOut():
            _settle(draft)
            draft[_JOCKEY] = event.seat
        case RoundBlocked():
            _settle(draft)
            draft[_JOCKEY] = None
            draft[_HAND_TOTALS] = event.hand_totals
        case Revealed():
            _ask(draft, state)
            draft[_TURN] = state.turn + 1
            draft[_TO_ACT] = event.seat
            draft[_AWAITING_REVEAL] = None
        case MatchEnded():
            _settle(draft)
            draft[_PHASE] = _OVER
            draft[_OUTCOME] = event.outcome
            # On points, the match ends with the command that moved them; otherwise this is the whole answer.
            if event.outcome.cause is not Cause.BALANCE:
                _ask(draft, state)
        case TilePlaced() | TurnTimed() | TileDrawn() | PointsMoved():
            raise AssertionError("has a function of its own")
        case _:
            assert_never(event)


def _ask(draft: Draft, state: Match) -> None:
    """The next question, asked by a command that has moved nothing so far."""
    draft[_DECISION_ID] = state.decision_id + 1
    draft[_LAST_TRANSFER] = None


def _begin_turn(draft: Draft, state: Match, seat: Seat | None) -> None:
    """The next turn, or none: on a shared device it begins with Reveal (rule 6.5)."""
    draft[_CONSUMED_NS] = 0
    draft[_DRAWN_TILE] = None
    if state.mode is _ONLINE:
        if seat is not None:
            draft[_TURN] = state.turn + 1
        draft[_TO_ACT] = seat
        draft[_AWAITING_REVEAL] = None
    else:
        draft[_TO_ACT] = None
        draft[_AWAITING_REVEAL] = seat


def _deal(draft: Draft, state: Match, event: RoundDealt) -> None:
    deal = event.deal
    north_hand, south_hand = tile_set(deal.north), tile_set(deal.south)
    forced: Tile | None = None
    if state.jockey is not None:
        phase, seat = _AUCTION, state.jockey.opponent
    else:
        phase = _OPENING
        seat, forced = ranked_opening(north_hand, south_hand)
    draft[_PHASE] = phase
    draft[_ROUND_NO] = event.round_no
    draft[_FORCED_TILE] = forced
    draft[_PASSES] = 0
    draft[_NORTH_HAND] = north_hand
    draft[_SOUTH_HAND] = south_hand
    draft[_BONEYARD] = deal.boneyard
    draft[_LAYOUT] = EMPTY
    draft[_LAST_TRANSFER] = None
    draft[_HAND_TOTALS] = None
    draft[_COMMITMENT] = event.commitment
    _begin_turn(draft, state, seat)


def _settle(draft: Draft) -> None:
    """The round is over: no turn, no bid, nothing pressed yet. The table stays as it lies."""
    draft[_PHASE] = _SETTLED
    draft[_CONSUMED_NS] = 0
    draft[_TO_ACT] = None
    draft[_AWAITING_REVEAL] = None
    draft[_PRESSED] = ()
    draft[_STANDING_BID] = None
    draft[_FORCED_TILE] = None
    draft[_DRAWN_TILE] = None


# The events below make up most of every match. They unpack the tuple and build the next one by hand, which takes a
# third of the time of `_replace`.


def _placed(state: Match, event: TilePlaced) -> Match:
    (
        _, mode, balances, banks, delay_ns, _, round_no, decision_id, turn, _, _, pressed, jockey, standing_bid, _,
        _, _, north_hand, south_hand, boneyard, layout, _, hand_totals, commitment, outcome,
    ) = state  # fmt: skip
    seat, tile, end, _, count = event
    if seat is NORTH:
        hand = north_hand = north_hand ^ tile.bit
        next_seat = SOUTH
    else:
        hand = south_hand = south_hand ^ tile.bit
        next_seat = NORTH
    to_act: Seat | None = None
    awaiting_reveal: Seat | None = None
    if hand:  # else the seat has gone out, and nobody is to act
        if mode is _ONLINE:
            to_act = next_seat
            turn += 1
        else:
            awaiting_reveal = next_seat
    return _new(
        Match,
        (
            _PLAYING, mode, balances, banks, delay_ns, 0, round_no, decision_id + 1, turn, to_act,
            awaiting_reveal, pressed, jockey, standing_bid, None, None, 0, north_hand, south_hand, boneyard,
            layout.place(tile, end, count), None, hand_totals, commitment, outcome,
        ),
    )  # fmt: skip


def _drawn(state: Match, event: TileDrawn) -> Match:
    (
        phase, mode, balances, banks, delay_ns, consumed_ns, round_no, decision_id, turn, to_act,
        awaiting_reveal, pressed, jockey, standing_bid, forced_tile, _, passes, north_hand, south_hand, boneyard,
        layout, _, hand_totals, commitment, outcome,
    ) = state  # fmt: skip
    tile = event.tile
    assert tile is not None, "a redacted event changes nothing"
    if event.seat is NORTH:
        north_hand |= tile.bit
    else:
        south_hand |= tile.bit
    return _new(
        Match,
        (
            phase, mode, balances, banks, delay_ns, consumed_ns, round_no, decision_id + 1, turn, to_act,
            awaiting_reveal, pressed, jockey, standing_bid, forced_tile, tile if tile.bit & layout.fits else None,
            passes, north_hand, south_hand, boneyard[1:], layout, None, hand_totals, commitment, outcome,
        ),
    )  # fmt: skip


def _moved(state: Match, event: PointsMoved) -> Match:
    (
        phase, mode, balances, banks, delay_ns, consumed_ns, round_no, decision_id, turn, to_act,
        awaiting_reveal, pressed, jockey, standing_bid, forced_tile, drawn_tile, passes, north_hand, south_hand,
        boneyard, layout, _, hand_totals, commitment, outcome,
    ) = state  # fmt: skip
    north, south = balances
    to, _, moved, _ = event
    if to is NORTH:
        balances = _new(BySeat, (north + moved, south - moved))
    else:
        balances = _new(BySeat, (north - moved, south + moved))
    return _new(
        Match,
        (
            phase, mode, balances, banks, delay_ns, consumed_ns, round_no, decision_id, turn, to_act,
            awaiting_reveal, pressed, jockey, standing_bid, forced_tile, drawn_tile, passes, north_hand, south_hand,
            boneyard, layout, event, hand_totals, commitment, outcome,
        ),
    )  # fmt: skip


def _timed(state: Match, event: TurnTimed) -> Match:
    (
        phase, mode, balances, banks, delay_ns, _, round_no, decision_id, turn, to_act,
        awaiting_reveal, pressed, jockey, standing_bid, forced_tile, drawn_tile, passes, north_hand, south_hand,
        boneyard, layout, last_transfer, hand_totals, commitment, outcome,
    ) = state  # fmt: skip
    return _new(
        Match,
        (
            phase, mode, balances, banks.put(event.seat, event.bank_after_ns), delay_ns, event.consumed_ns,
            round_no, decision_id, turn, to_act, awaiting_reveal, pressed, jockey, standing_bid, forced_tile,
            drawn_tile, passes, north_hand, south_hand, boneyard, layout, last_transfer, hand_totals, commitment,
            outcome,
        ),
    )  # fmt: skip


_FREQUENT: Final[dict[type, Callable[[Match, Any], Match]]] = {
    TilePlaced: _placed,
    TurnTimed: _timed,
    TileDrawn: _drawn,
    PointsMoved: _moved,
}
"""The four that make up most of every match: found by their type, in the time of one comparison."""
