"""The start menu: a thin screen around `client.terminal.menu`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from client.terminal.menu import Menu, draw_menu
from client.terminal.once import OnceScreen
from client.terminal.settings import Settings
from client.terminal.view import CanvasView

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from client.terminal.canvas import Canvas


class MenuScreen(OnceScreen[str]):
    """Its result is the key of what was chosen."""

    def __init__(self, settings: Settings | None = None, menu: Menu | None = None) -> None:
        super().__init__()
        self.menu = menu or Menu()
        self._look = (settings or Settings()).theme
        self._view = CanvasView(self._paint, self._look)

    def compose(self) -> ComposeResult:
        """One canvas."""
        yield self._view

    def _paint(self, width: int, height: int) -> Canvas:
        return draw_menu(self.menu, width, height, self._look)

    def on_key(self, event: events.Key) -> None:
        """A key that means something."""
        event.stop()
        event.prevent_default()
        self._press(event.key)

    def on_canvas_view_chosen(self, message: CanvasView.Chosen) -> None:
        """A click does what its letter does."""
        self._press(message.target.key)

    def _press(self, key: str) -> None:
        self.menu, item = self.menu.press(key)
        if item is not None:
            self.dismiss(item.key)
        else:
            self._view.repaint()
