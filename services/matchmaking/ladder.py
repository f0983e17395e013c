"""The ladder's worker: sees to it that every finished match gets its rating decision."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

import asyncpg

from matchmaker.rating import UnknownModelError, UnknownWinnerError
from services.common.logs import get_logger
from services.matchmaking.metrics import RatingMetrics
from services.storage import holds, ladder, rulings
from services.storage.pool import TRANSIENT, Connection, Pool
from services.storage.refold import Ended

CHANNEL: Final = "match_outcome"
LOOK_SECONDS = 2.0
"""How often it looks by itself: a lost notice costs this much and nothing else."""
BATCH = 100


class LadderWorker:
    """Decides about finished matches in the order in which they ended. Any number may run: each decision is one
    transaction that only one of them can commit."""

    def __init__(self, pool: Pool, metrics: RatingMetrics) -> None:
        self._pool = pool
        self._notice = asyncio.Event()
        # Outcomes that were refused. They go on waiting, and this process has nothing more to say about them.
        self._refused: set[UUID] = set()
        # Incidents whose results are all held, and whose window is so long over that there will be no more.
        self._held_for: set[UUID] = set()
        self._metrics = metrics
        self._oldest_at: float | None = None
        """When the oldest match ended that was found undecided and is not decided yet (monotonic)."""
        metrics.oldest.set_function(self._oldest_seconds)

    async def run(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """Work until cancelled. `connection` hears of new outcomes; the decisions use the pool."""

        def heard(*_: Any) -> None:
            self._notice.set()

        # Should the connection be lost, the lead is lost with it, and this ends by being cancelled.
        with suppress(*TRANSIENT):
            await connection.add_listener(CHANNEL, heard)
        whole_at = 0.0
        try:
            while True:
                self._notice.clear()
                try:
                    if time.monotonic() < whole_at:
                        await self._decide_all()
                    else:
                        # Nothing tells of incidents: what they make doubtful need not be looked for with each match.
                        await self.look()
                        whole_at = time.monotonic() + LOOK_SECONDS
                except TRANSIENT as error:
                    get_logger().warning("ladder_waits", error=type(error).__name__)
                    await asyncio.sleep(LOOK_SECONDS)
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._notice.wait()
        finally:
            # Whoever leads next finds what is left, and shows it.
            self._oldest_at = None
            self._metrics.undecided.set(0)

    async def look(self) -> None:
        """Decide about everything that awaits it now; then hold what turned out to be doubtful."""
        await self._decide_all()
        async with self._pool.acquire() as connection:
            await self._hold_overlooked(connection)
            self._metrics.held.set(await rulings.count_held(connection))

    async def _decide_all(self) -> None:
        try:
            async with self._pool.acquire() as connection:
                await self._decide_waiting(connection)
        except TRANSIENT:
            if self._oldest_at is None:
                # Nobody can say whether anything waits: as if a match had ended now, until a look succeeds.
                self._oldest_at = time.monotonic()
            raise
        self._metrics.undecided.set(0)
        self._oldest_at = None

    async def _decide_waiting(self, connection: Connection) -> None:
        after = 0
        while batch := await ladder.backlog(connection, after=after, limit=BATCH):
            waiting = [found for found in batch if found.ended.match_id not in self._refused]
            self._metrics.undecided.set(len(waiting))
            now = time.monotonic()
            for found in waiting:
                self._oldest_at = now - found.waited_seconds
                await self._decide(connection, found.ended, self._oldest_at)
            after = batch[-1].ended.ended_no

    async def _hold_overlooked(self, connection: Connection) -> None:
        """Incidents are noticed or declared after the fact, too: what they make doubtful may be rated already."""
        for holding in await holds.holdings(connection):
            if holding.incident_id in self._held_for:
                continue
            try:
                summary = await rulings.hold_overlooked(connection, holding.incident_id)
            except UnknownModelError as error:
                get_logger().error("hold_failed", incident_id=str(holding.incident_id), why=str(error))
                continue
            if summary.matches:
                get_logger().warning(
                    "results_held",
                    incident_id=str(holding.incident_id),
                    held=sum(shift.after.reason == "held" for shift in summary.matches),
                    decisions=len(summary.matches),
                    players=len(summary.players),
                )
            if holding.settled:
                self._held_for.add(holding.incident_id)

    def _oldest_seconds(self) -> float:
        # Asked from the thread of the metrics page: read once.
        oldest_at = self._oldest_at
        return 0.0 if oldest_at is None else time.monotonic() - oldest_at

    async def _decide(self, connection: Connection, ended: Ended, ended_at: float) -> None:
        try:
            reason = await ladder.decide(connection, ended)
        except (UnknownWinnerError, UnknownModelError) as error:
            # One senseless outcome must not stop the ladder, and must never be guessed at.
            self._refused.add(ended.match_id)
            self._metrics.refused.inc()
            get_logger().error("outcome_refused", match_id=str(ended.match_id), why=str(error))
            return
        if reason is not None:
            self._metrics.decided.labels(reason).inc()
            self._metrics.delay.observe(time.monotonic() - ended_at)
            get_logger().info(
                "rating_decided",
                match_id=str(ended.match_id),
                reason=reason,
                ended_no=ended.ended_no,
            )
