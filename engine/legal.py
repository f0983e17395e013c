"""What may be asked for now: the complete list, for menus, bots and the record."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.auction import bid_range
from engine.seats import SEATS
from engine.state import Match, Phase
from engine.tiles import DOUBLE_SIX, ENDS, HAND_SIZE, WITH_VALUE, tile_set, tiles_of

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


NOTHING: Final = Legal()
_DRAW: Final = Legal(draw=True)
_PASS: Final = Legal(pass_=True)
_DECLINE: Final = Legal(decline=True)
_AUCTION: Final = Phase.AUCTION
_OPENING: Final = Phase.OPENING


def _plays_at(end: End) -> dict[TileSet, Plays]:
    """The plays at one end for each set of tiles that all fit there."""
    fitting = tiles_of(WITH_VALUE[end.value])
    sets = (tiles for size in range(HAND_SIZE + 1) for tiles in combinations(fitting, size))
    pairs = {tile: (tile, end) for tile in fitting}
    return {tile_set(tiles): tuple(pairs[tile] for tile in tiles) for tiles in sets}


# A hand is a number, so the plays at an end are looked up, not searched for: seven tiles show a value, hence 128
# sets for each of the 70 ends.
_PLAYS: Final = {end: (WITH_VALUE[end.value], _plays_at(end)) for end in ENDS}
_OPENING_PLAYS: Final[dict[Tile, Plays]] = {tile: ((tile, None),) for tile in DOUBLE_SIX}


def legal(state: Match) -> Legal:
    """Everything that is legal now. Never empty while a decision is open."""
    seat = state.to_act
    if seat is None:
        return _legal_without_turn(state)
    hand = state.hand(seat)
    phase = state.phase
    if phase is _AUCTION:
        return _legal_in_auction(state, seat)
    if phase is _OPENING:
        tiles = tiles_of(hand) if state.forced_tile is None else (state.forced_tile,)
        return Legal(tuple((tile, None) for tile in tiles))
    layout = state.layout
    # Before the draw nothing fitted: when the drawn tile does, it is the only one (rule 4.3).
    if hand & layout.fits:
        plays: Plays = ()
        for end in layout.ends:
            fits, plays_at = _PLAYS[end]
            plays += plays_at[hand & fits]
        return Legal(plays)
    return _DRAW if state.boneyard else _PASS


def _legal_in_auction(state: Match, seat: Seat) -> Legal:
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
