"""Game processes that operators take out of service: ordered through the leader, kept in the database, obeyed by all."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import grpc

from services.common.errors import ServiceError, try_again
from services.common.logs import get_logger
from services.matchmaking.lobby import Lobby
from services.matchmaking.placement import Engines
from services.matchmaking.wave import Wave
from services.storage import processorders
from services.storage.pool import TRANSIENT, Pool
from services.storage.processorders import Action, GameProcess, ProcessOrder

LOOK_SECONDS: Final = 0.5
"""How soon an order is noticed that another process of matchmaking has stored."""


def never_was(engine_id: str) -> ServiceError:
    """NOT_FOUND: no game process has ever had this name."""
    return ServiceError(
        grpc.StatusCode.NOT_FOUND, "GAME_PROCESS_NOT_FOUND", f"there never was a game process {engine_id}"
    )


class Drains:
    """Gives such orders, and keeps new matches away from processes that are drained. The rows decide."""

    def __init__(self, pool: Pool, engines: Engines, wave: Wave, lobby: Lobby) -> None:
        self._pool = pool
        self._engines = engines
        self._wave = wave
        self._lobby = lobby
        # Two drains at once might each count on the room of the other process.
        self._turn = asyncio.Lock()

    async def refresh(self) -> None:
        """Put into effect what is stored."""
        self._engines.drained = await processorders.drained(self._pool)

    async def run(self) -> None:
        """Follow what is stored, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            # Trouble of the database: the last known orders stay, and the next look tries again.
            with suppress(*TRANSIENT):
                async with self._turn:
                    await self.refresh()

    async def list(self, orders: int) -> tuple[list[GameProcess], list[ProcessOrder]]:
        """All game processes, and the last orders. Raises ServiceError when this process does not lead."""
        self._check_leads()
        async with self._pool.acquire() as connection:
            return (
                await processorders.game_processes(connection),
                await processorders.last_process_orders(connection, orders),
            )

    async def drain(self, engine_id: str, author: str, reason: str, *, force: bool) -> GameProcess:
        """No match is placed there any more, and it hands over what it has.

        Raises ServiceError: GAME_PROCESS_NOT_FOUND, NO_ROOM_ELSEWHERE unless `force`, TRY_AGAIN when this process does
        not lead.
        """
        async with self._turn:
            self._check_leads()
            process = await self._find(engine_id)
            if process.drained:
                # Said again, perhaps because the answer was lost.
                return process
            if not force:
                self._check_room(process)
            return await self._give(engine_id, "drain", author, reason)

    async def resume(self, engine_id: str, author: str, reason: str) -> GameProcess:
        """It takes matches again. Raises ServiceError as `drain`."""
        async with self._turn:
            self._check_leads()
            process = await self._find(engine_id)
            return await self._give(engine_id, "resume", author, reason) if process.drained else process

    async def _give(self, engine_id: str, action: Action, author: str, reason: str) -> GameProcess:
        order = await processorders.put_order(self._pool, engine_id, action, author, reason)
        get_logger().info(
            "game_process_ordered",
            order_no=order.order_no,
            engine_id=engine_id,
            action=action,
            author=author,
            reason=reason,
        )
        await self.refresh()
        # Matches in the making may have been meant for it: they are made now.
        async with self._wave.still():
            pass
        return await self._find(engine_id)

    async def _find(self, engine_id: str) -> GameProcess:
        for process in await processorders.game_processes(self._pool):
            if process.engine_id == engine_id:
                return process
        raise never_was(engine_id)

    def _check_room(self, process: GameProcess) -> None:
        processes, room = self._engines.room_besides(process.engine_id)
        if processes and room >= process.live_matches:
            return
        raise ServiceError(
            grpc.StatusCode.FAILED_PRECONDITION,
            "NO_ROOM_ELSEWHERE",
            f"{process.engine_id} has {process.live_matches} live matches, and the {processes} other game processes"
            f" that take matches have room for {room}",
            metadata={"matches": str(process.live_matches), "room": str(room)},
        )

    def _check_leads(self) -> None:
        if not self._lobby.is_open:
            raise try_again("this process does not lead; try again", 0.5)
