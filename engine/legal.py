"""What may be asked for now: the complete list, for menus, bots and the record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from engine.auction import bid_range
from engine.seats import NORTH, SEATS
from engine.state import Match, Phase
from engine.tiles import ENDS, tiles_of

if TYPE_CHECKING:
    from engine.auction import BidRange
    from engine.seats import Seat
    from engine.tiles import End, Tile

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
NOTHING: Final = Legal()
_NOTHING_ELSE: Final = NOTHING[1:]
_DRAW: Final = Legal(draw=True)
_PASS: Final = Legal(pass_=True)
_DECLINE: Final = Legal(decline=True)


_PLAYS: Final = {end: {tile.bit: (tile, end) for tile in tiles_of(end.fits)} for end in ENDS}
"""The play of each tile that fits at an end, by the set of that tile alone."""


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
        plays: list[tuple[Tile, End | None]] = []
        for end in layout.ends:
            fitting = hand & end.fits
            if fitting:
                plays_at = _PLAYS[end]
                while fitting:
                    tile = fitting & -fitting
                    plays.append(plays_at[tile])
                    fitting ^= tile
        return _new(Legal, (tuple(plays), *_NOTHING_ELSE))
    return _DRAW if state.boneyard else _PASS


def _legal_before_opening(state: Match, seat: Seat) -> Legal:
    if state.phase is Phase.OPENING:
        tiles = tiles_of(state.hand(seat)) if state.forced_tile is None else (state.forced_tile,)
        return Legal(tuple((tile, None) for tile in tiles))
    assert state.jockey is not None, "an auction has a jockey"
    bids = bid_range(seat, state.jockey, state.standing_bid, state.balances[seat])
    if state.standing_bid is None:
        return Legal(decline=True, bid=bids)
    return Legal(accept=True, bid=bids)


def _legal_without_turn(state: Match) -> Legal:
    if state.awaiting_reveal is not None:
        return Legal(reveal=state.awaiting_reveal)
    if state.phase is Phase.AWAITING_START:
        return Legal(start=tuple(seat for seat in SEATS if seat not in state.pressed))
    if state.phase is Phase.SETTLED:
        return Legal(continue_=tuple(seat for seat in SEATS if seat not in state.pressed))
    return NOTHING
