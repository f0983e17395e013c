"""Many matches losing players at once, while this process is well: somebody else's fault, but not theirs.

One player who leaves stops no clock (rule 6.6). When half of the matches that are played lose somebody within two
seconds, the network in front of us is broken, and a forfeit would punish people who cannot be heard. Live time then
stands still for everybody until they are back, up to a limit: nobody times out, and the pause is credited like any
other gap.

Whoever wants such a pause must not be able to make one. So what can be had for nothing counts nothing: only rated
matches count, whose clock runs, each once; matches lost from one network are one loss; and one pause is followed by a
long time without another, so that pauses cannot add up to what makes a match void.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from engine.clock import SECOND
from services.common.logs import get_logger
from services.game.livetime import LiveTime

WINDOW_SECONDS: Final = 2.0
LOST_MIN: Final = 10
"""Matches that must have lost somebody, and different networks that these were lost from."""
LOST_SHARE: Final = 0.5
HOLD_SECONDS_MAX: Final = 25.0
"""Below the longest gap that does not void; two of them are below the most credit that does not."""
COOLDOWN_SECONDS: Final = 1800.0
"""From the beginning of a hold to the beginning of the next one. A match has two of them only if it lasts as long."""
LOOK_SECONDS: Final = 0.25
CAUSE: Final = "mass_disconnect"


class Place(NamedTuple):
    """A seat of a live match as a stream has it."""

    match_id: str
    player_id: str
    network: str
    """Where the stream comes from, as `services.game.networks` says."""


class _Lost(NamedTuple):
    """A match that somebody has lost."""

    player_id: str
    network: str
    at: float


class MassLoss:
    """Counts rated matches by the streams of those who play them.

    Matches, not streams, and no spectators: whoever opens many streams and drops them all is one loss, and somebody
    without a seat stops nobody's clock. Streams that this process ended itself are not losses.
    """

    def __init__(self, livetime: LiveTime, now: Callable[[], float]) -> None:
        self._livetime = livetime
        self._now = now
        self._here: dict[str, Counter[str]] = {}
        """Streams of each match, by player."""
        self._whole: set[str] = set()
        """Matches with streams that nobody is lost from."""
        self._lost: dict[str, _Lost] = {}
        """The first loss of each match, the oldest first."""
        self._networks: Counter[str] = Counter()
        """Of the losses."""
        self._before = 0
        self._held_since: float | None = None
        self._not_before = float("-inf")
        self._refused = False

    @property
    def holding(self) -> bool:
        """Whether live time stands still for this reason."""
        return self._held_since is not None

    def opened(self, place: Place) -> None:
        """A stream of a seat of a live rated match has begun."""
        match_id, player_id, _ = place
        self._here.setdefault(match_id, Counter())[player_id] += 1
        lost = self._lost.get(match_id)
        if lost is not None and lost.player_id == player_id:
            self._forget(match_id)
        elif lost is None:
            self._whole.add(match_id)

    def ended(self, place: Place, *, broken: bool, running: bool) -> None:
        """Such a stream is over; `broken` when neither the match nor this process ended it, `running` when a clock of
        the match ran."""
        match_id, player_id, network = place
        streams = self._here[match_id]
        streams[player_id] -= 1
        if streams[player_id]:
            return
        del streams[player_id]
        if not streams:
            del self._here[match_id]
            self._whole.discard(match_id)
        if broken and running and match_id not in self._lost:
            self._lost[match_id] = _Lost(player_id, network, self._now())
            self._networks[network] += 1
            self._whole.discard(match_id)
            self._look()

    def _forget(self, match_id: str) -> None:
        network = self._lost.pop(match_id).network
        self._networks[network] -= 1
        if not self._networks[network]:
            del self._networks[network]
        if match_id in self._here:
            self._whole.add(match_id)

    def _forget_all(self) -> None:
        for match_id in list(self._lost):
            self._forget(match_id)

    def _look(self) -> None:
        now, whole = self._now(), len(self._whole)
        if self._held_since is not None:
            if whole >= LOST_SHARE * self._before or now - self._held_since >= HOLD_SECONDS_MAX:
                get_logger().warning("mass_disconnect_over", seconds=now - self._held_since, back=whole)
                self._held_since = None
                self._forget_all()
                self._livetime.thaw()
            return
        for match_id, lost in list(self._lost.items()):
            if lost.at > now - WINDOW_SECONDS:
                break
            self._forget(match_id)
        lost_now, whole = len(self._lost), len(self._whole)
        if min(lost_now, len(self._networks)) < LOST_MIN or lost_now < LOST_SHARE * (whole + lost_now):
            self._refused = False
        elif self._livetime.unheard_ns() > WINDOW_SECONDS * SECOND:
            # They left while this process stood still, and because of it: that is a gap already.
            self._forget_all()
        elif now >= self._not_before:
            self._held_since, self._before = now, whole + lost_now
            self._not_before = now + COOLDOWN_SECONDS
            self._livetime.freeze(CAUSE)
            get_logger().error("mass_disconnect", lost=lost_now, left=whole)
        elif not self._refused:
            self._refused = True
            get_logger().error("mass_disconnect_not_held", lost=lost_now, left=whole)

    async def run(self) -> None:
        """Ends a hold in time. Until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._look()
