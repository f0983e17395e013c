"""The parts of a drawn layout: rectangles on a grid. `client.layout` puts them where they lie.

All measures are whole units of a quarter of a tile: a half is `HALF` = 2 units wide and high, a tile 2 by 4, so that a
double across its line stands in the middle of it. x grows to the right, y downwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from engine.tiles import End, Tile

HALF: Final = 2
"""Units a half of a tile is wide and high."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle: `left` <= x < `right`, `top` <= y < `bottom`."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        """In units."""
        return self.right - self.left

    @property
    def height(self) -> int:
        """In units."""
        return self.bottom - self.top

    def overlaps(self, other: Box, gap: int = 0) -> bool:
        """Whether the two share a point, or are nearer than `gap` in both directions."""
        return (
            self.left < other.right + gap
            and other.left < self.right + gap
            and self.top < other.bottom + gap
            and other.top < self.bottom + gap
        )

    def around(self, other: Box) -> Box:
        """The smallest rectangle that holds both."""
        return Box(
            min(self.left, other.left),
            min(self.top, other.top),
            max(self.right, other.right),
            max(self.bottom, other.bottom),
        )


@dataclass(frozen=True, slots=True)
class Piece:
    """One tile on the table."""

    tile: Tile
    x: int
    """Left edge, in units."""
    y: int
    """Upper edge, in units."""
    upright: bool
    """Whether one half lies above the other; else they lie side by side."""
    values: tuple[int, int]
    """The pips of the left or upper half, then of the right or lower one."""
    spinner: bool

    @property
    def box(self) -> Box:
        """The place the tile takes."""
        width, height = (HALF, 2 * HALF) if self.upright else (2 * HALF, HALF)
        return Box(self.x, self.y, self.x + width, self.y + height)


@dataclass(frozen=True, slots=True)
class Label:
    """A free place beside an open end, `HALF` by `HALF` units: where to write what the end counts, and where a drawing may
    show that a tile fits."""

    end: End
    value: int
    """What a joined tile must show, 0 to 6."""
    counts: int
    """What the end adds to the count now; all of them together are the total (rule 3.5)."""
    x: int
    """Left edge, in units."""
    y: int
    """Upper edge, in units."""

    @property
    def box(self) -> Box:
        """The place the label may take."""
        return Box(self.x, self.y, self.x + HALF, self.y + HALF)


@dataclass(frozen=True, slots=True)
class Layout:
    """The drawing of a table."""

    pieces: tuple[Piece, ...]
    """In the order of placement."""
    ends: tuple[Label, ...]
    """In the order in which they were given."""
    bounds: Box
    """The smallest rectangle with all pieces and labels; empty at (0, 0) for an empty table."""
