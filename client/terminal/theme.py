"""How the named styles look: sixteen colours that every terminal has, or none at all; and which characters are drawn.

Whatever a colour says is also said by a character: a marker, a letter, a word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rich.style import Style

COLOURED: Final[dict[str, str]] = {
    "": "",
    "dim": "bright_black",
    "title": "bold",
    "rule": "bright_black",
    "tile": "black on white",
    "tile.line": "",
    "spinner": "black on cyan",
    "spinner.line": "cyan",
    "last": "bold black on bright_white",
    "last.line": "bold",
    "label": "cyan",
    "label.fits": "bold black on green",
    "label.chosen": "bold black on yellow",
    "hand": "black on white",
    "hand.idle": "white on bright_black",
    "hand.plays": "bold black on white",
    "hand.chosen": "bold black on yellow",
    "number": "bold",
    "number.idle": "bright_black",
    "turn": "bold green",
    "clock": "bold",
    "clock.idle": "",
    "clock.low": "bold white on red",
    "question": "bold green",
    "wait": "",
    "button": "bold black on green",
    "button.plain": "bold black on white",
    "good": "green",
    "bad": "bold red",
    "notice": "bold yellow",
    "key": "bold cyan",
    "help": "bright_black",
}
"""Style name to rich style. The names are all there are."""

PLAIN: Final[dict[str, str]] = {
    "": "",
    "title": "bold",
    "tile": "",
    "spinner": "bold",
    "last": "bold",
    "label": "",
    "label.fits": "bold",
    "label.chosen": "bold reverse",
    "hand.plays": "bold",
    "hand.chosen": "bold reverse",
    "number": "bold",
    "turn": "bold",
    "clock": "bold",
    "clock.low": "bold reverse",
    "question": "bold",
    "button": "bold reverse",
    "button.plain": "bold",
    "bad": "bold",
    "notice": "bold",
    "key": "bold",
}
"""The same without colours; names that are not here are plain."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of lines and marks."""

    horizontal: str
    vertical: str
    corners: str
    """Top left, top right, bottom left, bottom right."""
    crossings: tuple[str, str, str, str, str]
    """Towards left, right, up, down, and all four ways."""
    split_upright: str
    """Between the halves of a tile that lies."""
    split_flat: str
    """Between the halves of a tile that stands."""
    dash: str
    turn: str
    """Before whose turn it is."""
    ellipsis: str
    times: str
    left: str
    right: str
    up: str
    down: str


UNICODE: Final = Glyphs(
    "─", "│", "┌┐└┘", ("┤", "├", "┴", "┬", "┼"), "┊", "╌", "–", "▶", "…", "×", "←", "→", "↑", "↓"
)
ASCII: Final = Glyphs(
    "-", "|", "++++", ("+", "+", "+", "+", "+"), ":", ".", "-", ">", "~", "x", "<", ">", "^", "v"
)


@dataclass(frozen=True, slots=True)
class Theme:
    """A look: which colours, which characters."""

    colours: bool = True
    ascii: bool = False

    @property
    def glyphs(self) -> Glyphs:
        """The characters to draw with."""
        return ASCII if self.ascii else UNICODE

    def style(self, name: str) -> Style:
        """The rich style of a name. Raises KeyError for a name that no theme knows."""
        if name not in COLOURED:
            raise KeyError(name)
        return Style.parse(COLOURED[name] if self.colours else PLAIN.get(name, ""))
