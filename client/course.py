"""How the lines of a layout are led over a table: one tile after the other, each where it fits best.

Where a tile lies depends on the plan, the space and the tiles before it, on nothing that comes later. So what lies
stays where it is for as long as one plan lasts.

Places are also numbers: a bit for each square unit of the table, so that "does anything lie there" is one `&`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from client.geometry import HALF, Box, Piece
from engine.tiles import End, Port

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.tiles import Tile

Direction = tuple[int, int]
Cell = tuple[int, int]
"""The place of one half: its left and upper edge."""
Squares = int
"""A set of square units."""

RIGHT, DOWN, LEFT, UP = (1, 0), (0, 1), (-1, 0), (0, -1)
# 27 tiles in one direction from the first are 108 units.
_FAR: Final = 128
_STRIDE: Final = 2 * _FAR


@dataclass(frozen=True, slots=True)
class Plan:
    """How lines are led where they have a choice."""

    gap: int
    """Units that stay free between tiles that are not joined, 0 or 1."""
    clockwise: tuple[bool, bool, bool, bool]
    """For the lines to the left and right and the branches up and down: which way they turn first."""
    width: int
    """The space for tiles and the places beside open ends."""
    height: int | None
    """The same; None for columns: lines that turned once go on up and down for as long as it takes."""
    level_branches: bool = False
    """Whether the branches, too, go level as soon as they can: flatter."""
    foresight: tuple[bool, ...] = (False, True)
    """For which tiles each line must always have a place: those that are no doubles, doubles."""


@dataclass(frozen=True, slots=True)
class Tip:
    """Where a line goes on."""

    ahead: Cell
    """The place of the next half, straight on. Kept free, and the end's label stands there."""
    direction: Direction
    last: Cell | None
    """The half at the tip, where a tile may also be joined at the side; None at a double."""
    clockwise: bool
    """Which way the line turns first."""
    upright: bool
    """Whether it goes up or down while it can; other lines go back to the level soon when they had to turn."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A place for the next tile, and the tip it makes."""

    box: Box
    tip: Tip
    tile: Squares
    around: Squares
    """The place of the tile with one unit more on each side."""
    ahead: Squares
    bounds: Box
    """The tile and the place ahead of it."""


