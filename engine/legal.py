"""What may be asked for now: the complete list, for menus, bots and the record."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.auction import bid_range
from engine.seats import NORTH, SEATS
from engine.state import Match, Phase
from engine.tiles import ENDS, tile_set, tiles_of

if TYPE_CHECKING:
    from engine.auction import BidRange
    from engine.seats import Seat
    from engine.tiles import End, Tile, TileSet

Plays = tuple[tuple["Tile", "End | None"], ...]
"""Tiles with the end each may be joined to; None for an opening tile."""


class Legal(NamedTuple):
    """What may be asked for now. Whatever is not listed is refused, but for Resign, legal from Start to the end."""

    play: Plays = ()
    """For the seat to act."""
    draw: bool = False
    pass_: bool = False
    accept: bool = False
    decline: bool = False
    bid: BidRange | None = None
    start: tuple[Seat, ...] = ()
    """The seats that have not pressed Start."""
    continue_: tuple[Seat, ...] = ()
    """The seats that have not pressed Continue."""
    reveal: Seat | None = None

    @property
    def anything(self) -> bool:
        """Whether any command but Resign is legal."""
        return self != NOTHING


_new: Final = tuple.__new__
_AWAITING_START: Final = Phase.AWAITING_START
_OPENING: Final = Phase.OPENING
_SETTLED: Final = Phase.SETTLED
NOTHING: Final = Legal()
_NOTHING_ELSE: Final = NOTHING[1:]
_DRAW: Final = Legal(draw=True)
_PASS: Final = Legal(pass_=True)
_DECLINE: Final = Legal(decline=True)


def _plays_at(end: End) -> dict[TileSet, Plays]:
    """The plays at one end for each set of tiles that all fit there: seven tiles, hence 128 sets."""
    fitting = tiles_of(end.fits)
    pairs = [(tile, end) for tile in fitting]
    sets = (chosen for size in range(len(pairs) + 1) for chosen in combinations(pairs, size))
    return {tile_set(tile for tile, _ in chosen): chosen for chosen in sets}


# A hand is a number, so the plays at an end are looked up, not searched for.
_PLAYS: Final = {end: _plays_at(end) for end in ENDS}


def legal(state: Match) -> Legal:
    """Everything that is legal now. Never empty while a decision is open."""
    seat = state.to_act
    if seat is None:
        return _legal_without_turn(state)
    layout = state.layout
    if not layout.ends:
        return _legal_before_opening(state, seat)
    hand = state.north_hand if seat is NORTH else state.south_hand
    # Before the draw nothing fitted: when the drawn tile does, it is the only one (rule 4.3).
    if hand & layout.fits:
        plays: Plays = ()
        for end in layout.ends:
            plays += _PLAYS[end][hand & end.fits]
        return _new(Legal, (plays,) + _NOTHING_ELSE)  # noqa: RUF005 - unpacking makes a list on the way
    return _DRAW if state.boneyard else _PASS


def _legal_before_opening(state: Match, seat: Seat) -> Legal:
    if state.phase is _OPENING:
        tiles = tiles_of(state.hand(seat)) if state.forced_tile is None else (state.forced_tile,)
        return Legal(tuple([(tile, None) for tile in tiles]))
    assert state.jockey is not None, "an auction has a jockey"
    bids = bid_range(seat, state.jockey, state.standing_bid, state.balances[seat])
    if state.standing_bid is None:
        return Legal(decline=True, bid=bids)
    return Legal(accept=True, bid=bids)


def _legal_without_turn(state: Match) -> Legal:
    if state.awaiting_reveal is not None:
        return Legal(reveal=state.awaiting_reveal)
    if state.phase is _AWAITING_START:
        return Legal(start=_pressing(state))
    if state.phase is _SETTLED:
        return Legal(continue_=_pressing(state))
    return NOTHING


def _pressing(state: Match) -> tuple[Seat, ...]:
    """The seats that have not pressed."""
    return tuple([seat for seat in SEATS if seat not in state.pressed]) if state.pressed else SEATS
