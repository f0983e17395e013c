"""Where somebody is in a record, what a key makes of it, and what is on the screen then. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from client.listing import proof, spent_line, when
from client.terminal.board import Scene, draw
from client.terminal.canvas import Target
from client.terminal.theme import Theme
from engine.seats import NORTH, SEATS, SOUTH, BySeat

if TYPE_CHECKING:
    from client.positions import Position, Study
    from client.terminal.canvas import Canvas
    from engine.seats import Seat

_SHOWN: Final[tuple[tuple[Seat, ...], ...]] = (SEATS, (SOUTH,), (NORTH,), ())
"""Whose hands are shown, in the order in which the key goes through them."""
_LOG_MAX: Final = 80
_PACES: Final = (4.0, 2.0, 1.0, 0.5, 0.25)
"""Seconds a position stays while the record plays by itself."""
_STANDING: Final = -1.0
"""A moment before the clocks of a position were read: nothing of them has run down."""
_KEYS: Final = (
    ("pageup", "pgup", "round"),
    ("left", "", "back"),
    ("space", "space", "play"),
    ("right", "", "on"),
    ("pagedown", "pgdn", "round"),
    ("h", "h", "hands"),
    ("f", "f", "flip"),
    ("q", "q", "leave"),
)
"""The keys in the last row, how they are written, and what they do; the arrows are drawn."""


@dataclass(frozen=True, slots=True)
class Reader:
    """One reader's place in a record."""

    study: Study
    place: int = 0
    """Index of the position that is shown."""
    shown: tuple[Seat, ...] = SEATS
    """Whose hands are shown."""
    bottom: Seat = SOUTH
    """Whose side is nearer."""
    playing: bool = False
    """Whether it goes on by itself."""
    pace: int = 2
    """Which of the paces."""

    @property
    def position(self) -> Position:
        """What is shown."""
        return self.study.positions[self.place]

    @property
    def seconds(self) -> float:
        """How long a position stays while the record plays by itself."""
        return _PACES[self.pace]

    def at(self, place: int) -> Reader:
        """The same reader at another position, within the record."""
        return replace(self, place=min(max(0, place), len(self.study.positions) - 1))

    def ticked(self) -> Reader:
        """A position has stayed long enough: the next one, or the end of the playing."""
        if not self.playing:
            return self
        after = self.at(self.place + 1)
        return replace(after, playing=after.place < len(self.study.positions) - 1)

    def press(self, key: str) -> Reader | None:
        """What a key, as textual names it, makes of it; None for a key that means nothing here."""
        rest = replace(self, playing=False)
        match key:
            case "right" | "down" | "n" | "enter":
                return rest.at(self.place + 1)
            case "left" | "up" | "b" | "backspace":
                return rest.at(self.place - 1)
            case "pagedown" | "right_square_bracket":
                return rest.at(self._round(1))
            case "pageup" | "left_square_bracket":
                return rest.at(self._round(-1))
            case "home" | "g":
                return rest.at(0)
            case "end" | "G":
                return rest.at(len(self.study.positions) - 1)
            case "space" | "p":
                at_end = self.place == len(self.study.positions) - 1
                begun = self.at(0) if at_end and not self.playing else self
                return replace(begun, playing=not self.playing)
            case "plus" | "minus":
                step = 1 if key == "plus" else -1
                return replace(self, pace=min(max(0, self.pace + step), len(_PACES) - 1))
            case "h":
                known = self.shown in _SHOWN
                following = (_SHOWN.index(self.shown) + 1) % len(_SHOWN) if known else 0
                return replace(self, shown=_SHOWN[following])
            case "f":
                return replace(self, bottom=self.bottom.opponent)
            case _ if len(key) == 1 and key in "123456789" and int(key) <= len(self.study.rounds):
                return rest.at(self.study.rounds[int(key) - 1])
            case _:
                return None

    def _round(self, step: int) -> int:
        """The place of the next deal, or of the one before; beyond them the end and the beginning."""
        rounds = self.study.rounds
        if step > 0:
            return next((begins for begins in rounds if begins > self.place), len(self.study.positions) - 1)
        return next((begins for begins in reversed(rounds) if begins < self.place), 0)

    def scene(self) -> Scene:
        """What is to be drawn."""
        position = self.position
        style = "question" if position.sound else "bad"
        return Scene(
            table=position.table,
            now=_STANDING,
            bottom=self.bottom,
            hands=BySeat(*(position.hands[seat] if seat in self.shown else None for seat in SEATS)),
            messages=((spent_line(position) or " ", ""), (self._where(), style)),
            log=tuple(self._log()),
            banner=self._banner(),
            footer=" ",
            prompt="; ".join(position.words(self.shown)) or "the match as it begins",
        )

    def _where(self) -> str:
        study, position = self.study, self.position
        parts = [f"line {position.line} of {study.positions[-1].line}"]
        if position.at_ms is not None:
            parts.append(f"at {when(position.at_ms)}")
        number = study.round_at(self.place)
        if number >= 0:
            parts.append(f"round {number + 1} of {len(study.rounds)}")
        if self.playing:
            parts.append(f"playing, one in {self.seconds:g} s (+ and - change that)")
        return ", ".join(parts)

    def _banner(self) -> str:
        first = proof(self.study)[0]
        return "sound record" if first.startswith("sound") else first

    def _log(self) -> list[str]:
        positions = self.study.positions[max(0, self.place - _LOG_MAX) : self.place + 1]
        return [line for position in positions for line in position.words(self.shown)]


def draw_reader(reader: Reader, width: int, height: int, theme: Theme | None = None) -> Canvas:
    """The record at the reader's place, with its keys in the last row."""
    theme = theme or Theme()
    canvas = draw(reader.scene(), width, height, theme)
    arrows = {"left": theme.glyphs.left, "right": theme.glyphs.right}
    x = 0
    for key, name, text in _KEYS:
        words = "stop" if key == "space" and reader.playing else text
        x = canvas.put(x, height - 1, f"{name or arrows[key]}:{words}", "help", Target(key=key)) + 2
    return canvas
