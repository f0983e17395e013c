"""Who opens a round, and with what (rules 2.2, 2.3, 5.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine.seats import NORTH, SOUTH
from engine.tiles import DOUBLE_SIX

if TYPE_CHECKING:
    from engine.seats import Seat
    from engine.tiles import Tile, TileSet


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


_BY_RANK: Final = sorted(DOUBLE_SIX, key=_rank, reverse=True)


def ranked_opening(north: TileSet, south: TileSet) -> tuple[Seat, Tile]:
    """The seat that must open with these hands, and the very tile it must open with."""
    dealt = north | south
    tile = next(tile for tile in _BY_RANK if tile.bit & dealt)
    return (NORTH if tile.bit & north else SOUTH), tile
