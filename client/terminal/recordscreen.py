"""The record viewer: a thin screen around `client.terminal.reading`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from client.terminal.once import OnceScreen
from client.terminal.reading import Reader, draw_reader
from client.terminal.settings import Settings
from client.terminal.view import CanvasView
from engine.seats import SEATS

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult
    from textual.timer import Timer

    from client.positions import Study
    from client.terminal.canvas import Canvas
    from engine.seats import Seat


class RecordScreen(OnceScreen[None]):
    """Steps through a record."""

    def __init__(
        self, study: Study, settings: Settings | None = None, *, shown: tuple[Seat, ...] = SEATS
    ) -> None:
        """`shown` are the seats whose hands are shown at first."""
        super().__init__()
        self.reader = Reader(study, shown=shown)
        self._look = (settings or Settings()).theme
        self._view = CanvasView(self._paint, self._look)
        self._ticking: Timer | None = None

    def compose(self) -> ComposeResult:
        """One canvas."""
        yield self._view

    def _paint(self, width: int, height: int) -> Canvas:
        return draw_reader(self.reader, width, height, self._look)

    def on_key(self, event: events.Key) -> None:
        """A key that means something."""
        event.stop()
        event.prevent_default()
        self._press(event.key)

    def on_canvas_view_chosen(self, message: CanvasView.Chosen) -> None:
        """A click does what its key does."""
        if message.target.key:
            self._press(message.target.key)

    def on_mouse_scroll_down(self) -> None:
        """The wheel steps."""
        self._press("right")

    def on_mouse_scroll_up(self) -> None:
        """The wheel steps back."""
        self._press("left")

    def _press(self, key: str) -> None:
        if key in ("q", "escape", "ctrl+c", "ctrl+q"):
            self.dismiss(None)
            return
        after = self.reader.press(key)
        if after is not None:
            self._go(after)

    def _go(self, after: Reader) -> None:
        before, self.reader = self.reader, after
        if (after.playing, after.seconds) != (before.playing, before.seconds):
            if self._ticking is not None:
                self._ticking.stop()
            self._ticking = self.set_interval(after.seconds, self._tick) if after.playing else None
        self._view.repaint()

    def _tick(self) -> None:
        self._go(self.reader.ticked())
