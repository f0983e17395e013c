"""Orders of operators, from the database into effect: given through this process, or found there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from services.common.errors import try_again
from services.common.logs import get_logger
from services.matchmaking.lobby import Lobby
from services.matchmaking.pools import Pools
from services.matchmaking.seekers import POOLS, Seekers, draining
from services.matchmaking.wave import Wave
from services.storage import poolorders
from services.storage.pool import TRANSIENT, Pool
from services.storage.poolorders import NewOrder, PoolOrder
from services.storage.seeks import PoolName

LOOK_SECONDS: Final = 0.5
"""How soon the end of an order is noticed, and one that was stored by another process."""


class Orders:
    """Keeps the pools as they were ordered. The rows decide; memory follows them."""

    def __init__(self, pool: Pool, pools: Pools, seekers: Seekers, wave: Wave, lobby: Lobby) -> None:
        self._pool = pool
        self._pools = pools
        self._seekers = seekers
        self._wave = wave
        self._lobby = lobby
        # What is read first takes effect first.
        self._turn = asyncio.Lock()

    async def give(self, pools: Sequence[PoolName], new: NewOrder) -> None:
        """Store an order and put it into effect: when this returns, it holds.

        Raises ServiceError when this process does not lead.
        """
        async with self._turn:
            self._check_leads()
            async with self._pool.acquire() as connection, connection.transaction():
                orders = await poolorders.put_orders(connection, pools, new)
                in_force = await poolorders.orders_in_force(connection)
            for order in orders:
                get_logger().info(
                    "pool_ordered",
                    order_no=order.order_no,
                    pool=order.pool,
                    action=order.action,
                    author=order.author,
                    reason=order.reason,
                    announcement=order.announcement,
                    until=None if order.until is None else order.until.isoformat(),
                )
            await self._put(in_force)

    async def refresh(self) -> None:
        """Put into effect what is stored."""
        async with self._turn:
            async with self._pool.acquire() as connection:
                in_force = await poolorders.orders_in_force(connection)
            await self._put(in_force)

    async def refresh_as_leader(self) -> None:
        """The same. Raises ServiceError when this process does not lead."""
        self._check_leads()
        await self.refresh()

    def _check_leads(self) -> None:
        if not self._lobby.is_open:
            raise try_again("this process does not lead; try again", 0.5)

    async def run(self) -> None:
        """Follow what is stored, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            # Trouble of the database: the last known orders stay, and the next look tries again.
            with suppress(*TRANSIENT):
                await self.refresh()

    async def _put(self, in_force: Sequence[PoolOrder]) -> None:
        changed = self._pools.put(in_force)
        if any(not self._pools.pairs(pool) for pool in changed):
            # Matches in the making are made: whoever is in one is told about that, not about the order.
            async with self._wave.still():
                pass
        for pool in POOLS:
            if self._pools.drains(pool):
                await self._lobby.end(
                    pool, draining(self._pools[pool].mode_order, self._pools[pool].announcement)
                )
        for seeker in self._seekers:
            if seeker.pool in changed:
                seeker.nudge()
        if changed:
            self._wave.wake()
