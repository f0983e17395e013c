"""The ladder's worker: sees to it that every finished match gets its rating decision."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

import asyncpg
from prometheus_client import CollectorRegistry, Counter, Gauge

from matchmaker.rating import UnknownWinnerError
from services.common.logs import get_logger
from services.storage import ladder
from services.storage.ladder import FinishedMatch
from services.storage.pool import TRANSIENT, Connection, Pool

CHANNEL: Final = "match_outcome"
LOOK_SECONDS = 2.0
"""How often it looks by itself: a lost notice costs this much and nothing else."""
BATCH = 100


class LadderWorker:
    """Decides about finished matches in the order in which they ended. Any number may run: each decision is one
    transaction that only one of them can commit."""

    def __init__(self, pool: Pool, registry: CollectorRegistry) -> None:
        self._pool = pool
        self._notice = asyncio.Event()
        # Every outcome numbered up to here is decided, and no more will appear there.
        self._mark = 0
        self._decided = Counter(
            "spectacular_bid_rating_decisions_total",
            "Rating decisions, by reason.",
            ["reason"],
            registry=registry,
        )
        self._refused = Counter(
            "spectacular_bid_rating_refused_total",
            "Outcomes that make no sense and were left undecided.",
            registry=registry,
        )
        self._undecided = Gauge(
            "spectacular_bid_rating_undecided",
            "Finished matches found without a decision.",
            registry=registry,
        )
        for reason in ("rated", "unrated_mode", "void", "cancelled"):
            self._decided.labels(reason)

    async def run(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """Work until cancelled. `connection` hears of new outcomes; the decisions use the pool."""

        def heard(*_: Any) -> None:
            self._notice.set()

        # Should the connection be lost, the lead is lost with it, and this ends by being cancelled.
        with suppress(*TRANSIENT):
            await connection.add_listener(CHANNEL, heard)
        while True:
            self._notice.clear()
            try:
                await self.look()
            except TRANSIENT as error:
                get_logger().warning("ladder_waits", error=type(error).__name__)
                await asyncio.sleep(LOOK_SECONDS)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._notice.wait()

    async def look(self) -> None:
        """Decide about everything that awaits it now."""
        async with self._pool.acquire() as connection:
            # Taken before looking: whatever is below it can be seen by the look.
            settled = await ladder.settled_mark(connection)
            after = self._mark
            while batch := await ladder.undecided(connection, after=after, limit=BATCH):
                self._undecided.set(len(batch))
                for finished in batch:
                    await self._decide(connection, finished)
                after = batch[-1].ended_no
        self._undecided.set(0)
        self._mark = max(self._mark, settled)

    async def _decide(self, connection: Connection, finished: FinishedMatch) -> None:
        try:
            new = await ladder.decide(connection, finished)
        except UnknownWinnerError as error:
            # One senseless outcome must not stop the ladder, and must never be guessed at.
            self._refused.inc()
            get_logger().error("outcome_refused", match_id=str(finished.match_id), why=str(error))
            return
        if new:
            self._decided.labels(finished.reason).inc()
            get_logger().info(
                "rating_decided",
                match_id=str(finished.match_id),
                reason=finished.reason,
                ended_no=finished.ended_no,
            )
