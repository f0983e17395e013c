"""The widget that shows a canvas: rows that have not changed are not sent again, and clicks become targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from client.terminal.canvas import Canvas
from client.terminal.theme import Theme

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events

    from client.terminal.canvas import Target


class CanvasView(Widget):
    """Shows what `paint` draws for the size there is. `repaint` after anything has changed; it costs what changed."""

    DEFAULT_CSS = "CanvasView { width: 1fr; height: 1fr; }"

    class Chosen(Message):
        """A place that means something was clicked."""

        def __init__(self, target: Target) -> None:
            super().__init__()
            self.target = target

    def __init__(self, paint: Callable[[int, int], Canvas], theme: Theme | None = None) -> None:
        """`paint` is given width and height, and asked again whenever `repaint` is called."""
        super().__init__()
        self._paint = paint
        self._look = theme or Theme()
        self._canvas = Canvas(0, 0)
        self._rows: list[Strip] = []

    @property
    def canvas(self) -> Canvas:
        """What is shown."""
        return self._canvas

    def on_mount(self) -> None:
        """The first picture."""
        self.repaint()

    def on_resize(self) -> None:
        """Another size, another picture."""
        self.repaint()

    def repaint(self) -> None:
        """Draw anew and show the rows that differ."""
        width, height = self.size
        if width == 0 or height == 0:
            return
        self._canvas = self._paint(width, height)
        before, self._rows = self._rows, [self._strip(row) for row in range(height)]
        changed = [
            Region(0, row, width, 1)
            for row in range(height)
            if row >= len(before) or before[row] != self._rows[row]
        ]
        if changed:
            self.refresh(*changed)

    def _strip(self, row: int) -> Strip:
        segments = [Segment(part.text, self._look.style(part.style)) for part in self._canvas.row(row)]
        return Strip(segments, self._canvas.width)

    def render_line(self, y: int) -> Strip:
        """One row, for textual."""
        return self._rows[y] if y < len(self._rows) else Strip.blank(self.size.width)

    def on_click(self, event: events.Click) -> None:
        """A click on a cell."""
        target = self._canvas.target(event.x, event.y)
        if target is not None:
            event.stop()
            self.post_message(self.Chosen(target))
