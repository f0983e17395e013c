"""The layout drawn with characters: as large as it fits, its open ends labelled, panned where even the smallest is cut.

Three scales. Large: a half is four columns by two rows, with borders that neighbours share. Small: a half is three
columns by one row, `[2|5]` lying and `[2]` over `[5]` standing; the spinner has braces. Tiny: two columns by one row.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from client.layout import lay_out
from client.terminal.canvas import Canvas, Target, width_of
from client.terminal.theme import UNICODE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from client.layout import Label, Layout, Open, Piece, Placed
    from client.terminal.theme import Glyphs
    from engine.tiles import End

LETTERS: Final = "wxyz"
"""The names of the ends, in the order of the table: there are never more than four."""
_LABEL_ROOM: Final = 2
"""Columns kept free on both sides, because a label may be wider than a half."""

_Style = tuple[str, str]


def draw_layout(
    width: int,
    height: int,
    placements: Sequence[Placed],
    ends: Sequence[Open],
    *,
    fits: Collection[End] = (),
    chosen: End | None = None,
    glyphs: Glyphs = UNICODE,
) -> Canvas:
    """The layout in the middle of a canvas of this size. `fits` and `chosen` are ends to be marked."""
    if not placements or width <= 0 or height <= 0:
        return Canvas(width, height)
    room = max(1, width - 2 * _LABEL_ROOM)
    scale, layout = _largest(room, height, placements, ends, glyphs)
    left, top, right, bottom = scale.extent(layout)
    full = Canvas(right - left + 2 * _LABEL_ROOM, bottom - top)
    drawer = _Drawer(full, scale, _LABEL_ROOM - left, -top)
    last = placements[-1].tile
    for piece in layout.pieces:
        drawer.piece(piece, "last" if piece.tile is last else "spinner" if piece.spinner else "tile")
    drawer.joints(layout.pieces)
    for number, label in enumerate(layout.ends):
        drawer.label(label, LETTERS[number], fits=label.end in fits, chosen=label.end is chosen)
    focus = next((label for label in layout.ends if label.end is chosen), None)
    box = focus.box if focus else layout.pieces[-1].box
    return _panned(full, width, height, drawer.place(box.left, box.top), glyphs)


def _largest(
    columns: int, rows: int, placements: Sequence[Placed], ends: Sequence[Open], glyphs: Glyphs
) -> tuple[_Scale, Layout]:
    """The largest scale in which everything fits, else the smallest, and the tiles laid out for it."""
    tried: list[tuple[_Scale, Layout]] = []
    for scale in (_Large(glyphs), _Small(glyphs), _Tiny(glyphs)):
        wide, high = scale.units_wide(columns), scale.units_high(rows)
        layout = _laid(tuple(placements), tuple(ends), wide, high)
        tried.append((scale, layout))
        left, top, right, bottom = scale.extent(layout)
        if right - left <= columns and bottom - top <= rows:
            break
    return tried[-1]


@lru_cache(maxsize=32)
def _laid(placements: tuple[Placed, ...], ends: tuple[Open, ...], width: int, height: int) -> Layout:
    # A clock that runs has the same layout drawn again and again.
    return lay_out(placements, ends, width=width, height=height)


class _Large:
    """A unit is two columns by one row; one more of each for the border."""

    def __init__(self, glyphs: Glyphs) -> None:
        self.glyphs = glyphs

    def units_wide(self, columns: int) -> int:
        return (columns - 1) // 2

    def units_high(self, rows: int) -> int:
        return rows - 1

    def place(self, x: int, y: int) -> tuple[int, int]:
        return 2 * x, y

    def extent(self, layout: Layout) -> tuple[int, int, int, int]:
        box = layout.bounds
        return 2 * box.left, box.top, 2 * box.right + 1, box.bottom + 1

    def cells(self, piece: Piece, style: str) -> Iterator[tuple[int, int, str, str]]:
        """Column, row, text and style of each part of a tile, from its upper left corner."""
        glyphs, line = self.glyphs, f"{style}.line"
        wide, high = (4, 4) if piece.upright else (8, 2)
        for row in range(1, high):
            yield 1, row, " " * (wide - 1), style
        for column in range(1, wide):
            yield column, 0, glyphs.horizontal, line
            yield column, high, glyphs.horizontal, line
        for row in range(1, high):
            yield 0, row, glyphs.vertical, line
            yield wide, row, glyphs.vertical, line
        for number, (column, row) in enumerate(((0, 0), (wide, 0), (0, high), (wide, high))):
            yield column, row, glyphs.corners[number], line
        first, second = piece.values
        yield 2, 1, str(first), style
        if piece.upright:
            yield 2, 3, str(second), style
            middle = "*" if piece.spinner else glyphs.split_flat
            yield 1, 2, glyphs.split_flat + middle + glyphs.split_flat, style
        else:
            yield 6, 1, str(second), style
            yield 4, 1, "*" if piece.spinner else glyphs.split_upright, style

    def label_places(self, label: Label) -> tuple[int, int, int]:
        column, row = self.place(label.x, label.y)
        return column + 1, row + 1, 3


class _Small:
    """A half is three columns by one row; the second column of a lying tile's last half stays blank."""

    def __init__(self, glyphs: Glyphs) -> None:
        self.glyphs = glyphs

    def units_wide(self, columns: int) -> int:
        return columns * 2 // 3 - 1

    def units_high(self, rows: int) -> int:
        return 2 * rows - 1

    def place(self, x: int, y: int) -> tuple[int, int]:
        # Rounded so that a double that lies across a standing line has its bar in the middle of it.
        return (3 * x + 1) // 2, y // 2

    def extent(self, layout: Layout) -> tuple[int, int, int, int]:
        box = layout.bounds
        left, top = self.place(box.left, box.top)
        right, bottom = self.place(box.right, box.bottom + 1)
        return left, top, right, bottom

    def cells(self, piece: Piece, style: str) -> Iterator[tuple[int, int, str, str]]:
        """Column, row, text and style of each part of a tile, from its upper left corner."""
        first, second = piece.values
        opening, closing = ("{", "}") if piece.spinner else ("[", "]")
        if piece.upright:
            yield 0, 0, f"{opening}{first}{closing}", style
            yield 0, 1, f"{opening}{second}{closing}", style
        else:
            yield 0, 0, f"{opening}{first}|{second}{closing}", style

    def label_places(self, label: Label) -> tuple[int, int, int]:
        column, row = self.place(label.x, label.y)
        return column, row, 3


