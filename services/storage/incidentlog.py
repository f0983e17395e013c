"""Incidents on their way to the database, beside everything that players wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

import asyncpg

from services.common.logs import get_logger
from services.storage.incidents import Effect, Incident, put_incidents, put_touches
from services.storage.pool import TRANSIENT, Pool

STORE_SECONDS: Final = 1.0
KEPT_MAX: Final = 1000
"""More than this waits in a long outage of the database only; the oldest are forgotten then."""


class IncidentLog:
    """Noted at once, stored about once a second; trouble of the database only delays it."""

    def __init__(self) -> None:
        self._incidents: list[Incident] = []
        self._touches: list[tuple[str, str, Effect]] = []

    def note(self, incident: Incident, touched: Iterable[tuple[str, Effect]] = ()) -> None:
        """To be stored, with the matches it touched. Noting it twice stores it once."""
        self._incidents.append(incident)
        for match_id, effect in touched:
            self.touch(incident.incident_id, match_id, effect)

    def touch(self, incident_id: str, match_id: str, effect: Effect) -> None:
        """What an incident that has been noted did to a match."""
        self._touches.append((incident_id, match_id, effect))

    async def run(self, pool: Pool) -> None:
        """Stores until cancelled."""
        while True:
            await asyncio.sleep(STORE_SECONDS)
            await self.store(pool)

    async def store(self, pool: Pool) -> None:
        """Stores what is noted now, if the database takes it."""
        incidents, touches = self._incidents[:KEPT_MAX], self._touches[:KEPT_MAX]
        if not incidents and not touches:
            return
        try:
            async with pool.acquire() as connection, connection.transaction():
                await put_incidents(connection, incidents)
                await put_touches(connection, touches)
        except (asyncpg.PostgresError, ValueError) as error:
            if not isinstance(error, TRANSIENT) or isinstance(error, ValueError):
                # Beside the game: what the database refuses is told to the log and stops nothing.
                get_logger().exception("incidents_refused", count=len(incidents))
                self._forget(incidents, touches)
                return
            self._wait(error)
        except TRANSIENT as error:
            self._wait(error)
        else:
            self._forget(incidents, touches)

    def _wait(self, error: Exception) -> None:
        get_logger().warning("incidents_not_stored", error=type(error).__name__, count=len(self._incidents))
        self._incidents = self._incidents[-KEPT_MAX:]
        self._touches = self._touches[-KEPT_MAX:]

    def _forget(self, incidents: list[Incident], touches: list[tuple[str, str, Effect]]) -> None:
        del self._incidents[: len(incidents)]
        del self._touches[: len(touches)]
