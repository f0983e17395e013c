"""Who listens to a room. A listener is woken and looks for itself; nothing is queued for it."""

from __future__ import annotations

import asyncio
from collections import Counter

from services.game.story import Audience


class Listeners:
    """The streams of one match."""

    def __init__(self) -> None:
        self._wakes: set[asyncio.Event] = set()
        self._present: Counter[Audience] = Counter()
        self.news = 0
        """Grows with everything that listeners should look at."""

    def add(self, wake: asyncio.Event, audience: Audience) -> None:
        """Sets `wake` with all news until `remove`."""
        self._wakes.add(wake)
        self._present[audience] += 1

    def remove(self, wake: asyncio.Event, audience: Audience) -> None:
        """Ends `add`."""
        self._wakes.discard(wake)
        self._present[audience] -= 1

    def present(self, audience: Audience) -> bool:
        """Whether anybody of this audience listens now."""
        return self._present[audience] > 0

    def announce(self) -> None:
        """There is news."""
        self.news += 1
        for wake in self._wakes:
            wake.set()
