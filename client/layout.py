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

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from client.geometry import HALF, Box, Label, Layout, Piece
from engine.tiles import End, Port

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.tiles import Tile

__all__ = ["HALF", "WIDTH_MIN", "Box", "Label", "Layout", "Open", "Piece", "Placed", "lay_out"]

WIDTH_MIN: Final = 28
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
    for plan in _PLANS:
        table = _Table(plan, width, height)
        if all(table.place(placed) for placed in placements):
            return table.layout(ends)
    raise AssertionError("the last plan has all the space it needs")


_RIGHT, _DOWN, _LEFT, _UP = (1, 0), (0, 1), (-1, 0), (0, -1)
_Direction = tuple[int, int]
_Cell = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a line is led."""

    gap: int
    """Units that stay free between tiles that are not joined."""
    bounded: bool = True


_PLANS: Final = (_Plan(gap=1), _Plan(gap=0), _Plan(gap=0, bounded=False))


@dataclass(frozen=True, slots=True)
class _Tip:
    """Where a line goes on."""

    ahead: _Cell
    """The place of the next half, straight on."""
    direction: _Direction
    last: _Cell | None
    """The half at the tip, where a tile may also be joined at the side; None at a double."""
    clockwise: bool = True
    """Which way the line turns next if it can choose."""


@dataclass(frozen=True, slots=True)
class _Spot:
    """A place for the next tile, and the tip it makes."""

    box: Box
    direction: _Direction
    tip: _Tip


class _Table:
    """Tiles put down one after the other; where one lies depends on those before it alone."""

    def __init__(self, plan: _Plan, width: int, height: int) -> None:
        self._plan = plan
        self._width = width
        self._height = height
        self._pieces: list[Piece] = []
        self._tips: dict[End, _Tip] = {}

    def place(self, placed: Placed) -> bool:
        """Put one tile down; False when there is no place for it."""
        tile, end = placed.tile, placed.end
        if end is None:
            self._open(tile)
            return True
        tip = self._tips.get(end)
        if tip is None:
            msg = f"{tile} is joined to {end}, which is not there"
            raise ValueError(msg)
        parent = next(piece for piece in self._pieces if piece.tile is end.tile)
        for spot in _spots(tile, tip):
            if self._free(spot, end, parent):
                self._put(tile, end, spot)
                return True
        return False

    def _open(self, tile: Tile) -> None:
        self._pieces.append(Piece(tile, 0, 0, tile.is_double, (tile.low, tile.high), tile.is_double))
        if tile.is_double:
            self._pieces[0] = Piece(tile, 0, -1, True, (tile.low, tile.high), True)
            self._tips = {
                End.of(tile, Port.LINE_A): _Tip((-HALF, 0), _LEFT, None),
                End.of(tile, Port.LINE_B): _Tip((HALF, 0), _RIGHT, None),
                End.of(tile, Port.BRANCH_A): _Tip((0, -1 - HALF), _UP, None),
                End.of(tile, Port.BRANCH_B): _Tip((0, 1 + HALF), _DOWN, None),
            }
        else:
            self._tips = {
                End.of(tile, Port.LOW): _Tip((-HALF, 0), _LEFT, (0, 0)),
                End.of(tile, Port.HIGH): _Tip((2 * HALF, 0), _RIGHT, (HALF, 0)),
            }

    def _free(self, spot: _Spot, end: End, parent: Piece) -> bool:
        gap = self._plan.gap
        if any(spot.box.overlaps(piece.box, gap if piece is not parent else 0) for piece in self._pieces):
            return False
        ahead = _box(spot.tip.ahead)
        if any(ahead.overlaps(piece.box) for piece in self._pieces):
            return False
        others = [_box(tip.ahead) for other, tip in self._tips.items() if other is not end]
        if any(spot.box.overlaps(other) or ahead.overlaps(other) for other in others):
            return False
        if not self._plan.bounded:
            return True
        bounds = spot.box.around(ahead)
        for box in (*others, *(piece.box for piece in self._pieces)):
            bounds = bounds.around(box)
        return bounds.width <= self._width and bounds.height <= self._height

    def _put(self, tile: Tile, end: End, spot: _Spot) -> None:
        spinner = tile.is_double and not any(piece.spinner for piece in self._pieces)
        forwards = spot.direction in (_RIGHT, _DOWN)
        other = tile.other(end.value)
        values = (end.value, other) if forwards else (other, end.value)
        box = spot.box
        self._pieces.append(Piece(tile, box.left, box.top, box.height > box.width, values, spinner))
        del self._tips[end]
        if not tile.is_double:
            self._tips[End.of(tile, Port.HIGH if tile.low == end.value else Port.LOW)] = spot.tip
            return
        self._tips[End.of(tile, Port.LINE_B)] = spot.tip
        if spinner:
            middle = ((box.left + box.right) // 2 - 1, (box.top + box.bottom) // 2 - 1)
            sides = (_LEFT, _RIGHT) if spot.direction in (_UP, _DOWN) else (_UP, _DOWN)
            for port, side in zip((Port.BRANCH_A, Port.BRANCH_B), sides, strict=True):
                self._tips[End.of(tile, port)] = _Tip(_step(middle, side, 1 + HALF), side, None)

    def layout(self, ends: Iterable[Open]) -> Layout:
        """The drawing, with a label for each of these ends."""
        labels = tuple(
            Label(each.end, each.end.value, each.counts, *self._tips[each.end].ahead) for each in ends
        )
        boxes = [*(piece.box for piece in self._pieces), *(label.box for label in labels)]
        bounds = boxes[0] if boxes else Box(0, 0, 0, 0)
        for box in boxes:
            bounds = bounds.around(box)
        return Layout(tuple(self._pieces), labels, bounds)


def _spots(tile: Tile, tip: _Tip) -> Iterator[_Spot]:
    """Where the tile may lie, the best first: straight on, at the side of the last half, round the corner."""
    direction = tip.direction
    sides = (_turned(direction, clockwise=tip.clockwise), _turned(direction, clockwise=not tip.clockwise))
    yield _straight(tile, tip.ahead, direction, clockwise=tip.clockwise)
    for side in sides:
        if tip.last is not None:
            yield _straight(tile, _step(tip.last, side, HALF), side, clockwise=tip.clockwise)
        if not tile.is_double:
            yield _straight(tile, tip.ahead, side, clockwise=tip.clockwise)


def _straight(tile: Tile, cell: _Cell, direction: _Direction, *, clockwise: bool) -> _Spot:
    """The tile with its first half on the cell, led in this direction; a double lies across it."""
    x, y = cell
    if tile.is_double:
        across = abs(direction[1]), abs(direction[0])
        box = Box(x - across[0], y - across[1], x + HALF + across[0], y + HALF + across[1])
        return _Spot(box, direction, _Tip(_step(cell, direction, HALF), direction, None, clockwise))
    last = _step(cell, direction, HALF)
    tip = _Tip(_step(last, direction, HALF), direction, last, clockwise)
    return _Spot(_box(cell).around(_box(last)), direction, tip)


def _turned(direction: _Direction, *, clockwise: bool) -> _Direction:
    x, y = direction
    return (-y, x) if clockwise else (y, -x)


def _step(cell: _Cell, direction: _Direction, units: int) -> _Cell:
    return cell[0] + direction[0] * units, cell[1] + direction[1] * units


def _box(cell: _Cell) -> Box:
    return Box(cell[0], cell[1], cell[0] + HALF, cell[1] + HALF)
