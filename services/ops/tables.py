"""Tables on the terminal, as the operator's commands print them."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from services.ops.database import WIDTH


def console() -> Console:
    """Where they are printed."""
    made = Console()
    # A file or a pipe has no width of its own, and what is cut off is lost there.
    return made if made.is_terminal else Console(width=WIDTH)


def table(*columns: str) -> Table:
    """A table without rows yet."""
    made = Table(box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    return made
