"""Who opens a round, and with what (rules 2.2, 2.3, 5.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine.seats import NORTH, SOUTH
from engine.tiles import DOUBLE_SIX

if TYPE_CHECKING:
    from engine.deal import Deal
    from engine.seats import Seat
    from engine.tiles import Tile


@dataclass(frozen=True, slots=True)
class Ranked:
    """The highest double opens, or the heaviest tile: the first round, and every round after a blocked one."""


@dataclass(frozen=True, slots=True)
class Auctioned:
    """The opening is auctioned between the jockey, who went out, and the challenger."""

    jockey: Seat


Opening = Ranked | Auctioned
RANKED: Final = Ranked()


def _rank(tile: Tile) -> tuple[bool, int, int]:
    """Doubles before all others, then by pips, then by the larger half."""
    return tile.is_double, tile.pips, tile.high


_RANKS: Final = {tile: _rank(tile) for tile in DOUBLE_SIX}


def ranked_opening(deal: Deal) -> tuple[Seat, Tile]:
    """The seat that must open this deal, and the very tile it must open with."""
    tile = max((*deal.north, *deal.south), key=_RANKS.__getitem__)
    return (NORTH if tile in deal.north else SOUTH), tile
