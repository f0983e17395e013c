"""The rooms of this process: found, opened, adopted, left; finished matches are read back from the database."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable
from typing import Any, Final

import grpc

from services.common.errors import ServiceError, try_again
from services.common.logs import get_logger
from services.game.room import Room
from services.game.shell import Shell
from services.game.story import Story
from services.storage import matches
from services.storage.pool import Pool

FINISHED_MAX: Final = 256
"""Finished matches kept in memory for late readers."""


def match_not_found() -> ServiceError:
    """NOT_FOUND."""
    return ServiceError(grpc.StatusCode.NOT_FOUND, "MATCH_NOT_FOUND", "there is no such match")


class Rooms:
    """All live matches of this process."""

    def __init__(self, pool: Pool, shell: Shell, tasks: asyncio.TaskGroup, linger_seconds: float) -> None:
        self._pool = pool
        self._shell = shell
        self._tasks = tasks
        self._linger_seconds = linger_seconds
        self._rooms: dict[str, Room] = {}
        self._room_tasks: dict[str, asyncio.Task[None]] = {}
        self._opening: dict[str, asyncio.Task[Room | None]] = {}
        self._finished: OrderedDict[str, Story] = OrderedDict()
        self.draining = False

    def __len__(self) -> int:
        return len(self._room_tasks)

    async def find(self, match_id: str) -> Room | Story:
        """The room of a live match, or the story of a finished one.

        Raises ServiceError: MATCH_NOT_FOUND, or WRONG_ADDRESS when another process owns the match.
        """
        room = self._rooms.get(match_id)
        if room is not None and (not room.closed or room.held or room.story.over):
            return room
        finished = self._finished.get(match_id)
        if finished is not None:
            self._finished.move_to_end(match_id)
            return finished
        return await self._find_stored(match_id)

    async def _find_stored(self, match_id: str) -> Room | Story:
        owner = await matches.get_owner(self._pool, match_id)
        if owner is None:
            return await self._read_finished(match_id)
        if owner.engine_id != self._shell.incarnation.engine_id:
            raise ServiceError(
                grpc.StatusCode.FAILED_PRECONDITION,
                "WRONG_ADDRESS",
                "another process plays this match",
                metadata={"address": owner.address or ""},
            )
        room = await self.open(match_id, owner.fence)
        if room is None:
            raise try_again("the match is being moved")
        return room

    async def _read_finished(self, match_id: str) -> Story:
        row = await matches.get_match(self._pool, match_id)
        if row is None:
            raise match_not_found()
        story = Story.from_log(row, await matches.get_log(self._pool, match_id))
        if not story.over:
            raise try_again("the match is being moved")
        self._keep_finished(story)
        return story

    def _keep_finished(self, story: Story) -> None:
        self._finished[story.row.match_id] = story
        while len(self._finished) > FINISHED_MAX:
            self._finished.popitem(last=False)

    async def open(self, match_id: str, fence: int) -> Room | None:
        """Loads a match this process owns and plays on; None while draining. The same match is opened once."""
        known = self._rooms.get(match_id)
        if known is not None and known.fence >= fence and not known.closed:
            return known
        if self.draining:
            return None
        opening = self._opening.get(match_id)
        if opening is None:
            # Not of the task group: what goes wrong here is the callers' to hear, and nobody else's.
            opening = asyncio.create_task(self._open(match_id, fence), name=f"open {match_id}")
            self._opening[match_id] = opening
            opening.add_done_callback(lambda task: self._opened(match_id, task))
        return await asyncio.shield(opening)

    def _opened(self, match_id: str, opening: asyncio.Task[Room | None]) -> None:
        self._opening.pop(match_id, None)
        if not opening.cancelled() and (error := opening.exception()) is not None:
            get_logger().warning("open_failed", match_id=match_id, error=repr(error))

    async def _open(self, match_id: str, fence: int) -> Room | None:
        row = await matches.get_match(self._pool, match_id)
        if row is None:
            raise match_not_found()
        story = Story.from_log(row, await matches.get_log(self._pool, match_id))
        if story.over or self.draining:
            return None
        room = Room(story, fence, self._shell)
        self._rooms[match_id] = room
        task = self._tasks.create_task(self._play(room), name=f"room {match_id}")
        self._room_tasks[match_id] = task
        return room

    async def _play(self, room: Room) -> None:
        match_id = room.story.row.match_id
        try:
            await room.run()
            if room.held:
                # Whoever asks is told so, until the match is void.
                await room.give_up()
            if room.story.over:
                self._keep_finished(room.story)
                await asyncio.sleep(self._linger_seconds)
        finally:
            if self._rooms.get(match_id) is room:
                del self._rooms[match_id]
            self._room_tasks.pop(match_id, None)

    async def adopt_own(self) -> int:
        """Takes up the matches an earlier incarnation of this process owned. Returns how many."""
        owned = await matches.take_over_own(self._pool, self._shell.incarnation.engine_id)
        rooms: list[Awaitable[Room | None]] = [self.open(match_id, fence) for match_id, fence in owned]
        # One at a time would be slow, all at once would take every connection of the pool.
        for first in range(0, len(rooms), 16):
            for result in await asyncio.gather(*rooms[first : first + 16], return_exceptions=True):
                if isinstance(result, BaseException):
                    get_logger().error("adoption_failed", error=repr(result))
        if owned:
            get_logger().info("adopted", matches=len(owned))
        return len(owned)

    async def leave_all(self) -> None:
        """Stops all rooms; what is committed stays, what is not was never told."""
        self.draining = True
        tasks: list[asyncio.Task[Any]] = [*self._opening.values(), *self._room_tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