class _Tiny(_Small):
    """A half is two columns by one row: `2|5` lying, `2` over `5` standing. For layouts that fit in no other way."""

    def units_wide(self, columns: int) -> int:
        return columns

    def place(self, x: int, y: int) -> tuple[int, int]:
        return x, y // 2

    def cells(self, piece: Piece, style: str) -> Iterator[tuple[int, int, str, str]]:
        first, second = piece.values
        if piece.upright:
            yield 0, 0, str(first), style
            yield 0, 1, str(second), style
        else:
            yield 0, 0, f"{first}|{second}", style

    def label_places(self, label: Label) -> tuple[int, int, int]:
        column, row = self.place(label.x, label.y)
        return column, row, 2


_Scale = _Large | _Small


class _Drawer:
    """Puts tiles and labels of one scale on a canvas."""

    def __init__(self, canvas: Canvas, scale: _Scale, dx: int, dy: int) -> None:
        self._canvas = canvas
        self._scale = scale
        self._dx = dx
        self._dy = dy

    def place(self, x: int, y: int) -> tuple[int, int]:
        """Column and row of a point of the geometry."""
        column, row = self._scale.place(x, y)
        return column + self._dx, row + self._dy

    def piece(self, piece: Piece, style: str) -> None:
        """One tile."""
        left, top = self.place(piece.x, piece.y)
        for column, row, text, part in self._scale.cells(piece, style):
            self._canvas.put(left + column, top + row, text, part)

    def joints(self, pieces: Sequence[Piece]) -> None:
        """Where borders of several tiles meet, the corner of one is made a crossing of all."""
        if not isinstance(self._scale, _Large):
            return
        arms: dict[tuple[int, int], set[str]] = {}
        for piece in pieces:
            left, top = self.place(piece.x, piece.y)
            wide, high = (4, 4) if piece.upright else (8, 2)
            right, bottom = left + wide, top + high
            for corner, towards in (
                ((left, top), "rd"),
                ((right, top), "ld"),
                ((left, bottom), "ru"),
                ((right, bottom), "lu"),
            ):
                arms.setdefault(corner, set()).update(towards)
        for piece in pieces:
            left, top = self.place(piece.x, piece.y)
            wide, high = (4, 4) if piece.upright else (8, 2)
            for (column, row), found in arms.items():
                if left < column < left + wide and row in (top, top + high):
                    found.update("lr")
                if top < row < top + high and column in (left, left + wide):
                    found.update("ud")
        for (column, row), found in arms.items():
            glyph = self._crossing("".join(sorted(found)))
            if glyph:
                self._canvas.put(column, row, glyph, self._canvas.style_at(column, row))

    def _crossing(self, arms: str) -> str:
        left, right, up, down, all_ways = self._scale.glyphs.crossings
        return {"dlu": left, "dru": right, "lru": up, "dlr": down, "dlru": all_ways}.get(arms, "")

    def label(self, label: Label, letter: str, *, fits: bool, chosen: bool) -> None:
        """What an end counts, as large as the place allows; a click there chooses it."""
        column, row, room = self._scale.label_places(label)
        column, row = column + self._dx, row + self._dy
        name = letter.upper() if fits or chosen else letter
        style = "label.chosen" if chosen else "label.fits" if fits else "label"
        texts = [f"{name}={label.counts}", f"{name}{label.counts}", name]
        if chosen:
            texts = [f">{texts[0]}<", f">{texts[1]}<", *texts]
        target = Target(end=label.end)
        for text in texts:
            width = width_of(text)
            centre = column + (room - width) // 2
            for shift in (0, 1, -1, 2, -2):
                left = centre + shift
                covered = max(0, min(left + width, column + room) - max(left, column))
                if covered >= min(2, width) and self._canvas.free(left, row, width):
                    self._canvas.put(left, row, text, style, target)
                    return


def _panned(full: Canvas, width: int, height: int, focus: tuple[int, int], glyphs: Glyphs) -> Canvas:
    """The part of a canvas that fits, with the focus in sight; in the middle where all of it fits."""
    canvas = Canvas(width, height)
    x, cut_left, cut_right = _shift(full.width, width, focus[0])
    y, cut_up, cut_down = _shift(full.height, height, focus[1])
    canvas.paste(x, y, full)
    more = ((cut_left, 0, height // 2, glyphs.left), (cut_right, width - 1, height // 2, glyphs.right))
    for cut, column, row, arrow in (
        *more,
        (cut_up, width // 2, 0, glyphs.up),
        (cut_down, width // 2, height - 1, glyphs.down),
    ):
        if cut:
            canvas.put(column, row, arrow, "notice")
    return canvas


def _shift(size: int, room: int, focus: int) -> tuple[int, bool, bool]:
    """Where the canvas begins in the room, and whether something is cut off before and behind."""
    if size <= room:
        return (room - size) // 2, False, False
    start = min(0, max(room - size, room // 2 - focus))
    return start, start < 0, start + size > room
