"""The tiles of the double-six set, their ports, and sets of tiles.

There is exactly one object for each tile and for each end, so that they may be compared with `is`; copying and
pickling give the same object back. A set of tiles is a plain integer, bit `tile.id` for each member: a hand is
then one number, and "which of these tiles fit a 4" is one `&`.
"""

from __future__ import annotations

from enum import StrEnum
from functools import total_ordering
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterable

PIPS_MAX: Final = 6
HAND_SIZE: Final = 7

TileSet = int
"""A set of tiles: bit `tile.id` is set for each member."""


class Port(StrEnum):
    """Where on a tile a neighbour may be joined (rule 3.3)."""

    LOW = "low"
    HIGH = "high"
    LINE_A = "line_a"
    LINE_B = "line_b"
    BRANCH_A = "branch_a"
    BRANCH_B = "branch_b"


@total_ordering
class Tile:
    """One of the 28 tiles. Ordered by the smaller half, then the larger: [0|0], [0|1], … [6|6].

    Made once, below; everybody else uses `Tile.parse`, `Tile.of` or `DOUBLE_SIX`.
    """

    __slots__ = ("bit", "high", "id", "is_double", "low", "pips", "text")

    low: int
    """The smaller half, 0 to 6."""
    high: int
    """The larger half, `low` to 6."""
    id: int
    """Position in `DOUBLE_SIX`, 0 to 27."""
    bit: TileSet
    """The set that holds this tile alone."""
    pips: int
    """The sum of both halves."""
    is_double: bool
    text: str
    """`low|high`, for example `1|4`."""

    def __init__(self, low: int, high: int, number: int) -> None:
        put = object.__setattr__
        put(self, "low", low)
        put(self, "high", high)
        put(self, "id", number)
        put(self, "bit", 1 << number)
        put(self, "pips", low + high)
        put(self, "is_double", low == high)
        put(self, "text", f"{low}|{high}")

    @staticmethod
    def parse(text: str) -> Tile:
        """The tile written `low|high`. ValueError for anything else, `4|1` included."""
        tile = _BY_TEXT.get(text)
        if tile is None:
            msg = f"not a tile: {text!r}"
            raise ValueError(msg)
        return tile

    @staticmethod
    def of(a: int, b: int) -> Tile:
        """The tile with these halves, in either order. ValueError when a half is not 0 to 6."""
        return Tile.parse(f"{min(a, b)}|{max(a, b)}")

    def other(self, value: int) -> int:
        """The half across from one that shows `value`."""
        return self.low + self.high - value

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"[{self.text}]"

    def __lt__(self, other: object) -> bool:
        return self.id < other.id if isinstance(other, Tile) else NotImplemented

    def __setattr__(self, name: str, value: object) -> NoReturn:
        msg = f"a tile cannot change: {name}"
        raise AttributeError(msg)

    def __copy__(self) -> Tile:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Tile:
        return self

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return Tile.parse, (self.text,)


DOUBLE_SIX: Final[tuple[Tile, ...]] = tuple(
    Tile(low, high, number)
    for number, (low, high) in enumerate((a, b) for a in range(PIPS_MAX + 1) for b in range(a, PIPS_MAX + 1))
)
"""All 28 tiles, in order (rule 2.1)."""

_BY_TEXT: Final = {tile.text: tile for tile in DOUBLE_SIX}
ALL_TILES: Final[TileSet] = (1 << len(DOUBLE_SIX)) - 1
WITH_VALUE: Final[tuple[TileSet, ...]] = tuple(
    sum(tile.bit for tile in DOUBLE_SIX if value in (tile.low, tile.high)) for value in range(PIPS_MAX + 1)
)
"""For each value, the seven tiles that show it."""


def tile_set(tiles: Iterable[Tile]) -> TileSet:
    """The set of these tiles."""
    members = 0
    for tile in tiles:
        members |= tile.bit
    return members


def _subsets(tiles: tuple[Tile, ...]) -> tuple[tuple[Tile, ...], ...]:
    """All sets of these tiles, by the number whose bits say which of them are in it."""
    sets: list[tuple[Tile, ...]] = [()]
    for tile in tiles:
        sets += [(*chosen, tile) for chosen in sets]
    return tuple(sets)


# A set is looked up in four parts of seven tiles, not searched for: 128 sets each.
_PART: Final = (1 << HAND_SIZE) - 1
_FIRST, _SECOND, _THIRD, _LAST = (_subsets(DOUBLE_SIX[at : at + HAND_SIZE]) for at in (0, 7, 14, 21))


def tiles_of(members: TileSet) -> tuple[Tile, ...]:
    """The tiles of a set, in order."""
    return (
        _FIRST[members & _PART]
        + _SECOND[members >> 7 & _PART]
        + _THIRD[members >> 14 & _PART]
        + _LAST[members >> 21]
    )


def pips_of(members: TileSet) -> int:
    """The pips of a set of tiles added up: the hand total of rule 4.6."""
    return sum([tile.pips for tile in tiles_of(members)])


class End:
    """A port of one particular tile: a place where another tile may be joined (rule 3.1).

    Not every end is ever open: a double that is not the spinner has branch ports nobody can reach.
    """

    __slots__ = ("counts", "fits", "port", "text", "tile", "value")

    tile: Tile
    port: Port
    value: int
    """What a joined tile must show, 0 to 6."""
    counts: int
    """What it adds to the count while it is open (rule 3.5): a half, both halves of a double, 0 for a branch."""
    fits: TileSet
    """The seven tiles that show the value."""
    text: str
    """`TILE PORT`, for example `1|4 high`."""

    def __init__(self, tile: Tile, port: Port) -> None:
        """Use `End.of`: this makes a new object, which nothing would recognise."""
        put = object.__setattr__
        put(self, "tile", tile)
        put(self, "port", port)
        put(self, "value", tile.low if port is Port.LOW else tile.high)
        if port in (Port.BRANCH_A, Port.BRANCH_B):
            put(self, "counts", 0)
        else:
            put(self, "counts", tile.pips if tile.is_double else self.value)
        put(self, "fits", WITH_VALUE[self.value])
        put(self, "text", f"{tile.text} {port.value}")

    @staticmethod
    def parse(text: str) -> End:
        """The end written `TILE PORT`. ValueError for anything else, also for a port that the tile does not have."""
        end = _END_BY_TEXT.get(text)
        if end is None:
            msg = f"not an end: {text!r}"
            raise ValueError(msg)
        return end

    @staticmethod
    def of(tile: Tile, port: Port) -> End:
        """The end at this port. ValueError when the tile has no such port (rule 3.3)."""
        return End.parse(f"{tile.text} {port.value}")

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{self.text}>"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        msg = f"an end cannot change: {name}"
        raise AttributeError(msg)

    def __copy__(self) -> End:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> End:
        return self

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return End.parse, (self.text,)


_PORTS: Final = {
    False: (Port.LOW, Port.HIGH),
    True: (Port.LINE_A, Port.LINE_B, Port.BRANCH_A, Port.BRANCH_B),
}
ENDS: Final[tuple[End, ...]] = tuple(
    End(tile, port) for tile in DOUBLE_SIX for port in _PORTS[tile.is_double]
)
"""Every end there can be: two for a non-double, four for a double."""

_END_BY_TEXT: Final = {end.text: end for end in ENDS}
