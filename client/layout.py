"""Where the tiles of a layout lie when it is drawn: pure geometry, for the terminal and for pictures alike.

    layout = lay_out(table.placements, table.ends, width=38, height=12)
    for piece in layout.pieces: ...   # in the order of placement: the last one was played last
    for label in layout.ends: ...     # a free place of one half beside each open end

All measures are whole units of a quarter of a tile: a half is `HALF` = 2 units wide and high. A drawing that has only
one character row (or column) a half divides every coordinate by two, rounding down: nothing overlaps then either, and
what touched still touches.

The first tile lies at (0, 0). A tile that lies stays where it is while others are added, except when its line cannot
go on within the space: then everything may move to a tighter plan, at most once for each plan there is.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

from client.course import Course, Plan
from client.geometry import HALF, Box, Label, Layout, Piece
from engine.tiles import End, Port

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.tiles import Tile

__all__ = ["HALF", "WIDTH_MIN", "Box", "Label", "Layout", "Open", "Piece", "Placed", "lay_out"]

WIDTH_MIN: Final = 20
"""From this width on, in units, every layout keeps within the width it is given."""


class Placed(Protocol):
    """One tile as it was placed: `client.table.Placement` and `engine.layout.Placement` are."""

    @property
    def tile(self) -> Tile:
        """The tile."""

    @property
    def end(self) -> End | None:
        """The end it was joined to; None for the opening tile."""

    @property
    def joined(self) -> Port | None:
        """The port of the tile that the join uses; None for the opening tile."""


class Open(Protocol):
    """An open end and what it counts: `client.table.OpenEnd` is."""

    @property
    def end(self) -> End:
        """The end."""

    @property
    def counts(self) -> int:
        """What it counts now, in points."""


def lay_out(placements: Sequence[Placed], ends: Iterable[Open] = (), *, width: int, height: int) -> Layout:
    """Lay the tiles of one round out within `width` by `height` units, labels included.

    The main line begins level, the spinner stands across it, its branches leave up and down; a line turns where it
    would leave the space. Not every layout fits into a low space: then it grows beyond `height`, and beyond `width`
    only when that is below `WIDTH_MIN`. `bounds` tells. ValueError when a tile is joined to an end that is not there.
    """
    if not placements:
        return Layout((), (), Box(0, 0, 0, 0))
    try:
        course = _led(*_from_the_spinner(placements), width, height)
        return _drawn(course, placements, ends)
    except KeyError as error:
        msg = f"these tiles do not hang together: {error} is not there"
        raise ValueError(msg) from None


@lru_cache(maxsize=64)
def _led(first: Tile, joins: tuple[_Join, ...], mirrored: bool, width: int, height: int) -> Course:  # noqa: FBT001
    """The first plan by which every tile has a place. Kept, because a table is drawn again and again as it lies."""
    for plan in _plans(width, height):
        course = Course(plan)
        course.open(first, mirrored=mirrored)
        if all(course.join(tile, end) for tile, end in joins):
            return course
    raise AssertionError("the last plan has all the space it needs")


def _plans(width: int, height: int) -> Iterator[Plan]:
    """The ways to lead the lines, the best first; the last one needs no more than the width."""
    width = max(width, WIDTH_MIN)
    for more in _HIGHER:
        for gap, foresight in _TIGHTER:
            for level_branches in (False, True):
                for turns in _TURNS:
                    yield Plan(gap, turns, width, height + more, level_branches, foresight)
    yield Plan(0, _TURNS[0], width, None)


_HIGHER: Final = (0, 2, 4, 8, 16)
_TIGHTER: Final = ((1, (False, True)), (0, (False, True)), (0, (False,)), (0, ()))
"""Units between tiles that are not joined, and which tiles must always have a place next."""
_TURNS: Final = (
    (True, True, True, True),
    (False, False, False, False),
    (True, False, True, False),
    (False, True, False, True),
)
"""Like a wheel round the middle, one way or the other; then the two lines both up or both down."""

_Join = tuple["Tile", End]


def _from_the_spinner(placements: Sequence[Placed]) -> tuple[Tile, tuple[_Join, ...], bool]:
    """The same tiles and joins, told from the spinner: it first, then the way back to the opening tile, then the rest
    as it was placed. So the spinner always stands across a level line with its branches up and down. And whether the
    way back leads to the right."""
    by_tile = {placed.tile: placed for placed in placements}
    at = next((placed for placed in placements if placed.tile.is_double), placements[0])
    first, port = at.tile, Port.LINE_A
    joins: dict[Tile, End] = {}
    while at.end is not None and at.joined is not None:
        joins[at.end.tile] = End.of(at.tile, at.joined)
        port = at.end.port
        at = by_tile[at.end.tile]
    for placed in placements:
        if placed.tile is not first and placed.tile not in joins and placed.end is not None:
            joins[placed.tile] = placed.end
    return first, tuple(joins.items()), port is Port.LOW


def _drawn(course: Course, placements: Sequence[Placed], ends: Iterable[Open]) -> Layout:
    """The drawing, moved so that the opening tile is at (0, 0)."""
    lying = [course.pieces[placed.tile] for placed in placements]
    x, y = lying[0].x, lying[0].y
    pieces = tuple(replace(piece, x=piece.x - x, y=piece.y - y) for piece in lying)
    labels = []
    for each in ends:
        ahead = course.tips[each.end].ahead
        labels.append(Label(each.end, each.end.value, each.counts, ahead[0] - x, ahead[1] - y))
    boxes = [*(piece.box for piece in pieces), *(label.box for label in labels)]
    bounds = boxes[0]
    for box in boxes[1:]:
        bounds = bounds.around(box)
    return Layout(pieces, tuple(labels), bounds)
