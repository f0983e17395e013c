"""What one leader leaves to the next: signs of life, and the seeks whose streams it had."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import suppress
from typing import Final

from services.common.logs import get_logger
from services.storage import lead, seeks
from services.storage.pool import TRANSIENT, Pool

SIGN_SECONDS: Final = 1.0
"""How often a leader shows that it lives: so exactly is known since when nobody led."""


class Succession:
    """One term of one leader."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._term = uuid.uuid4()

    async def take_over(self) -> None:
        """Begin a term. The seeks of whoever led before have no streams any more: they may come again."""
        async with self._pool.acquire() as connection:
            incident = await lead.take_lead(connection, self._term)
            lost = await seeks.lose_all_seeks(connection)
        if incident is not None and incident.ended_at is not None:
            get_logger().warning(
                "lead_was_vacant",
                seconds=round((incident.ended_at - incident.began_at).total_seconds(), 3),
                seeks=lost,
            )

    async def keep(self) -> None:
        """Show that this leader lives and forget old seeks, until cancelled."""
        while True:
            # Trouble of the database shows in the sign of life that is missing.
            with suppress(*TRANSIENT):
                async with self._pool.acquire() as connection:
                    await lead.renew_lead(connection, self._term)
                    await seeks.forget_seeks(connection)
            await asyncio.sleep(SIGN_SECONDS)

    async def leave(self, seconds_max: float) -> None:
        """End the term in order, if the database takes it in time."""
        with suppress(*TRANSIENT):
            async with asyncio.timeout(seconds_max), self._pool.acquire() as connection:
                await lead.leave_lead(connection, self._term)
