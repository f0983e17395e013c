"""A shared device on the screen: what a key or a click makes of it, and what is drawn at each stage. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size

from client.handover import NAME_MAX, Device, Stage, public
from client.match import News
from client.terminal import story
from client.terminal.board import WIDTH_MIN, Scene, board_width, draw
from client.terminal.canvas import Canvas, Target
from client.terminal.selection import NOTHING, Selection, click, press
from client.terminal.theme import Theme
from engine.command import Resign
from engine.seats import SOUTH

if TYPE_CHECKING:
    from client.table import TableState
    from client.terminal.board import Message
    from client.terminal.selection import Pressed
    from engine.command import Command

_BAND_FROM_BOTTOM: Final = 5
"""The rows of the question stand so far from the bottom of the board."""
_LOG_MAX: Final = 200
_LEAVING: Final = ("q", "escape", "ctrl+c", "ctrl+q")


@dataclass(frozen=True, slots=True)
class Pressing:
    """What came of a key or a click."""

    after: SharedTable
    commands: tuple[Command, ...] = ()
    """To be sent, one after the other."""
    leaves: bool = False
    """They go on with the match another time, or it is over."""


@dataclass(frozen=True, slots=True)
class SharedTable:
    """The device, and what its holder has chosen but not sent."""

    device: Device
    selection: Selection = NOTHING
    log: tuple[str, ...] = ()
    """What happened, as a spectator hears it, the newest last."""
    notice: str = ""
    """A refusal, or a hint."""
    leaving: bool = False
    """Whether they are asked if they mean to leave."""

    def told(self, table: TableState, lines: tuple[str, ...]) -> SharedTable:
        """A newer table, and what happened in words that hold no hidden tile."""
        device = self.device.told(table)
        log = (*self.log, *lines)[-_LOG_MAX:]
        same_turn = device.stage is Stage.TURN and self.device.stage is Stage.TURN
        return SharedTable(
            device,
            selection=self.selection if same_turn else NOTHING,
            log=log,
            notice=self.notice if same_turn else "",
            leaving=self.leaving and device.stage is self.device.stage,
        )

    def refused(self, why: str) -> SharedTable:
        """The service did not carry out a command."""
        return replace(self, notice=why)

    def press(self, key: str) -> Pressing:
        """A key, as textual names it."""
        if self.leaving:
            return self._leave(key)
        stage = self.device.stage
        if key in _LEAVING or (key == "R" and stage is Stage.TURN):
            if stage is Stage.OVER:
                return Pressing(self, leaves=True)
            return Pressing(replace(self, leaving=True, notice=""))
        if stage is Stage.TURN:
            shown = self.device.shown
            assert shown is not None, "a turn has a table"
            assert shown.seat is not None, "a turn has a holder"
            return self._chosen(press(key, self.selection, shown, shown.seat))
        if stage is Stage.OVER:
            return Pressing(self, leaves=key == "enter")
        if key not in _GO[stage]:
            return Pressing(self)
        commands = self.device.commands
        if stage is Stage.HAND_OVER:
            return Pressing(replace(self, device=self.device.reveal(), notice=""), commands)
        return Pressing(self, commands)

    def click(self, target: Target) -> Pressing:
        """A click on the board or on a button."""
        shown = self.device.shown
        if target.key and (self.leaving or self.device.stage is not Stage.TURN):
            return self.press(target.key)
        if self.device.stage is not Stage.TURN or shown is None or shown.seat is None or self.leaving:
            return Pressing(self)
        return self._chosen(click(target, self.selection, shown, shown.seat))

    def _chosen(self, pressed: Pressed) -> Pressing:
        after = replace(self, selection=pressed.selection, notice=pressed.hint)
        return Pressing(after, () if pressed.command is None else (pressed.command,))

    def _leave(self, key: str) -> Pressing:
        back = replace(self, leaving=False)
        holder = self.device.holder
        if key in ("y", "Y") and holder is not None:
            return Pressing(back, (Resign(holder),))
        return Pressing(back, leaves=key == "l")

    def scene(self, now: float, *, banner: str = "", stale: bool = False) -> Scene | None:
        """What is to be drawn; None before anything is known of the match."""
        device, shown = self.device, self.device.shown
        if shown is None:
            return None
        playing = device.stage is Stage.TURN
        return Scene(
            table=shown,
            now=now,
            seat=shown.seat,
            bottom=device.holder or SOUTH,
            selection=self.selection if playing else NOTHING,
            messages=self._messages(playing=playing),
            log=self.log,
            banner=banner,
            footer="" if playing and not self.leaving else "q:leave  ?:help",
            prompt=None if (playing or device.stage is Stage.OVER) and not self.leaving else " ",
            stale=stale,
        )

    def _messages(self, *, playing: bool) -> tuple[Message, ...]:
        told = tuple((line, "") for line in self.log[-2:])
        if not self.notice:
            return told
        return (*told[-1:], (self.notice, "notice" if playing else "bad"))

    def band(self) -> tuple[str, str]:
        """Two lines across the screen that say what is waited for; empty while a seat plays."""
        names, holder = self.device.names, self.device.holder
        if self.leaving:
            resigns = "" if holder is None else f"Y resigns for {_brief(names[holder])};  "
            return "LEAVE THE TABLE?", f"L leaves it for later;  {resigns}other keys go back"
        match self.device.stage:
            case Stage.HAND_OVER if holder is not None:
                running = self.device.table is not None and self.device.table.prompt.to_act is holder
                clocks = "The clock runs already!" if running else "Both clocks stand still until then."
                name = _brief(names[holder])
                says = f"{name} presses R or Enter to see the tiles. {clocks}"
                if cell_len(says) > WIDTH_MIN:
                    says = f"{name}: R or Enter shows tiles. {clocks}"
                return f"PASS THE DEVICE TO {names[holder].upper()}", says
            case Stage.START:
                return "BOTH READY?", "Enter starts the match. Then the device goes to whoever opens."
            case Stage.CONTINUE:
                return "THE ROUND IS OVER", "Enter deals the next one."
            case Stage.WAITING:
                return "ONE MOMENT", "The service deals."
            case _:
                return "", ""


def _brief(name: str) -> str:
    """A name in no more than `NAME_MAX` columns: some characters take two."""
    return set_cell_size(name, NAME_MAX).rstrip() if cell_len(name) > NAME_MAX else name


_GO: Final = {
    Stage.START: ("enter", "space", "s"),
    Stage.CONTINUE: ("enter", "space", "c"),
    Stage.HAND_OVER: ("enter", "r", "R"),
    Stage.WAITING: (),
}


def heard(device: Device, news: News) -> tuple[str, ...]:
    """News in words, as a spectator hears them, by the names at this table: they stay on the screen after a hand is gone."""
    shown = device.told(news.table).shown
    assert shown is not None, "news come with a table"
    events = tuple(public(event) for event in news.events)
    return tuple(story.lines(News(replace(shown, seat=None, hand=()), events, news.snapshot)))


def draw_shared(
    table: SharedTable,
    width: int,
    height: int,
    now: float,
    theme: Theme | None = None,
    *,
    banner: str = "",
    stale: bool = False,
) -> Canvas:
    """The screen of a shared device at one instant."""
    theme = theme or Theme()
    scene = table.scene(now, banner=banner, stale=stale)
    if scene is None:
        blank = Canvas(width, height)
        blank.put(0, 0, "Waiting for the service", "title")
        return blank
    canvas = draw(scene, width, height, theme)
    row = height - _BAND_FROM_BOTTOM
    for place, text in enumerate(table.band()):
        if text:
            style = "button" if place == 0 else "question"
            target = None if table.leaving else Target(key="enter")
            canvas.put(0, row + place, text.center(board_width(width)), style, target)
    return canvas
