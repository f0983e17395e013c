"""The help screen: keys and marks, as rows of characters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from client.terminal.canvas import Canvas, clipped
from client.terminal.theme import Theme

if TYPE_CHECKING:
    from collections.abc import Sequence

KEYS: Final = (
    ("left, right", "the next tile; in an auction the next amount"),
    ("1 to 9, 0", "the tile with this number (0 is the tenth)"),
    ("tab, down, up", "the next end where the tile fits"),
    ("w x y z", "the end with this letter"),
    ("enter", "do it: play, bid, draw, pass, start, continue"),
    ("d", "draw; in an auction decline"),
    ("p", "pass"),
    ("a", "accept the bid"),
    ("R", "resign (you are asked once more)"),
    ("?", "this page"),
    ("q", "leave (you are asked once more while a match goes on)"),
)
"""Key and what it does, in the table screen."""

_MARKS: Final = (
    ("W=5", "an open end and what it counts; a capital: the tile fits there"),
    (">W=5<", "the chosen end"),
    ("3*", "a tile that can be placed; ^3^ is the chosen tile"),
    ("* or {6}", "the spinner; bank!: less than 20 seconds"),
)
_MOUSE: Final = "Mouse: click a tile, then an end; a second click does it. Buttons too."
_CLOCK: Final = "This page stops no clock."


def draw_help(
    width: int, height: int, theme: Theme | None = None, *, footer: Sequence[tuple[str, str]] = ()
) -> Canvas:
    """The help; `footer` are rows of text and style at the bottom, for example the clocks."""
    glyphs = (theme or Theme()).glyphs
    canvas = Canvas(width, height)
    canvas.put(0, 0, "Keys", "title")
    row = 1
    for key, what in KEYS:
        canvas.put(2, row, key, "key")
        canvas.put(18, row, clipped(what, width - 18, glyphs.ellipsis))
        row += 1
    canvas.put(0, row, "Marks", "title")
    for mark, what in _MARKS:
        row += 1
        canvas.put(2, row, mark, "key")
        canvas.put(18, row, clipped(what, width - 18, glyphs.ellipsis))
    canvas.put(2, row + 1, clipped(_MOUSE, width - 2, glyphs.ellipsis))
    canvas.put(2, row + 2, f"{_CLOCK} Any key goes back.", "notice")
    for place, (text, style) in enumerate(footer):
        canvas.put(0, height - len(footer) + place, clipped(text, width, glyphs.ellipsis), style)
    return canvas
