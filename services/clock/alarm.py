"""One timer of the event loop for all deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from engine.clock import SECOND
from services.clock.timekeeper import Said, Timekeeper


class Alarm:
    """Wakes the timekeeper. A timer is only a wake-up call: when it comes early nothing happens, and it is set again."""

    def __init__(
        self,
        keeper: Timekeeper,
        now: Callable[[], int],
        publish: Callable[[Said], None],
        rang: Callable[[int], None] = lambda _lag: None,
    ) -> None:
        self._keeper = keeper
        self._now = now
        self._publish = publish
        self._rang = rang
        self._timer: asyncio.TimerHandle | None = None
        self._due: int | None = None

    def rearm(self) -> None:
        """Set the timer to the earliest deadline. Call it after everything that may have changed that."""
        due = self._keeper.next_deadline()
        if due == self._due and self._timer is not None:
            return
        self.cancel()
        self._due = due
        if due is not None:
            wait = max(0, due - self._now()) / SECOND
            self._timer = asyncio.get_running_loop().call_later(wait, self._ring)

    def cancel(self) -> None:
        """No more wake-ups."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        now, due = self._now(), self._keeper.next_deadline()
        if due is not None and now >= due:
            self._rang(now - due)
            self._publish(self._keeper.expire(now))
        self.rearm()
