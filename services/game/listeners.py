"""Who listens to a room. A listener is woken and looks for itself; nothing is queued for it."""

from __future__ import annotations

import asyncio
from collections import Counter

from services.game.story import Audience


class Listeners:
    """The streams of one match."""

    def __init__(self) -> None:
        self._wakes: dict[Audience, set[asyncio.Event]] = {audience: set() for audience in Audience}
        self._present: Counter[Audience] = Counter()
        self.news = 0
        """Grows with everything that listeners should look at."""

    def add(self, wake: asyncio.Event, audience: Audience) -> None:
        """Sets `wake` with all news until `remove`."""
        self._wakes[audience].add(wake)
        self._present[audience] += 1

    def remove(self, wake: asyncio.Event, audience: Audience) -> None:
        """Ends `add`."""
        self._wakes[audience].discard(wake)
        self._present[audience] -= 1

    def present(self, audience: Audience) -> bool:
        """Whether anybody of this audience listens now."""
        return self._present[audience] > 0

    def announce(self, to_act: Audience | None = None) -> None:
        """There is news; `to_act` is the audience that may act now.

        Players hear of it before spectators, and the other player before the one who may act: to list what that one may
        do takes the longer the more it is, and nobody else shall be able to wait for it.
        """
        self.news += 1
        for audience in sorted(
            Audience, key=lambda audience: (audience is Audience.SPECTATOR, audience is to_act)
        ):
            for wake in self._wakes[audience]:
                wake.set()
