"""Matches that this process hands to others while it goes on: a few at a time, each between two turns if it can be.

A match is left, offered in the database, and taken up by whichever process comes first. Until the moment it is left it
is played here, so that no match waits for the others; one that nobody takes up is taken back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Final

from engine.clock import SECOND
from services.common.logs import get_logger
from services.game.room import Room
from services.game.rooms import Rooms
from services.storage import ownership
from services.storage.pool import TRANSIENT, Pool

MOVING_MAX: Final = 16
"""Matches between two processes at once."""
PER_SECOND: Final = 25.0
"""Matches left a second at most: what takes them up reads their logs, and its own matches feel that."""
PATIENCE_NS: Final = 10 * SECOND
"""A turn that lasts so long is not waited for any more: its player is long thinking, and loses no time by the move."""
HURRY_PATIENCE_NS: Final = 2 * SECOND
"""The same when this process is about to end."""
LOOK_SECONDS: Final = 0.25
MOVING_SECONDS: Final = 0.02
"""How often it is looked who has taken up what is on its way: players wait for that."""
ROOM_SECONDS: Final = 1.0
"""How long it is believed how much room the others have."""
TAKEN_UP_SECONDS: Final = 2.0
"""How long an offer stands."""
PAUSE_SECONDS: Final = (5.0, 10.0, 30.0, 60.0, 300.0)
"""How long nothing is offered after the first, second … offer that nobody took up: each is credit, which is limited."""


class Handover:
    """Moves the matches of this process away for as long as that is wanted."""

    def __init__(
        self,
        pool: Pool,
        rooms: Rooms,
        engine_id: str,
        wanted: Callable[[], bool],
        *,
        patience_ns: int = PATIENCE_NS,
    ) -> None:
        self._patience_ns = patience_ns
        self._per_second = PER_SECOND
        self._leaving = False
        self._pool = pool
        self._rooms = rooms
        self._engine_id = engine_id
        self._wanted = wanted
        self._moving: dict[Room, float | None] = {}
        """Rooms that are being left, and since when their matches are offered."""
        self._looked = asyncio.Event()
        self._allowed = False
        """Whether rooms may begin to leave, as they were told last."""
        self._granted = asyncio.Event()
        """A room leaves between two turns."""
        self._room = 0
        """How many matches the others would take, less what was left since that was known."""
        self._room_known_at = 0.0
        self._next_at = 0.0
        self._paused_until = 0.0
        self._spurned = 0

    async def run(self) -> None:
        """Until cancelled; trouble of the database only delays it."""
        while True:
            await self._rest()
            self._granted.clear()
            try:
                await self.step()
            except TRANSIENT as error:
                get_logger().warning("handover_waits", error=type(error).__name__)
            self._looked.set()

    async def hurry(self, seconds: float) -> None:
        """This process is about to end: moves what it can within `seconds`, as long as others are ready.

        They must know that it leaves: then they take matches up, however full they are.
        """
        rooms, loop = self._rooms, asyncio.get_running_loop()
        rooms.ending = True
        try:
            async with asyncio.timeout(seconds):
                if not rooms.live() or not await rooms.others_are_ready():
                    return
                self._patience_ns = min(self._patience_ns, HURRY_PATIENCE_NS)
                self._per_second = max(PER_SECOND, 2 * len(rooms.live()) / max(seconds, 1.0))
                self._leaving = True
                self._granted.set()
                while rooms.live() and loop.time() >= self._paused_until:
                    self._looked.clear()
                    await self._looked.wait()
        except TRANSIENT as error:
            # The time is up, too: what is left goes all at once.
            get_logger().info("handover_hurries", matches=len(rooms.live()), why=type(error).__name__)
        finally:
            self._leaving = False

    async def _rest(self) -> None:
        """Until there may be something to do: a match is offered the moment it is left."""
        tasks = [task for room in self._moving if (task := self._rooms.task_of(room)) is not None]
        leaving = [task for task in tasks if not task.done()]
        if leaving:
            await asyncio.wait(leaving, timeout=MOVING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MOVING_SECONDS if self._moving else LOOK_SECONDS):
                await self._granted.wait()

    async def step(self) -> None:
        """Leaves what may be left, offers what has been, and follows what is on its way."""
        if self._rooms.draining:
            return  # this process ends: it leaves everything, and has another way for that
        wanted = self._leaving or self._wanted()
        if wanted:
            await self._look_for_room()
        if wanted or self._allowed:
            for room in self._rooms.live():
                room.departure.may_begin = partial(self._grant, room) if wanted else None
            self._allowed = wanted
        if wanted:
            self._leave()
        await self._offer()
        await self._follow()

    async def _look_for_room(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._leaving:
            self._room = MOVING_MAX  # they take it, however full they are
        elif now - self._room_known_at >= ROOM_SECONDS:
            # What is on its way takes room that nobody knows of yet.
            elsewhere = await ownership.room_elsewhere(self._pool, self._engine_id)
            self._room = elsewhere - len(self._moving)
            self._room_known_at = now

    def _grant(self, room: Room) -> bool:
        """Whether this room may leave now."""
        now = asyncio.get_running_loop().time()
        if self._room <= 0 or len(self._moving) >= MOVING_MAX or now < max(self._next_at, self._paused_until):
            return False
        self._room -= 1
        self._next_at = now + 1 / self._per_second
        self._moving[room] = None
        self._granted.set()
        return True

    def _leave(self) -> None:
        """Rooms in which nobody's time runs, or has run for long, leave at once; the others at the end of the turn."""
        for room in self._rooms.live():
            turn_ns = room.turn_ns
            idle = turn_ns is None or turn_ns >= self._patience_ns
            if idle and not room.departure.begun and not room.story.over and not room.held:
                if not self._grant(room):
                    return
                room.leave()

    async def _offer(self) -> None:
        loop = asyncio.get_running_loop()
        ready = []
        for room, offered_at in list(self._moving.items()):
            task = self._rooms.task_of(room)
            if task is None or room.closed or room.story.over or room.held:
                # It has ended, or somebody else has it.
                del self._moving[room]
            elif offered_at is None and task.done() and room.departure.cleanly:
                ready.append(room)
        if ready:
            await ownership.hand_over(
                self._pool,
                self._engine_id,
                [(room.story.row.match_id, room.fence, room.departure.lasted_ns) for room in ready],
            )
            for room in ready:
                self._moving[room] = loop.time()

    async def _follow(self) -> None:
        offered = {
            room.story.row.match_id: (room, since)
            for room, since in self._moving.items()
            if since is not None
        }
        if not offered:
            return
        owners = await ownership.owners_of(self._pool, list(offered))
        now = asyncio.get_running_loop().time()
        overdue = []
        for match_id, (room, since) in offered.items():
            owner = owners.get(match_id)
            if owner is None or owner.engine_id != self._engine_id:
                self._spurned = 0
                self._rooms.leave_to(room, "" if owner is None else owner.address or "")
                del self._moving[room]
            elif owner.fence != room.fence:
                # Taken back, but not open yet, since the database failed: rooms see to it.
                del self._moving[room]
            elif now - since >= TAKEN_UP_SECONDS:
                overdue.append(room)
        if overdue:
            await self._take_back(overdue, now)

    async def _take_back(self, overdue: list[Room], now: float) -> None:
        """Nobody wants them: they go on here, and it takes a while until the next is offered."""
        seconds = PAUSE_SECONDS[min(self._spurned, len(PAUSE_SECONDS) - 1)]
        get_logger().warning("handover_taken_back", matches=len(overdue), pause_seconds=seconds)
        self._paused_until, self._room_known_at = now + seconds, 0.0
        self._spurned += 1
        # Somebody may have taken one up just now. Whose each is shows when it is looked for again: until then its old
        # room has streams, which must hear where the match goes on.
        await self._rooms.take_back(overdue)
