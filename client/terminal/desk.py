"""One player's or spectator's place at a table: what is shown, and what a key or a click makes of it. Pure.

Keys of the board go to `client.terminal.selection`; here are those around it: help, resigning, leaving.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from client.terminal.board import Scene, draw
from client.terminal.clockface import faces
from client.terminal.manual import draw_help
from client.terminal.selection import NOTHING, Pressed, Selection, click, press, refreshed
from client.terminal.story import who
from engine.command import Draw, Pass, Resign
from engine.seats import SOUTH
from engine.state import Phase

if TYPE_CHECKING:
    from client.table import TableState, Transfer
    from client.terminal.board import Message
    from client.terminal.canvas import Canvas, Target
    from client.terminal.settings import Settings
    from client.terminal.theme import Theme
    from engine.command import Command
    from engine.seats import Seat

_LOG_MAX: Final = 200
_NOT_BEGUN: Final = "You can resign when the match has begun (rule 7.3)."
_RESIGN: Final = "resign"
_LEAVE: Final = "leave"
_YES: Final = ("y", "Y")
_LEAVING: Final = ("q", "escape", "ctrl+c", "ctrl+q")


@dataclass(frozen=True, slots=True)
class Desk:
    """What somebody at a table sees and has chosen."""

    table: TableState
    selection: Selection = NOTHING
    messages: tuple[Message, ...] = ()
    log: tuple[str, ...] = ()
    asking: str = ""
    """What has to be confirmed now."""
    helping: bool = False
    """Whether the help is shown."""
    transfer: Transfer | None = None
    """The last one of this round."""

    @property
    def seat(self) -> Seat | None:
        """Who plays here."""
        return self.table.seat

    def told(self, table: TableState, lines: tuple[str, ...] = (), notices: tuple[str, ...] = ()) -> Desk:
        """News: the table after them, what happened, and what a player has to notice."""
        # What was chosen for one question is nothing for the next: an amount, or a tile that has gone.
        same = table.prompt.decision_id == self.table.prompt.decision_id
        kept = self.selection if same else replace(self.selection, end=None, amount=None)
        messages = (*self.messages, *((line, "") for line in lines), *((line, "notice") for line in notices))
        before = self.transfer if table.round_no == self.table.round_no else None
        return replace(
            self,
            table=table,
            transfer=table.last_transfer or before,
            selection=refreshed(kept, table),
            messages=messages[-_LOG_MAX:],
            log=(*self.log, *lines, *notices)[-_LOG_MAX:],
            asking="" if table.outcome is not None else self.asking,
        )

    def says(self, text: str, style: str = "notice") -> Desk:
        """One more message, for this player alone."""
        return replace(self, messages=(*self.messages, (text, style))[-_LOG_MAX:])

    def automatic(self, settings: Settings) -> Command | None:
        """What is sent without asking, as there is nothing to decide and the player wants it so."""
        legal, seat = self.table.prompt.legal, self.seat
        if seat is None or self.table.outcome is not None:
            return None
        if legal.pass_turn and settings.auto_pass:
            return Pass(seat)
        return Draw(seat) if legal.draw and settings.auto_draw else None

    def press(self, key: str) -> Reaction:
        """A key, as textual names it."""
        if self.helping:
            return Reaction(replace(self, helping=False))
        if self.asking:
            return self._answered(yes=key in _YES)
        if key == "question_mark":
            return Reaction(replace(self, helping=True))
        if key in _LEAVING:
            if self.seat is None or self.table.outcome is not None:
                return Reaction(self, leaves=True)
            return Reaction(replace(self, asking=_LEAVE))
        if self.seat is None:
            return Reaction(self)
        if key == "R":
            if self.table.outcome is not None:
                return Reaction(self)
            if self.table.prompt.phase is Phase.AWAITING_START:
                return self._reacts(Pressed(self.selection, hint=_NOT_BEGUN))
            return Reaction(replace(self, asking=_RESIGN))
        return self._reacts(press(key, self.selection, self.table, self.seat))

    def click(self, target: Target) -> Reaction:
        """A click on a place that means something."""
        if self.helping or self.asking or self.seat is None:
            return Reaction(self)
        return self._reacts(click(target, self.selection, self.table, self.seat))

    def _reacts(self, pressed: Pressed) -> Reaction:
        after = replace(self, selection=pressed.selection)
        # The same hint twice would push what happened off the screen.
        told = not pressed.hint or (pressed.hint, "") in self.messages[-1:]
        return Reaction(after if told else after.says(pressed.hint, ""), pressed.command)

    def _answered(self, *, yes: bool) -> Reaction:
        asked, after = self.asking, replace(self, asking="")
        if not yes:
            return Reaction(after)
        if asked == _LEAVE:
            return Reaction(after, leaves=True)
        assert self.seat is not None, "only players resign"
        return Reaction(after, Resign(self.seat))

    def _prompt(self) -> str | None:
        if self.asking == _RESIGN:
            assert self.seat is not None, "only players resign"
            other = who(self.table, self.seat.opponent)
            return f"Resign? {other} wins the match then. Y resigns, any other key does not."
        if self.asking == _LEAVE:
            return "Leave? The match goes on and your clock runs. Y leaves, any other key stays."
        return None

    def scene(self, now: float, *, banner: str = "", stale: bool = False, way_ms: int = 0) -> Scene:
        """What is to be drawn."""
        return Scene(
            table=self.table,
            now=now,
            seat=self.seat,
            bottom=self.seat or SOUTH,
            selection=self.selection,
            messages=self.messages,
            log=self.log,
            banner=banner,
            prompt=self._prompt(),
            way_ms=way_ms,
            stale=stale,
            transfer=self.transfer,
        )

    def draw(
        self,
        width: int,
        height: int,
        now: float,
        theme: Theme,
        *,
        banner: str = "",
        stale: bool = False,
        way_ms: int = 0,
    ) -> Canvas:
        """The table, or the help with how others find this match, and the player's clock, below it."""
        if not self.helping:
            scene = self.scene(now, banner=banner, stale=stale, way_ms=way_ms)
            return draw(scene, width, height, theme)
        footer = [(banner, "notice")] if banner else []
        footer.append((f"Others look on with: spectacular-bid watch {self.table.match_id}", ""))
        running = self.table.prompt.clock.running
        if running is not None and self.table.outcome is None:
            face = faces(self.table, now, way_ms=way_ms)[running]
            text = f"{who(self.table, running)} to act: delay {face.delay}, bank {face.bank}"
            footer.append((text, "clock.low" if face.low else "clock"))
        return draw_help(width, height, theme, footer=footer)


class Reaction(NamedTuple):
    """What came of a key or a click."""

    after: Desk
    command: Command | None = None
    """To be sent, as an answer to the question of the table that was shown."""
    leaves: bool = False
    """Whether the player goes away from the table."""
