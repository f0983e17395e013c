"""Many players losing their streams at once, while this process is well: somebody else's fault, but not theirs.

One player who leaves stops no clock (rule 6.6). When half of them vanish within two seconds, the network in front of
us is broken, and a forfeit would punish people who cannot be heard. Live time then stands still for everybody until
they are back, up to a limit: nobody times out, and the pause is credited like any other gap.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

from engine.clock import SECOND
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
    """Counts players of live matches by their streams.

    Players, not streams, and no spectators: whoever opens many streams and drops them all is one player, and somebody
    without a seat stops nobody's clock. Streams that this process ended itself are not losses.
    """

    def __init__(self, livetime: LiveTime, now: Callable[[], float]) -> None:
        self._livetime = livetime
        self._now = now
        self._here: Counter[str] = Counter()
        """Streams of each player."""
        self._lost: dict[str, float] = {}
        """Players whose last stream broke, and when; the oldest first."""
        self._before = 0
        self._held_since: float | None = None

    @property
    def holding(self) -> bool:
        """Whether live time stands still for this reason."""
        return self._held_since is not None

    def opened(self, player_id: str) -> None:
        """A stream of a seat of a live match has begun."""
        self._here[player_id] += 1
        self._lost.pop(player_id, None)

    def ended(self, player_id: str, *, broken: bool) -> None:
        """Such a stream is over; `broken` when neither the match nor this process ended it."""
        self._here[player_id] -= 1
        if self._here[player_id]:
            return
        del self._here[player_id]
        if broken:
            self._lost[player_id] = self._now()
            self._look()

    def _look(self) -> None:
        now, here = self._now(), len(self._here)
        if self._held_since is None:
            for player_id in [lost for lost, at in self._lost.items() if at <= now - WINDOW_SECONDS]:
                del self._lost[player_id]
            lost = len(self._lost)
            if lost >= LOST_MIN and lost >= LOST_SHARE * (here + lost):
                if self._livetime.unheard_ns() > WINDOW_SECONDS * SECOND:
                    # They left while this process stood still, and because of it: that is a gap already.
                    self._lost.clear()
                    return
                self._held_since, self._before = now, here + lost
                self._livetime.freeze(CAUSE)
                get_logger().error("mass_disconnect", lost=lost, left=here)
        elif here >= LOST_SHARE * self._before or now - self._held_since >= HOLD_SECONDS_MAX:
            get_logger().warning("mass_disconnect_over", seconds=now - self._held_since, back=here)
            self._held_since = None
            self._lost.clear()
            self._livetime.thaw()

    async def run(self) -> None:
        """Ends a hold in time. Until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._look()
