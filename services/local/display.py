"""What the local stack says: plain lines that fit 80 columns, a spinner only where a person is watching."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape


class Display:
    """Standard output for the course of things, standard error for what goes wrong."""

    def __init__(self) -> None:
        self._out = Console(highlight=False, soft_wrap=True)
        self._err = Console(highlight=False, soft_wrap=True, stderr=True)

    def say(self, text: str = "") -> None:
        """A line."""
        self._out.print(escape(text))

    def title(self, text: str) -> None:
        """A line above others."""
        self._out.print(escape(text), style="bold")

    def ready(self, name: str, where: str, seconds: float) -> None:
        """A part of the stack is up."""
        self._out.print(f"  {name:<13} [green]ready[/green]   {escape(where):<24} {seconds:5.1f} s")

    def pointer(self, what: str, how: str) -> None:
        """Where to look next."""
        self._out.print(f"  {what:<20} {escape(how)}")

    def fault(self, text: str) -> None:
        """Something went wrong."""
        self._err.print(escape(text), style="red")

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """A spinner while the block runs; nothing when nobody watches."""
        with self._out.status(escape(text)):
            yield
