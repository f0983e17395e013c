"""The start menu: what there is to do, and what a key or a click makes of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from client.terminal.canvas import Canvas, Target
from client.terminal.theme import Theme


class Item(NamedTuple):
    """One thing to do."""

    key: str
    title: str
    about: str
    command: tuple[str, ...]
    """The words of the command line that do it."""
    asks: str = ""
    """What must be asked before: one more word for the command."""


ITEMS: Final = (
    Item("p", "Play a rated match", "against whoever is about as strong", ("play",)),
    Item("c", "Play a casual match", "the same, nothing is rated", ("play", "--casual")),
    Item("e", "Play a bot, easy", "a house bot to learn with, unrated", ("play", "--bot", "easy")),
    Item("g", "Play a bot, greedy", "takes what it can get", ("play", "--bot", "greedy")),
    Item("s", "Play a bot, strong", "thinks ahead", ("play", "--bot", "strong")),
    Item("t", "Two at this table", "hand this device to and fro, unrated", ("table",)),
    Item("w", "Watch a match", "at its table, only what is public", ("watch",), "Match to watch (its id)"),
    Item("l", "The ladder", "the best players", ("ladder",)),
    Item("m", "My standing", "rank, rating, last matches", ("profile",)),
    Item("h", "My history", "finished matches with their ids", ("history", "--ids")),
    Item(
        "r",
        "Step through a record",
        "a file, or a finished match",
        ("record",),
        "Record (a file, or a match's id)",
    ),
    Item("u", "The rules", "in English, Hindi, Japanese", ("rules",)),
    Item("q", "Quit", "", ()),
)
"""In the order of the menu. The last one ends the program."""
_LEFT: Final = 6


@dataclass(frozen=True, slots=True)
class Menu:
    """The menu with one of its items chosen."""

    place: int = 0
    notice: str = ""
    """For example what became of the last thing."""

    def press(self, key: str) -> tuple[Menu, Item | None]:
        """A key, as textual names it: the menu after it, and what is to be done."""
        if key in ("up", "shift+tab"):
            return replace(self, place=(self.place - 1) % len(ITEMS)), None
        if key in ("down", "tab"):
            return replace(self, place=(self.place + 1) % len(ITEMS)), None
        if key in ("enter", "space"):
            return self, ITEMS[self.place]
        if key in ("escape", "ctrl+c", "ctrl+q"):
            return self, ITEMS[-1]
        for place, item in enumerate(ITEMS):
            if key == item.key:
                return replace(self, place=place), item
        return self, None


def draw_menu(menu: Menu, width: int, height: int, theme: Theme | None = None) -> Canvas:
    """The menu, in the middle of the rows there are."""
    theme = theme or Theme()
    canvas = Canvas(width, height)
    canvas.put(0, 0, "Spectacular Bid", "title")
    canvas.put(0, 1, theme.glyphs.horizontal * width, "rule")
    left = max(2, (width - 72) // 2)
    top = max(3, (height - len(ITEMS)) // 2)
    for place, item in enumerate(ITEMS):
        chosen = place == menu.place
        target = Target(key=item.key)
        canvas.put(left, top + place, theme.glyphs.turn if chosen else " ", "turn", target)
        canvas.put(left + 2, top + place, item.key, "key", target)
        canvas.put(
            left + _LEFT, top + place, f"{item.title:<24}", "hand.chosen" if chosen else "title", target
        )
        canvas.put(left + _LEFT + 26, top + place, item.about, "", target)
    canvas.put(0, height - 2, menu.notice[:width], "notice")
    canvas.put(0, height - 1, "up, down and enter, or a letter, or the mouse"[:width], "help")
    return canvas
