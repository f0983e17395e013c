"""Matches whose game process went away before it had loaded them: another one gets them, and their players wait on."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from services.common.logs import get_logger
from services.matchmaking.metrics import PlacementMetrics
from services.matchmaking.placement import Engines, Stranded
from services.storage import ownership, seeks
from services.storage.pool import TRANSIENT, Pool

GRACE_SECONDS: Final = 1.0
"""A game process that only lost its stream is back by then, and gets its matches again."""
LOOK_SECONDS: Final = 0.25


class Moving:
    """Looks for such matches; one task of the leader runs it."""

    def __init__(self, pool: Pool, engines: Engines, metrics: PlacementMetrics) -> None:
        self._pool = pool
        self._engines = engines
        self._moved = metrics.placed_again

    async def run(self) -> None:
        """Looks until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for stranded in self._engines.stranded(GRACE_SECONDS):
                # Trouble of the database: the next look tries again.
                with suppress(*TRANSIENT):
                    await self._move(stranded)

    async def _move(self, stranded: Stranded) -> None:
        engine = self._engines.pick()
        if engine is None:
            return
        to = engine.hello.engine_id
        with engine.making():
            async with self._pool.acquire() as connection:
                fence = await seeks.move_match(
                    connection, stranded.match_id, stranded.engine_id, stranded.fence, to
                )
                if fence is None:
                    # Somebody was faster: the process itself after all, or another that took over what it had.
                    owner = await ownership.get_owner(connection, stranded.match_id)
                    self._engines.settled(stranded.match_id, None if owner is None else owner.address)
                    return
            self._engines.move(stranded.match_id, to, fence)
        self._moved.inc()
        get_logger().warning(
            "match_placed_again", match_id=stranded.match_id, engine_id=to, from_engine=stranded.engine_id
        )
