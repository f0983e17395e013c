"""This process's lease: proof, renewed in the database, that it may own matches."""

from __future__ import annotations

import asyncio
import time

import asyncpg

from services.common.logs import get_logger
from services.game.shell import Incarnation
from services.storage import matches
from services.storage.pool import Pool


class Lease:
    """Renewed four times in its life. Safety comes from the fence in each write; the lease is for speed."""

    def __init__(self, pool: Pool, incarnation: Incarnation, seconds: float) -> None:
        self._pool = pool
        self._incarnation = incarnation
        self._seconds = seconds
        self._proven_at: float | None = None
        self.lost = asyncio.Event()
        """A newer incarnation of this process has begun."""

    @property
    def fresh(self) -> bool:
        """Whether the last successful renewal was asked for recently enough to own anything."""
        return (
            self._proven_at is not None
            and not self.lost.is_set()
            and time.monotonic() - self._proven_at < self._seconds - self._seconds / 4
        )

    async def begin(self) -> None:
        """Takes the lease for this incarnation."""
        asked = time.monotonic()
        incarnation = self._incarnation
        await matches.begin_lease(
            self._pool, incarnation.engine_id, incarnation.name, incarnation.address, self._seconds
        )
        self._proven_at = asked

    async def run(self) -> None:
        """Renews until a newer incarnation takes the lease."""
        incarnation = self._incarnation
        while True:
            await asyncio.sleep(self._seconds / 4)
            asked = time.monotonic()
            try:
                async with asyncio.timeout(self._seconds / 4):
                    renewed = await matches.renew_lease(
                        self._pool,
                        incarnation.engine_id,
                        incarnation.name,
                        incarnation.address,
                        self._seconds,
                    )
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                get_logger().warning("lease_not_renewed", error=type(error).__name__)
                continue
            if not renewed:
                get_logger().error("lease_lost", engine_id=incarnation.engine_id)
                self.lost.set()
                return
            self._proven_at = asked
