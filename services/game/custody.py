"""Custody: which matches this process answers for, and when it must stop doing so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from services.common.logs import get_logger
from services.game.ownership import Lease
from services.game.rooms import Rooms
from services.storage.pool import TRANSIENT

LOOK_SECONDS: Final = 0.25


class Custody:
    """Takes up what others left, and lets go of what cannot be proven to be ours."""

    def __init__(self, lease: Lease, rooms: Rooms, able: Callable[[], bool]) -> None:
        """`able` says whether this process could play more matches now."""
        self._lease = lease
        self._rooms = rooms
        self._able = able
        self.begun = False
        """Whether the matches of the last incarnation go on."""

    async def begin(self) -> None:
        """Takes the lease and goes on with the matches of the last incarnation, as soon as the database lets it."""
        loop = asyncio.get_running_loop()
        gap_ns: int | None = None
        since = loop.time()
        while True:
            try:
                if gap_ns is None:
                    gap_ns = await self._lease.begin()
                    since = loop.time()
                await self._rooms.take_up_own(gap_ns + int((loop.time() - since) * 1e9))
            except TRANSIENT as error:
                get_logger().warning("custody_waits", error=type(error).__name__)
                await asyncio.sleep(LOOK_SECONDS)
            else:
                self.begun = True
                return

    async def run(self) -> None:
        """Begins, and looks now and then. Until cancelled, or another incarnation of this process has begun."""
        if not self.begun:
            await self.begin()
        while not self._lease.lost.is_set():
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._look()
            except TRANSIENT as error:
                get_logger().warning("custody_waits", error=type(error).__name__)

    async def _look(self) -> None:
        if self._lease.hopeless:
            await self._come_back()
            return
        if self._lease.lapsed:
            lapses = self._lease.lapses
            await self._rooms.check_fences()
            self._lease.looked(lapses)
        if self._lease.fresh and self._able():
            await self._rooms.open_left_over()
            while await self._rooms.take_up_orphans():
                pass

    async def _come_back(self) -> None:
        """Too long without the database: nobody is listened to until ownership is certain again."""
        get_logger().error("custody_suspended", matches=len(self._rooms))
        self._lease.give_up()
        await self._rooms.suspend()
        loop = asyncio.get_running_loop()
        since = loop.time()
        while not self._lease.lost.is_set():
            try:
                await self._lease.begin()
                await self._rooms.take_up_own(int((loop.time() - since) * 1e9))
            except TRANSIENT:
                await asyncio.sleep(LOOK_SECONDS)
            else:
                get_logger().info("custody_resumed", matches=len(self._rooms))
                return
