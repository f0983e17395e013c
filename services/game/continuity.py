"""Matches on a database that may have forgotten: after each change of the server, what was told is compared with what is
stored, before anything more is written.

What is missing and still in memory is put back (`services/storage/mending.py`). A match of which something is gone for
good is void at what is left of it, since nobody may lose to a memory that players have and the service has not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Final, TypeVar

from services.common.logs import get_logger
from services.game.room import Room
from services.game.shell import Shell
from services.game.story import Story
from services.storage import matches
from services.storage.journal import FencedError
from services.storage.mending import State
from services.storage.pool import TRANSIENT, Pool

ASK_AGAIN_SECONDS: Final = 0.25

T = TypeVar("T")


async def _patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer of the database, however long it takes."""
    while True:
        try:
            return await ask()
        except TRANSIENT:
            await asyncio.sleep(ASK_AGAIN_SECONDS)


class Continuity:
    """Looks after the logs of the matches in `rooms`, which it may replace."""

    def __init__(self, pool: Pool, shell: Shell, rooms: MutableMapping[str, Room]) -> None:
        self._pool = pool
        self._shell = shell
        self._rooms = rooms
        self._doubtful: set[str] = set()
        self._wake = asyncio.Event()

    def doubt(self) -> None:
        """Another server than before has answered: every match is looked at."""
        self._doubtful |= {*self._rooms, *self._shell.journal.kept}
        self._wake.set()

    async def run(self) -> None:
        """Looks until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            get_logger().warning("database_changed", matches=len(self._doubtful))
            for match_id in sorted(self._doubtful):
                try:
                    await self._look(match_id)
                except Exception:  # noqa: BLE001 - a bug that meets one match must not stop the others
                    get_logger().exception("log_not_compared", match_id=match_id)

    async def before_opening(self, match_id: str, fence: int) -> str | None:
        """Makes the log of a match whole that goes on here; what is missing of it for good, if anything is."""
        if match_id not in self._doubtful:
            return None
        found = await self._shell.journal.mend(match_id, fence)
        self._doubtful.discard(match_id)
        return found.why if found.state is State.LOST else None

    async def _look(self, match_id: str) -> None:
        room = self._rooms.get(match_id)
        journal = self._shell.journal
        if room is None:
            found = await _patiently(lambda: journal.mend(match_id))
        else:
            fence, revision = room.fence, room.story.revision
            found = await _patiently(lambda: journal.mend(match_id, fence, revision))
        if self._rooms.get(match_id) is not room:
            return  # opened or replaced meanwhile, and looked at then
        if found.state is not State.OTHERS:
            self._doubtful.discard(match_id)
        elif found.why:
            get_logger().error("log_passed_by", match_id=match_id, why=found.why)
            self._shell.gaps.log_passed_by(match_id, found.why)
        if found.state is State.LOST and room is not None and room.lost is None:
            if room.story.over:
                await self.void(room, found.why)
            else:
                room.lose_log(found.why)

    async def void(self, room: Room, why: str) -> Room:
        """Voids a match of which something is lost for good, at what is left of its log. What is played there instead.

        Until then whoever asks is told that the match is held.
        """
        match_id, told = room.story.row.match_id, room.story.revision
        story = await _patiently(lambda: self._left_of(room))
        left = Room(story, room.fence, self._shell)
        left.held = not story.over
        self._shell.journal.forget(match_id)
        self._rooms[match_id] = left
        room.held = False
        room.part(self._shell.incarnation.address)
        if left.held:
            try:
                await left.void_lost(why, told)
            except FencedError:
                get_logger().warning("fenced", match_id=match_id, fence=room.fence)
                left.held = False
            except Exception:  # noqa: BLE001 - it stays held; operators have the log
                get_logger().exception("room_not_voided", match_id=match_id, revision=told)
                return left
        if not left.story.over:
            left.part()
        return left

    async def _left_of(self, room: Room) -> Story:
        """What the database still has of a match; what was told where that makes no sense."""
        match_id = room.story.row.match_id
        row = await matches.get_match(self._pool, match_id)
        if row is None:
            return room.story
        log = await matches.get_log(self._pool, match_id)
        try:
            return Story.from_log(row, log)
        except Exception:  # noqa: BLE001 - a log with a hole in the middle may fail in any way
            return room.story
