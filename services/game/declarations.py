"""What operators declare, brought to the matches it voids."""

from __future__ import annotations

import asyncio
from typing import Final

from services.common.errors import ServiceError
from services.common.logs import get_logger
from services.game.room import Room
from services.game.rooms import Rooms
from services.storage.declarations import void_by_declaration
from services.storage.pool import TRANSIENT, Pool

LOOK_SECONDS: Final = 1.0


class Declarations:
    """Looks for them about once a second. A match that is over is never touched."""

    def __init__(self, pool: Pool, rooms: Rooms, engine_id: str) -> None:
        self._pool = pool
        self._rooms = rooms
        self._engine_id = engine_id

    async def run(self) -> None:
        """Until cancelled; trouble of the database only delays it."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._look()
            except TRANSIENT as error:
                get_logger().warning("declarations_wait", error=type(error).__name__)

    async def _look(self) -> None:
        for match_id, incident in await void_by_declaration(self._pool, self._engine_id):
            try:
                room = await self._rooms.find(match_id)
            except ServiceError:
                continue  # it is being moved; whoever plays it next looks too
            if isinstance(room, Room):
                room.declare(incident)
