"""Tells the players at every table of a pause that was not charged, without making the next one."""

from __future__ import annotations

import asyncio
from typing import Final

from engine.clock import MILLISECOND
from services.game.livetime import LiveTime
from services.game.rooms import Rooms

LOOK_SECONDS: Final = 0.25
TOLD_NS: Final = 500 * MILLISECOND
"""Shorter pauses change no countdown that anybody could read; they are told with the next question."""
STEP_NS: Final = TOLD_NS // 2
"""Half of it, so that a decision that began between two tellings is told in time, too."""
AT_ONCE: Final = 32
"""Tables told in one turn of the loop: telling all of them at once would be a pause, too."""
BETWEEN_SECONDS: Final = 0.01
LOOKED_AT_ONCE: Final = 128
"""Tables looked at in one turn of the loop: what is credited takes some 30 us to find out, so that a look at 10,000 tables
would be a third of a second in which nobody is heard, and the next pause that is to be told."""


class Pauses:
    """Puts the questions of all tables anew when their time has stood still."""

    def __init__(self, livetime: LiveTime, rooms: Rooms) -> None:
        self._livetime = livetime
        self._rooms = rooms
        self._told_ns = livetime.gap_total_ns

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Tells of what has come since the last time, if it is enough, and where it was: not at tables whose decision has
        begun since. In a process that is too busy that is most of them, and telling them all would keep it so."""
        total_ns = self._livetime.gap_total_ns
        if total_ns - self._told_ns < STEP_NS:
            return
        self._told_ns = total_ns
        told = 0
        for looked, room in enumerate(self._rooms.live(), 1):
            left = room.left()
            if left is not None and left.credited_ns >= STEP_NS:
                room.listeners.announce()
                told += 1
                if told % AT_ONCE == 0:
                    await asyncio.sleep(BETWEEN_SECONDS)
            if looked % LOOKED_AT_ONCE == 0:
                await asyncio.sleep(0)
