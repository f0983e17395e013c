"""A screen that ends once."""

from __future__ import annotations

from typing import TypeVar

from textual.await_complete import AwaitComplete
from textual.screen import Screen

T = TypeVar("T")


class OnceScreen(Screen[T]):
    """What comes when it has ended (a key pressed twice, an answer of the service) does not end another screen in its place."""

    def dismiss(self, result: T | None = None) -> AwaitComplete:
        """End the screen with a result, the first time."""
        return super().dismiss(result) if self.is_active else AwaitComplete()
