"""How long something is waited for that is waited for all the time: one timer for all who wait equally long.

A timer for each wait costs more than what is waited for, when that nearly always comes at once. Whoever begins later is
late later, so those who wait stand in order, and only the first needs a timer.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

LATE_AT_ONCE: Final = 32
"""So many are told in one turn of the loop: what they do then must not fill a turn that is long, since nobody is heard
meanwhile."""


class Patience(Generic[T]):
    """Those who wait, none of them twice at once."""

    def __init__(self, seconds: float, late: Callable[[T], None], *, together: float = 0.0) -> None:
        """`late` is called once with each that has waited for so many seconds, which it is not counted for any more; or
        for up to `together` more, with all who are late by then: a wake-up costs more than many of them. More than
        `LATE_AT_ONCE` are told over several turns of the loop."""
        self.seconds = seconds
        self._together = together
        self._late = late
        self._since: OrderedDict[T, float] = OrderedDict()
        """By the loop's clock; whoever waits for longest is first. A plain dictionary would look for the first one among
        all that have gone before it: 4 us of 20,000."""
        self._timer: asyncio.Handle | None = None

    def __len__(self) -> int:
        """How many wait."""
        return len(self._since)

    def begin(self, waiting: T) -> None:
        """The wait begins now."""
        loop = asyncio.get_running_loop()
        self._since[waiting] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self.seconds, self._look)

    def end(self, waiting: T) -> None:
        """It waits no more, if it still did."""
        self._since.pop(waiting, None)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer, late = None, list[T]()
        now = loop.time()
        for waiting, since in self._since.items():
            due = since + self.seconds
            if due > now:
                self._timer = loop.call_at(max(due, now + self._together), self._look)
                break
            if len(late) == LATE_AT_ONCE:
                self._timer = loop.call_soon(self._look)
                break
            late.append(waiting)
        for waiting in late:
            del self._since[waiting]
        for waiting in late:
            self._late(waiting)
