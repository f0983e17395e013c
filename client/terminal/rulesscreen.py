"""The rules on the screen: pages to scroll, in any of their languages. What is shown is `client.rulespage`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text
from textual.containers import VerticalScroll
from textual.widgets import Static

from client.credentials import from_environment
from client.rules import ask, own
from client.rulespage import page
from client.terminal.once import OnceScreen

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from client.rules import Help
    from client.rulespage import Line

KEYS: Final = "up, down, pgup, pgdn, home, end: scroll  1-7: chapter  l: language  q: leave"
"""The bottom line."""


class RulesScreen(OnceScreen[str]):
    """Shows the rules that came with this program at once, and those of the service as soon as it has answered."""

    DEFAULT_CSS = """
    RulesScreen VerticalScroll { height: 1fr; background: ansi_default; scrollbar-size-vertical: 1; }
    RulesScreen Static { background: ansi_default; }
    RulesScreen #keys { height: 1; color: ansi_bright_black; }
    """

    def __init__(self, server: str, language: str = "") -> None:
        """ValueError for what is no language tag."""
        super().__init__()
        self.help_shown: Help = own(language)
        self._server = server
        self._text = Static(id="rules")
        self._pages = VerticalScroll(self._text)
        self._keys = Static(KEYS, id="keys")
        self._lines: list[Line] = []

    def compose(self) -> ComposeResult:
        """The text, and a line of keys."""
        yield self._pages
        yield self._keys

    def on_mount(self) -> None:
        """The keys that scroll go to the text."""
        self._pages.focus()
        self._read(self.help_shown.book.language)

    def on_resize(self) -> None:
        """Another width, other lines."""
        self._show()

    def _read(self, language: str) -> None:
        self.help_shown = own(language)
        self._show()
        self.run_worker(self._ask(language), exclusive=True)

    async def _ask(self, language: str) -> None:
        found = await ask(self._server, language, from_environment())
        if found.fault or found.book.version == self.help_shown.book.version:
            return
        self.help_shown = found
        self._show()

    def _show(self) -> None:
        self._lines = page(self.help_shown.book, width=max(20, self.size.width - 3))
        text = Text()
        for line in self._lines:
            text.append(f"{line.text}\n", style="bold" if line.heading else "")
        self._text.update(text)

    def on_key(self, event: events.Key) -> None:
        """Leaving, another language, a chapter; what scrolls is left to the text."""
        if event.key in ("q", "escape", "ctrl+c", "ctrl+q"):
            self.dismiss("")
        elif event.key == "l":
            languages = list(self.help_shown.available)
            place = languages.index(self.help_shown.book.language)
            self._read(languages[(place + 1) % len(languages)])
            self._pages.scroll_home(animate=False)
        elif event.key in "123456789":
            self._to_chapter(f"{event.key}. ")
        else:
            return
        event.stop()
        event.prevent_default()

    def _to_chapter(self, begins: str) -> None:
        for row, line in enumerate(self._lines):
            if line.heading and line.text.startswith(begins):
                self._pages.scroll_to(y=row, animate=False)
                return
