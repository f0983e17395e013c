"""Many players losing their streams at once, while this process is well: somebody else's fault, but not theirs.

One player who leaves stops no clock (rule 6.6). When half of them vanish within two seconds, the network in front of
us is broken, and a forfeit would punish people who cannot be heard. Live time then stands still for everybody until
they are back, up to a limit: nobody times out, and the pause is credited like any other gap.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from services.common.logs import get_logger
from services.game.livetime import LiveTime

WINDOW_SECONDS: Final = 2.0
LOST_MIN: Final = 20
LOST_SHARE: Final = 0.5
HOLD_SECONDS_MAX: Final = 25.0
"""Below the longest gap that does not void."""
LOOK_SECONDS: Final = 0.25
CAUSE: Final = "mass_disconnect"


class MassLoss:
    """Counts streams that broke. Streams that this process ended itself are not told to it."""

    def __init__(self, livetime: LiveTime, now: Callable[[], float]) -> None:
        self._livetime = livetime
        self._now = now
        self._open = 0
        self._broken: deque[float] = deque()
        self._before = 0
        self._held_since: float | None = None

    @property
    def holding(self) -> bool:
        """Whether live time stands still for this reason."""
        return self._held_since is not None

    def opened(self) -> None:
        """A player's stream has begun."""
        self._open += 1

    def ended(self, *, broken: bool) -> None:
        """A player's stream is over; `broken` when neither the match nor this process ended it."""
        self._open -= 1
        if broken:
            self._broken.append(self._now())
            self._look()

    def _look(self) -> None:
        now = self._now()
        while self._broken and self._broken[0] <= now - WINDOW_SECONDS:
            self._broken.popleft()
        lost = len(self._broken)
        if self._held_since is None:
            if lost >= LOST_MIN and lost >= LOST_SHARE * (self._open + lost):
                self._held_since, self._before = now, self._open + lost
                self._livetime.freeze(CAUSE)
                get_logger().error("mass_disconnect", lost=lost, left=self._open)
        elif self._open >= LOST_SHARE * self._before or now - self._held_since >= HOLD_SECONDS_MAX:
            get_logger().warning("mass_disconnect_over", seconds=now - self._held_since, back=self._open)
            self._held_since = None
            self._broken.clear()
            self._livetime.thaw()

    async def run(self) -> None:
        """Ends a hold in time. Until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._look()
