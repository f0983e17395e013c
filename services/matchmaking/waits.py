"""How long those who were matched had waited: what the estimates for those who wait now rest on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from matchmaker.estimate import Estimate, Wait, estimate
from matchmaker.ticket import SECOND, Ticket
from services.matchmaking.seekers import POOLS
from services.storage.seeks import PoolName

KEPT: Final = 500
"""Waits of a pool that are kept: of players of every strength, the latest first to be asked."""
FRESH: Final = SECOND
"""Thousands ask every second; what they are told may be this old, in nanoseconds."""
STEP: Final = 25
"""Ratings are told apart in steps of this many points."""


class Waits:
    """The latest waits of each pool, in memory: a new leader begins without any and says so by estimating nothing."""

    def __init__(self, now: Callable[[], int]) -> None:
        """`now` is the timeline of tickets, in nanoseconds."""
        self._now = now
        self._waits: dict[PoolName, deque[Wait]] = {pool: deque(maxlen=KEPT) for pool in POOLS}
        self._made: dict[tuple[PoolName, int], Estimate | None] = {}
        self._made_at = 0

    def add(self, pool: PoolName, ticket: Ticket) -> None:
        """A seek was matched just now."""
        now = self._now()
        self._waits[pool].append(Wait(ticket.rating, ticket.waited(now), now))

    def estimate(self, pool: PoolName, rating: float) -> Estimate | None:
        """What a player with this rating may expect; None while too little is known."""
        now = self._now()
        if now - self._made_at > FRESH:
            self._made.clear()
            self._made_at = now
        step = round(rating / STEP)
        if (pool, step) not in self._made:
            self._made[pool, step] = estimate(self._waits[pool], step * STEP, now)
        return self._made[pool, step]