class Course:
    """Tiles put down one after the other."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.pieces: dict[Tile, Piece] = {}
        self.tips: dict[End, Tip] = {}
        self._squares: dict[Tile, Squares] = {}
        self._taken: Squares = 0
        self._bounds = Box(0, 0, 0, 0)
        """Of the tiles alone."""

    def open(self, tile: Tile, *, mirrored: bool) -> None:
        """Put the first tile down: LOW or LINE_A to the left, or to the right if mirrored."""
        left, right, up, down = self._plan.clockwise
        columns = self._plan.height is None
        upright = not self._plan.level_branches
        values = (tile.low, tile.high)
        if tile.is_double:
            piece = Piece(tile, 0, -1, upright=True, values=values, spinner=True)
            tips = [
                Tip((-HALF, 0), LEFT, None, left, columns),
                Tip((HALF, 0), RIGHT, None, right, columns),
                Tip((0, -1 - HALF), UP, None, up, upright),
                Tip((0, 1 + HALF), DOWN, None, down, upright),
            ]
            ports = [Port.LINE_A, Port.LINE_B, Port.BRANCH_A, Port.BRANCH_B]
        else:
            piece = Piece(
                tile, 0, 0, upright=False, values=values[::-1] if mirrored else values, spinner=False
            )
            tips = [
                Tip((-HALF, 0), LEFT, (0, 0), left, columns),
                Tip((2 * HALF, 0), RIGHT, (HALF, 0), right, columns),
            ]
            ports = [Port.LOW, Port.HIGH]
        if mirrored:
            ports[:2] = ports[1], ports[0]
        self.tips = {End.of(tile, port): tip for port, tip in zip(ports, tips, strict=True)}
        self._bounds = piece.box
        self._add(piece)

    def join(self, tile: Tile, end: End) -> bool:
        """Put a tile down at an end; False when there is no place for it. KeyError for an end that is not there."""
        tip = self.tips.pop(end)
        for spot in _spots(tip, is_double=tile.is_double):
            if self._fits(spot, end.tile, self.tips.values()):
                way = exposed(tile, end)
                self.tips[way] = spot.tip
                before = self._taken, self._bounds
                self._add(_piece(tile, end, spot))
                if self._goes_on():
                    return True
                self._taken, self._bounds = before
                del self.tips[way], self.pieces[tile]
        return False

    def _add(self, piece: Piece) -> None:
        self.pieces[piece.tile] = piece
        self._squares[piece.tile] = squares = _squares(piece.box)
        self._taken |= squares
        self._bounds = self._bounds.around(piece.box)

    def _fits(self, spot: Spot, neighbour: Tile, others: Iterable[Tip]) -> bool:
        """Whether the tile covers and touches nothing, keeps the other tips free and stays within the space."""
        taken = self._taken
        if taken & (spot.tile | spot.ahead):
            return False
        if self._plan.gap and (taken ^ self._squares[neighbour]) & spot.around:
            return False
        bounds = self._bounds.around(spot.bounds)
        for tip in others:
            box, squares = _cell(tip.ahead)
            if squares & (spot.tile | spot.ahead):
                return False
            bounds = bounds.around(box)
        plan = self._plan
        if plan.height is None:
            return 2 * max(-bounds.left, bounds.right - HALF) + HALF <= plan.width
        return bounds.width <= plan.width and bounds.height <= plan.height

    def _goes_on(self) -> bool:
        """Whether each line has a place for one tile more, whatever it is."""
        for end, tip in self.tips.items():
            others = [other for other in self.tips.values() if other is not tip]
            for is_double in self._plan.foresight:
                ways = _spots(tip, is_double=is_double)
                if not any(self._fits(way, end.tile, others) for way in ways):
                    return False
        return True


def exposed(tile: Tile, end: End) -> End:
    """The end that is open after the tile was joined there."""
    if tile.is_double:
        return End.of(tile, Port.LINE_B)
    return End.of(tile, Port.HIGH if tile.low == end.value else Port.LOW)


def _piece(tile: Tile, end: End, spot: Spot) -> Piece:
    other = tile.other(end.value)
    values = (end.value, other) if spot.tip.direction in (RIGHT, DOWN) else (other, end.value)
    box = spot.box
    return Piece(tile, box.left, box.top, box.height > box.width, values, spinner=False)


@lru_cache(maxsize=4096)
def _spots(tip: Tip, *, is_double: bool) -> tuple[Spot, ...]:
    """Where the next tile may lie, the best first: straight on, at the side of the last half, round the corner."""
    return tuple(_ways(tip, is_double=is_double))


def _ways(tip: Tip, *, is_double: bool) -> Iterator[Spot]:
    ways = [tip.direction, *_sides(tip)]
    if not tip.upright and tip.direction in (UP, DOWN):
        ways = [*ways[1:], ways[0]]
    for way in ways:
        if way == tip.direction:
            yield _spot(tip, tip.ahead, way, is_double=is_double)
            continue
        if tip.last is not None:
            yield _spot(tip, _step(tip.last, way, HALF), way, is_double=is_double)
        if not is_double:
            yield _spot(tip, tip.ahead, way, is_double=is_double)


def _spot(tip: Tip, cell: Cell, direction: Direction, *, is_double: bool) -> Spot:
    """A tile with its first half on the cell, led in this direction; a double lies across it."""
    x, y = cell
    if is_double:
        wide, high = abs(direction[1]), abs(direction[0])
        box = Box(x - wide, y - high, x + HALF + wide, y + HALF + high)
        last, ahead = None, _step(cell, direction, HALF)
    else:
        last = _step(cell, direction, HALF)
        box = _cell(cell)[0].around(_cell(last)[0])
        ahead = _step(last, direction, HALF)
    next_tip = Tip(ahead, direction, last, tip.clockwise, tip.upright)
    around = Box(box.left - 1, box.top - 1, box.right + 1, box.bottom + 1)
    ahead_box, ahead_squares = _cell(ahead)
    return Spot(box, next_tip, _squares(box), _squares(around), ahead_squares, box.around(ahead_box))


def _sides(tip: Tip) -> tuple[Direction, Direction]:
    x, y = tip.direction
    clockwise, counter = (-y, x), (y, -x)
    return (clockwise, counter) if tip.clockwise else (counter, clockwise)


def _step(cell: Cell, direction: Direction, units: int) -> Cell:
    return cell[0] + direction[0] * units, cell[1] + direction[1] * units


@lru_cache(maxsize=4096)
def _cell(cell: Cell) -> tuple[Box, Squares]:
    """The place of a half."""
    box = Box(cell[0], cell[1], cell[0] + HALF, cell[1] + HALF)
    return box, _squares(box)


def _squares(box: Box) -> Squares:
    row = ((1 << box.width) - 1) << (box.left + _FAR)
    return sum(row << (_STRIDE * (y + _FAR)) for y in range(box.top, box.bottom))
