"""The deal of one round, and the commitment that proves it was not changed afterwards."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine.seats import NORTH, Seat
from engine.tiles import ALL_TILES, DOUBLE_SIX, HAND_SIZE, Tile, tile_set, tiles_of

if TYPE_CHECKING:
    from collections.abc import Sequence

SALT_SIZE: Final = 32
"""Bytes of salt in a commitment."""

_SIZES: Final = (HAND_SIZE, HAND_SIZE, len(DOUBLE_SIX) - 2 * HAND_SIZE)


@dataclass(frozen=True, slots=True)
class Deal:
    """Seven tiles for each seat and fourteen in the boneyard, each of the 28 once (rule 2.1).

    The order of a hand means nothing, so hands are kept sorted. The boneyard is in drawing order.
    ValueError names what is wrong.
    """

    north: tuple[Tile, ...]
    south: tuple[Tile, ...]
    boneyard: tuple[Tile, ...]

    def __post_init__(self) -> None:
        sizes = len(self.north), len(self.south), len(self.boneyard)
        if sizes != _SIZES:
            names = ("north", "south", "boneyard")
            name, found, size = next(x for x in zip(names, sizes, _SIZES, strict=True) if x[1] != x[2])
            msg = f"{name} has {found} tiles instead of {size}"
            raise ValueError(msg)
        north, south = tile_set(self.north), tile_set(self.south)
        if north | south | tile_set(self.boneyard) != ALL_TILES:
            everything = (*self.north, *self.south, *self.boneyard)
            twice = next(tile for tile in everything if everything.count(tile) > 1)
            msg = f"the tile {twice} is there twice"
            raise ValueError(msg)
        object.__setattr__(self, "north", tiles_of(north))
        object.__setattr__(self, "south", tiles_of(south))

    @staticmethod
    def from_shuffle(order: Sequence[Tile]) -> Deal:
        """Deal a shuffled set: the first seven to north, the next seven to south, the rest is the boneyard."""
        return Deal(
            tuple(order[:HAND_SIZE]),
            tuple(order[HAND_SIZE : 2 * HAND_SIZE]),
            tuple(order[2 * HAND_SIZE :]),
        )

    def hand(self, seat: Seat) -> tuple[Tile, ...]:
        """The seven tiles of one seat, sorted."""
        return self.north if seat is NORTH else self.south


def commitment(deal: Deal, salt: bytes) -> str:
    """The SHA-256 of a deal and its salt, as 64 lower-case hexadecimal digits.

    What is hashed: the 32 bytes of salt, then this text in ASCII, where each line ends with one newline, tiles are
    written `low|high` with one space between them, hands are sorted and the boneyard is in drawing order::

        spectacular-bid deal 1
        north 0|0 1|4 …
        south 0|1 …
        boneyard 3|3 …

    ValueError when the salt does not have 32 bytes.
    """
    if len(salt) != SALT_SIZE:
        msg = f"the salt has {len(salt)} bytes instead of {SALT_SIZE}"
        raise ValueError(msg)
    north, south, boneyard = (
        " ".join([tile.text for tile in tiles]) for tiles in (deal.north, deal.south, deal.boneyard)
    )
    text = f"spectacular-bid deal 1\nnorth {north}\nsouth {south}\nboneyard {boneyard}\n"
    return hashlib.sha256(salt + text.encode("ascii")).hexdigest()
