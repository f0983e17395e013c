"""Custody: which matches this process answers for, and when it must stop doing so."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from services.common.logs import get_logger
from services.game.ownership import Lease
from services.game.rooms import Rooms
from services.storage import ownership
from services.storage.pool import TRANSIENT, Pool

LOOK_SECONDS: Final = 0.25
LISTEN_AGAIN_SECONDS: Final = 1.0


class Custody:
    """Takes up what others left, and lets go of what cannot be proven to be ours."""

    def __init__(
        self, lease: Lease, rooms: Rooms, able: Callable[[], bool], capacity: int | None = None
    ) -> None:
        """`able` says whether this process could play more matches now, `capacity` how many others may hand to it."""
        self._lease = lease
        self._rooms = rooms
        self._able = able
        self._capacity = capacity
        self._offered = asyncio.Event()
        self.begun = False
        """Whether the matches of the last incarnation go on."""

    @property
    def ready(self) -> bool:
        """Whether it takes up what others hand over."""
        return self.begun and self._lease.fresh and self._rooms.in_service and self._able()

    def wake(self) -> None:
        """Something was offered: looks at once."""
        self._offered.set()

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
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._offered.wait()
            self._offered.clear()
            try:
                await self._look()
            except TRANSIENT as error:
                get_logger().warning("custody_waits", error=type(error).__name__)

    async def listen(self, pool: Pool) -> None:
        """Hears of offers at once, on a connection of its own; without it they are found all the same. Until cancelled."""
        while True:
            with contextlib.suppress(*TRANSIENT):
                await ownership.hear_offers(pool, self.wake)
            await asyncio.sleep(LISTEN_AGAIN_SECONDS)

    async def _look(self) -> None:
        if self._lease.hopeless:
            await self._come_back()
            return
        if self._lease.lapsed:
            lapses = self._lease.lapses
            await self._rooms.check_fences()
            self._lease.looked(lapses)
        await self._lease.say_standing()
        if self._lease.fresh and self._able():
            await self._rooms.open_left_over()
            if not self._rooms.in_service and await self._rooms.others_are_ready():
                return
            # What nobody else would play is better off in a process that should have none.
            while await self._rooms.take_up_orphans(self._room()):
                pass

    def _room(self) -> int | None:
        """How many matches this process takes that others could go on with."""
        if not self._rooms.in_service:
            return 0
        return None if self._capacity is None else max(0, self._capacity - len(self._rooms))

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
