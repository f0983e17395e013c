"""How a room leaves its match to another process: when it may, since when it has, and whether nothing was cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from engine.clock import SECOND


class Departure:
    """The leaving of one room."""

    def __init__(self) -> None:
        self.begun = False
        """Whether this process is about to leave the match, or has: no command is taken any more."""
        self.cleanly = False
        """Whether it has left between two commands: everything heard before was answered."""
        self.successor = ""
        """Where the match is played on, once the next process is known."""
        self.may_begin: Callable[[], bool] | None = None
        """Asked between two turns, whether this is the moment."""
        self._since: float | None = None

    def begin(self) -> None:
        """From now on no command is taken."""
        if not self.begun:
            self.begun = True
            self._since = asyncio.get_running_loop().time()

    def begins_between_turns(self) -> bool:
        """Whether it begins now, when nobody's time runs."""
        if not self.begun and self.may_begin is not None and self.may_begin():
            self.begin()
            return True
        return False

    @property
    def lasted_ns(self) -> int:
        """How long no command has been taken, in nanoseconds."""
        if self._since is None:
            return 0
        return round((asyncio.get_running_loop().time() - self._since) * SECOND)
