"""Players' questions to the database: a share of the connections, so that the service's own work always has some left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from services.common.limits import Limit, LimitError
from services.storage.pool import Connection, Pool

SHARE: Final = 4
"""One connection in so many is for questions, and at least one."""
WAITING_MAX: Final = 200
"""Questions that wait for their turn. Beyond that they are refused: none would be answered while somebody still wants to
know."""
AGAIN_SECONDS: Final = 1.0


class Questions:
    """The share of a pool."""

    def __init__(self, pool: Pool, pool_size: int) -> None:
        self._pool = pool
        self._turns = asyncio.Semaphore(max(1, pool_size // SHARE))
        self._waiting = 0

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Connection]:
        """A connection for one question. Raises LimitError when too many wait for theirs."""
        if self._waiting >= WAITING_MAX:
            raise LimitError(Limit.QUESTIONS, "too many questions wait for the database", AGAIN_SECONDS)
        self._waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self._waiting -= 1
        try:
            async with self._pool.acquire() as connection:
                yield connection
        finally:
            self._turns.release()
