"""Tables on the terminal, as the operator's commands print them."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from services.ops.database import WIDTH

_INDENT = "  "
_GAP = "  "
_IN_ONE_PIECE = 20
"""Times and the like are not broken between their words either."""


def console() -> Console:
    """Where they are printed."""
    made = Console()
    # A file or a pipe has no width of its own, and what is cut off is lost there.
    return made if made.is_terminal else Console(width=WIDTH)


class Rows(Table):
    """A table whose words do not fit side by side becomes a paragraph a row: ids in pieces cannot be copied."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """As rich asks for it."""
        if self.show_header:
            for column in self.columns:
                cells = [str(cell) for cell in column.cells]
                column.no_wrap = all(" " not in cell or len(cell) <= _IN_ONE_PIECE for cell in cells)
            if self._least_width(console, options) > options.max_width:
                for row in range(self.row_count):
                    yield from _filled(self._said(console, row), options.max_width)
                return
        yield from super().__rich_console__(console, options)

    def _least_width(self, console: Console, options: ConsoleOptions) -> int:
        return self.__rich_measure__(console, options.update(max_width=10_000)).minimum

    def _said(self, console: Console, row: int) -> Iterator[Text]:
        """What a row says, each with the name of its column; empty cells say nothing."""
        for column in self.columns:
            cell = list(column.cells)[row]
            value = console.render_str(cell, highlight=False) if isinstance(cell, str) else cell
            assert isinstance(value, Text)
            if value.plain:
                yield Text.assemble((f"{column.header} ", "dim"), value)


def _filled(said: Iterator[Text], width: int) -> Iterator[Text]:
    """Lines of at most this width, broken between two columns as long as that is enough."""
    line = Text()
    for each in said:
        if line and line.cell_len + len(_GAP) + each.cell_len > width:
            yield line
            line = Text(_INDENT)
        elif line:
            line.append(_GAP)
        line.append_text(each)
    if line:
        line.overflow = "fold"
        yield line


def table(*columns: str) -> Table:
    """A table without rows yet."""
    made = Rows(box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    return made
