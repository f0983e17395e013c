"""Whether operators want this process out of service."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from prometheus_client import Gauge

from services.common.logs import get_logger
from services.game.rooms import Rooms
from services.storage import processorders
from services.storage.pool import TRANSIENT, Pool

LOOK_SECONDS: Final = 0.5


class Drain:
    """Looks what is ordered, twice a second. Until it has looked once, nothing new begins here.

    When the database does not answer, what was ordered last holds.
    """

    def __init__(
        self, pool: Pool, rooms: Rooms, engine_id: str, gauge: Gauge, on_change: Callable[[], Awaitable[None]]
    ) -> None:
        self.ordered = False
        """Whether an operator has this process drained."""
        self._pool = pool
        self._rooms = rooms
        self._engine_id = engine_id
        self._gauge = gauge
        self._on_change = on_change
        self._emptied = False
        rooms.in_service = False

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.look()
            except TRANSIENT as error:
                get_logger().warning("drain_waits", error=type(error).__name__)
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Puts into effect what is ordered."""
        ordered = await processorders.is_drained(self._pool, self._engine_id)
        self._rooms.in_service = not ordered
        if ordered != self.ordered:
            self.ordered, self._emptied = ordered, False
            self._gauge.set(ordered)
            matches = len(self._rooms.live())
            if ordered:
                get_logger().info("drain_ordered", matches=matches)
            else:
                get_logger().info("drain_ended", matches=matches)
            await self._on_change()
        if self.ordered and not self._emptied and not self._rooms.live():
            self._emptied = True
            get_logger().info("drained")
