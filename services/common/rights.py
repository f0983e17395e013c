"""Whether a service may do in the database what it must, and no more: looked at until it is so."""

from __future__ import annotations

import time
from typing import Final

from services.common.logs import get_logger
from services.storage.pool import Connection, Pool
from services.storage.privileges import difference

LOOK_SECONDS: Final = 1.0
SHOWN_MAX: Final = 12
"""Of what is missing or too much so many are named; the others are counted."""


class Rights:
    """What one process may do. A grant that comes later counts within a second; one that goes later is not noticed."""

    def __init__(self, role: str, *, strict: bool) -> None:
        """`strict`: more than it needs is wrong too, as in production."""
        self.sufficient = False
        """It has what it needs, and no more where that is wrong."""
        self._role = role
        self._strict = strict
        self._due = float("-inf")
        self._told: object = None

    async def look(self, connection: Connection | Pool) -> None:
        """Asks the database, once a second at most and not any more when all is well."""
        now = time.monotonic()
        if self.sufficient or now < self._due:
            return
        self._due = now + LOOK_SECONDS
        found = await difference(connection, self._role)
        self.sufficient = not found.missing and not (self._strict and found.more)
        if found != self._told and (found.missing or found.more):
            missing, more = _few(found.missing), _few(found.more)
            get_logger().warning("database_rights", role=self._role, missing=missing, more=more)
        self._told = found


def _few(phrases: tuple[str, ...]) -> list[str]:
    left = len(phrases) - SHOWN_MAX
    return [*phrases[:SHOWN_MAX], *([f"and {left} others"] if left > 0 else [])]
