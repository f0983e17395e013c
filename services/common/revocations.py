"""Which tokens were revoked, as the database says, followed by every process that checks tokens."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import asyncpg

from services.common.errors import try_again
from services.common.logs import get_logger
from services.storage.pool import TRANSIENT
from services.storage.revocations import Revocation


class Revocations:
    """By player, the moment from which tokens count. While the database does not answer, what was known last holds."""

    def __init__(self, after: Callable[[int], Awaitable[list[Revocation]]]) -> None:
        """`after` asks for the revocations with a higher number."""
        self._after = after
        self._number = 0
        self._since: dict[str, int] = {}
        self._known = False
        self._silent = False

    def cover(self, player_id: str, issued: int) -> bool:
        """Whether a token of this player that was issued then (seconds since 1970) is revoked.

        Raises ServiceError (TRY_AGAIN) while nothing is known yet.
        """
        if not self._known:
            raise try_again("it is not known yet which tokens were revoked; try again", 0.5)
        since = self._since.get(player_id)
        return since is not None and issued < since

    async def look(self) -> bool:
        """Takes over what is new; whether there was anything."""
        try:
            found = await self._after(self._number)
        except (*TRANSIENT, asyncpg.PostgresError) as error:
            if not self._silent:
                self._silent = True
                get_logger().warning("revocations_unknown", error=type(error).__name__)
            return False
        self._silent, self._known = False, True
        for revocation in found:
            # Tokens say whole seconds: what was issued in the second of the revocation is revoked too.
            since = math.floor(revocation.at.timestamp()) + 1
            self._since[revocation.player_id] = max(since, self._since.get(revocation.player_id, 0))
            self._number = revocation.revocation_no
        if found:
            get_logger().info("tokens_revoked", players=len({each.player_id for each in found}))
        return bool(found)
