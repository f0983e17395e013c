"""This process's lease: proof, renewed in the database, that it may own matches.

Safety comes from the fence in each write; the lease is for speed, and for knowing when to stop offering what cannot
be kept. It is judged by the database's clock for others and by the own clock, from the moment of asking, for oneself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from engine.clock import SECOND
from services.common.logs import get_logger
from services.game.incarnation import Incarnation
from services.game.livetime import kernel_now
from services.game.metrics import LeaseMetrics
from services.storage import ownership
from services.storage.pool import TRANSIENT, Pool
from services.storage.processorders import Standing

LISTEN_ON_SECONDS: Final = 10.0
"""How much longer a process listens whose lease is not fresh: a hiccup of the database costs nobody a reconnect."""


class Lease:
    """Renewed four times in its life."""

    def __init__(
        self,
        pool: Pool,
        incarnation: Incarnation,
        seconds: float,
        metrics: LeaseMetrics,
        *,
        now: Callable[[], float] = lambda: kernel_now() / SECOND,
    ) -> None:
        self._pool = pool
        self._incarnation = incarnation
        self._seconds = seconds
        self._now = now
        self._proven_at: float | None = None
        self._renewed = asyncio.Event()
        self.lapses = 0
        """How often the lease had run out before it was renewed: for others, it was nobody's meanwhile."""
        self._lapses_seen = 0
        self.lost = asyncio.Event()
        """A newer incarnation of this process has begun."""
        self.capacity = 0
        """How many matches this process takes: for those that hand theirs over."""
        self.standing: Callable[[], Standing] = lambda: "ready"
        """What it says of itself to them."""
        self._told: Standing | None = None
        metrics.age.set_function(self._age)
        self._failures = metrics.failures

    def _age(self) -> float:
        # Asked from the thread of the metrics page: read once.
        proven_at = self._proven_at
        return 0.0 if proven_at is None else self._now() - proven_at

    @property
    def fresh(self) -> bool:
        """Whether the last successful renewal was asked for recently enough to own anything."""
        return self._within(self._seconds * 3 / 4)

    @property
    def lapsed(self) -> bool:
        """Whether others may have taken matches up, and nobody has looked yet."""
        return self.lapses > self._lapses_seen

    @property
    def proves(self) -> bool:
        """Whether what this process hears now is heard for matches that are its own."""
        return self.fresh and not self.lapsed

    def looked(self, lapses: int) -> None:
        """What is owned has been looked up since so many lapses."""
        self._lapses_seen = lapses

    @property
    def hopeless(self) -> bool:
        """Whether it is too long ago to go on listening: others may have taken the matches up."""
        return not self._within(self._seconds * 3 / 4 + LISTEN_ON_SECONDS)

    def _within(self, seconds: float) -> bool:
        return (
            self._proven_at is not None and not self.lost.is_set() and self._now() - self._proven_at < seconds
        )

    async def until_fresh(self) -> None:
        """Waits for a renewal if the last one is too long ago."""
        while not self.fresh and not self.lost.is_set():
            self._renewed.clear()
            await self._renewed.wait()

    async def begin(self) -> int:
        """Takes the lease for this incarnation; how long ago it was last renewed, in nanoseconds."""
        asked = self._now()
        incarnation = self._incarnation
        standing = self.standing()
        gap_ns = await ownership.begin_lease(
            self._pool,
            incarnation.engine_id,
            incarnation.name,
            incarnation.address,
            self._seconds,
            capacity=self.capacity,
            standing=standing,
        )
        self._told = standing
        self._prove(asked)
        return gap_ns

    async def say_standing(self) -> None:
        """Tells the others what this process takes, if that has changed. Trouble of the database only delays it."""
        standing = self.standing()
        if self._told in (None, standing):
            return
        try:
            async with asyncio.timeout(self._seconds / 4):
                await ownership.say_standing(
                    self._pool, self._incarnation.engine_id, self._incarnation.name, standing
                )
        except TRANSIENT as error:
            get_logger().warning("standing_not_told", error=type(error).__name__)
        else:
            self._told = standing

    async def end(self) -> None:
        """Gives the lease up; nothing is owned any more."""
        try:
            async with asyncio.timeout(self._seconds / 4):
                await ownership.end_lease(self._pool, self._incarnation.engine_id, self._incarnation.name)
        except TRANSIENT as error:
            # It runs out by itself.
            get_logger().warning("lease_not_ended", error=type(error).__name__)
        self._proven_at = None

    async def run(self) -> None:
        """Renews until a newer incarnation takes the lease."""
        incarnation = self._incarnation
        while True:
            await asyncio.sleep(self._seconds / 4)
            asked = self._now()
            if self._proven_at is None:
                continue  # given up; whoever gave it up begins it anew
            standing = self.standing()
            try:
                async with asyncio.timeout(self._seconds / 4):
                    renewed = await ownership.renew_lease(
                        self._pool,
                        incarnation.engine_id,
                        incarnation.name,
                        incarnation.address,
                        self._seconds,
                        standing=standing,
                    )
            except TRANSIENT as error:
                self._failures.inc()
                get_logger().warning("lease_not_renewed", error=type(error).__name__)
                continue
            if not renewed:
                get_logger().error("lease_lost", engine_id=incarnation.engine_id)
                self.lost.set()
                self._renewed.set()
                return
            self._told = standing
            self._prove(asked)

    def give_up(self) -> None:
        """Nothing is proven any more, until `begin`."""
        self._proven_at = None

    def _prove(self, asked: float) -> None:
        if self._proven_at is not None and asked - self._proven_at >= self._seconds:
            self.lapses += 1
        self._proven_at = asked
        self._renewed.set()
