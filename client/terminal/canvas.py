"""A rectangle of character cells with named styles and places to click: what every picture here is drawn on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import get_character_cell_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.command import Command
    from engine.tiles import End, Tile


@dataclass(frozen=True, slots=True)
class Target:
    """What a click on a cell means; one of the fields is set."""

    tile: Tile | None = None
    end: End | None = None
    amount: int | None = None
    """A bid to choose, in points."""
    command: Command | None = None
    """To be sent as it is."""
    key: str = ""
    """The same as pressing this key."""


class Segment(NamedTuple):
    """A stretch of one row in one style."""

    text: str
    style: str
    """A name of `client.terminal.theme`; empty for plain text."""


class Canvas:
    """Cells of a fixed size. Whatever would lie outside is left out; a wide character is never cut in half."""

    def __init__(self, width: int, height: int) -> None:
        self.width = max(0, width)
        self.height = max(0, height)
        self._cells = [[" "] * self.width for _ in range(self.height)]
        self._styles = [[""] * self.width for _ in range(self.height)]
        self._targets: dict[tuple[int, int], Target] = {}

    def put(self, x: int, y: int, text: str, style: str = "", target: Target | None = None) -> int:
        """Write from a cell to the right; the answer is the column behind the text. Combining marks are left out."""
        for character in text:
            size = get_character_cell_size(character)
            if size == 0:
                continue
            if 0 <= y < self.height and x >= 0 and x + size <= self.width:
                self._cells[y][x] = character
                self._styles[y][x] = style
                if size == 2:
                    self._cells[y][x + 1] = ""
                    self._styles[y][x + 1] = style
                if target is not None:
                    for column in range(x, x + size):
                        self._targets[column, y] = target
            x += size
        return x

    def put_right(self, right: int, y: int, text: str, style: str = "") -> int:
        """Write so that the text ends before the column `right`; the answer is the column where it begins."""
        left = right - width_of(text)
        self.put(left, y, text, style)
        return left

    def free(self, x: int, y: int, width: int) -> bool:
        """Whether these cells are on the canvas and blank."""
        inside = 0 <= y < self.height and x >= 0 and x + width <= self.width
        return inside and all(cell == " " for cell in self._cells[y][x : x + width])

    def target(self, x: int, y: int) -> Target | None:
        """What a click there means."""
        return self._targets.get((x, y))

    def targets(self) -> Iterator[tuple[int, int, Target]]:
        """Every cell that means something."""
        for (x, y), target in self._targets.items():
            yield x, y, target

    def row(self, y: int) -> list[Segment]:
        """One row, as few segments as the styles allow, exactly as wide as the canvas."""
        pairs = zip(self._cells[y], self._styles[y], strict=True)
        return [
            Segment("".join(cell for cell, _ in run), style)
            for style, run in groupby(pairs, key=lambda pair: pair[1])
        ]

    def text(self) -> str:
        """The characters alone, one line a row, without blanks at the ends of lines."""
        return "\n".join("".join(cells).rstrip() for cells in self._cells)

    def style_at(self, x: int, y: int) -> str:
        """The style of a cell."""
        return self._styles[y][x]

    def paste(self, x: int, y: int, other: Canvas) -> None:
        """Copy another canvas with its places to click; its blanks cover what was there."""
        first, last = max(0, -x), min(other.width, self.width - x)
        if first >= last:
            return
        for row in range(max(0, -y), min(other.height, self.height - y)):
            self._cells[y + row][x + first : x + last] = other._cells[row][first:last]
            self._styles[y + row][x + first : x + last] = other._styles[row][first:last]
        for (column, row), target in other._targets.items():
            if first <= column < last and 0 <= y + row < self.height:
                self._targets[x + column, y + row] = target


def width_of(text: str) -> int:
    """How many cells a text takes, as `put` writes it."""
    return sum(get_character_cell_size(character) for character in text)


def clipped(text: str, width: int, ellipsis: str = "~") -> str:
    """The text in at most `width` cells; what is left out is marked."""
    if width_of(text) <= width:
        return text
    kept = ""
    room = max(0, width - width_of(ellipsis))
    for character in text:
        room -= get_character_cell_size(character)
        if room < 0:
            break
        kept += character
    return (kept + ellipsis)[: max(0, width)]


def wrapped(text: str, width: int) -> list[str]:
    """The text as lines of at most `width` cells, broken between words where that is possible."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        rest = word
        while line and width_of(line) + 1 + width_of(rest) > width:
            lines.append(line)
            line = ""
        while width_of(rest) > width > 0:
            lines.append(clipped(rest, width, ""))
            rest = rest[len(lines[-1]) :]
        line = f"{line} {rest}" if line else rest
    return [*lines, line] if line or not lines else lines
