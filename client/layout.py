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

import itertools
from dataclasses import replace
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
    steps, mirrored = _from_the_spinner(placements)
    for plan in _plans(width, height):
        course = Course(plan)
        course.open(steps[0][0], mirrored=mirrored)
        if all(end is not None and course.join(tile, end) for tile, end in steps[1:]):
            return _drawn(course, placements, ends)
    raise AssertionError("the last plan has all the space it needs")


def _plans(width: int, height: int) -> Iterator[Plan]:
    """The ways to lead the lines, the best first."""
    width = max(width, WIDTH_MIN)
    for extra in (0, 4, 8, 12):
        for gap in (1, 0):
            for turns in _TURNS:
                yield Plan(gap, turns, width, height + extra)
    yield Plan(0, _TURNS[0], width, None)


_TURNS: Final = (
    (True,) * 4,
    (False,) * 4,
    (True, False, True, False),
    (False, True, False, True),
    *sorted(set(itertools.product((True, False), repeat=4))),
)
"""Round the middle like a wheel one way or the other, or with both lines up or down."""

_Step = tuple["Tile", "End | None"]


def _from_the_spinner(placements: Sequence[Placed]) -> tuple[list[_Step], bool]:
    """The same tiles and joins, told from the spinner: it first, then the way back to the opening tile, then the rest
    as it was placed. So the spinner always stands across a level line with its branches up and down. And whether the
    way back leads to the right."""
    by_tile = {placed.tile: placed for placed in placements}
    at = next((placed for placed in placements if placed.tile.is_double), placements[0])
    if at.end is None or at.joined is None:
        return [(placed.tile, placed.end) for placed in placements], False
    steps: list[_Step] = [(at.tile, None)]
    port = Port.LINE_A
    while at.end is not None and at.joined is not None:
        steps.append((at.end.tile, End.of(at.tile, at.joined)))
        port = at.end.port
        at = by_tile[at.end.tile]
    told = {tile for tile, _ in steps}
    steps += [(placed.tile, placed.end) for placed in placements if placed.tile not in told]
    return steps, port is Port.LOW


def _drawn(course: Course, placements: Sequence[Placed], ends: Iterable[Open]) -> Layout:
    """The drawing, moved so that the opening tile is at (0, 0)."""
    first = course.pieces[placements[0].tile]
    dx, dy = -first.x, -first.y
    pieces = tuple(
        replace(
            course.pieces[placed.tile],
            x=course.pieces[placed.tile].x + dx,
            y=course.pieces[placed.tile].y + dy,
        )
        for placed in placements
    )
    labels = tuple(
        Label(
            each.end,
            each.end.value,
            each.counts,
            course.tips[each.end].ahead[0] + dx,
            course.tips[each.end].ahead[1] + dy,
        )
        for each in ends
    )
    boxes = [*(piece.box for piece in pieces), *(label.box for label in labels)]
    bounds = boxes[0]
    for box in boxes:
        bounds = bounds.around(box)
    return Layout(pieces, labels, bounds)
