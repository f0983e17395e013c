"""The program around the screens: one after the other, in the sixteen colours of the terminal itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import textual
from rich.traceback import Traceback
from textual.app import App

from client.session import MatchHandle
from client.terminal.devicescreen import DeviceScreen
from client.terminal.menuscreen import MenuScreen
from client.terminal.recordscreen import RecordScreen
from client.terminal.rulesscreen import RulesScreen
from client.terminal.seekscreen import SeekScreen
from client.terminal.settings import Settings
from client.terminal.tablescreen import TableScreen
from engine.seats import SEATS

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from textual.screen import Screen

    from client.positions import Study
    from client.session import Client
    from engine.seats import BySeat, Seat


class TerminalApp(App[str]):
    """Shows a first screen and what follows from it; ends with the sentence that the last one left."""

    ENABLE_COMMAND_PALETTE = False
    CSS = "Screen { background: ansi_default; color: ansi_default; }"

    def __init__(
        self,
        first: Callable[[], Screen[Any]],
        then: Callable[[Any], Screen[Any] | None] | None = None,
    ) -> None:
        """`then` makes the next screen of the result of the first, or None for the end."""
        super().__init__(ansi_color=True)
        self._first = first
        self._then = then

    def on_mount(self) -> None:
        """The first screen."""
        self.push_screen(self._first(), callback=self._next)

    def _fatal_error(self) -> None:
        # Textual would show the values of local variables, hands among them, and leave them in the scrollback.
        self.panic(Traceback(show_locals=False, suppress=[textual]))

    def _next(self, result: Any) -> None:
        following = self._then(result) if self._then is not None else None
        if following is None:
            self.exit(result if isinstance(result, str) else "")
        else:
            self.push_screen(following, callback=self.exit)


def seek_app(client: Client, name: str, settings: Settings, *, rated: bool) -> TerminalApp:
    """Seek, then play."""

    def table(found: MatchHandle | str) -> Screen[Any] | None:
        if not isinstance(found, MatchHandle):
            return None
        return TableScreen(client, found, settings, greeting=greeting(found))

    return TerminalApp(lambda: SeekScreen(client, name, settings, rated=rated), table)


def table_app(client: Client, match: MatchHandle | str, settings: Settings) -> TerminalApp:
    """Play or watch a match."""
    return TerminalApp(lambda: TableScreen(client, match, settings))


def device_app(client: Client, match: MatchHandle, names: BySeat[str], settings: Settings) -> TerminalApp:
    """Two people play at this terminal."""
    return TerminalApp(lambda: DeviceScreen(client, match, names, settings))


def record_app(study: Study, settings: Settings, shown: tuple[Seat, ...] = SEATS) -> TerminalApp:
    """Step through a record, at first with the hands of these seats."""
    return TerminalApp(lambda: RecordScreen(study, settings, shown=shown))


def menu_app(settings: Settings) -> TerminalApp:
    """The start menu; ends with the key of what was chosen."""
    return TerminalApp(lambda: MenuScreen(settings))


def rules_app(server: str, language: str) -> TerminalApp:
    """The rules to scroll. ValueError for what is no language tag."""
    screen = RulesScreen(server, language)
    return TerminalApp(lambda: screen)


def greeting(handle: MatchHandle) -> str:
    """Who was found."""
    if handle.opponent is None:
        return ""
    rating = f", rated {handle.opponent_rating}" if handle.opponent_rating else ""
    return f"Your opponent is {handle.opponent.name}{rating}. You are {handle.seat}."
