"""The rooms of this process: found, opened, adopted, left; finished matches are read back from the database."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, Final

import grpc

from engine.clock import SECOND
from services.common.errors import ServiceError, try_again
from services.common.logs import get_logger
from services.game import limits
from services.game.continuity import Continuity
from services.game.created import Created
from services.game.metrics import HELD
from services.game.openings import Openings
from services.game.resumption import Resumed
from services.game.room import Room
from services.game.shell import Shell
from services.game.shuffle import Seeds
from services.game.story import Story
from services.storage import matches, ownership
from services.storage.incidents import Effect, Incident, Kind, Touched, open_turns, put_touched
from services.storage.ownership import TakenUp
from services.storage.pool import TRANSIENT, Connection, Pool

FINISHED_MAX: Final = 256
"""Finished matches kept in memory for late readers."""
OPENED_AT_ONCE: Final = 32
SUCCESSOR_SECONDS: Final = 0.05
"""How often a leaving process looks who has taken up its matches."""


def match_not_found() -> ServiceError:
    """NOT_FOUND."""
    return ServiceError(grpc.StatusCode.NOT_FOUND, "MATCH_NOT_FOUND", "there is no such match")


class Rooms:
    """All live matches of this process."""

    def __init__(
        self,
        pool: Pool,
        shell: Shell,
        tasks: asyncio.TaskGroup,
        linger_seconds: float,
        *,
        capacity: int = 100_000,
        created_max: int = 100_000,
    ) -> None:
        self._pool = pool
        self._shell = shell
        self._tasks = tasks
        self._linger_seconds = linger_seconds
        self._capacity = capacity
        self._created = Created(created_max)
        self._rooms: dict[str, Room] = {}
        self._room_tasks: dict[str, asyncio.Task[None]] = {}
        self._opening: dict[str, asyncio.Task[Room | None]] = {}
        self._openings = Openings(pool)
        self.continuity = Continuity(pool, shell, self._rooms)
        self._finished: OrderedDict[str, Story] = OrderedDict()
        self._resumed: dict[tuple[str, int], Resumed] = {}
        """Why matches go on here that are not open yet, by match and fence: a player may ask for one first."""
        self._left_over: set[str] = set()
        """Which of those nobody may have opened yet."""
        self.draining = False
        self.ending = False
        """Whether this process is about to leave all its matches; until it does they are played here."""
        self.in_service = True
        """Whether operators let matches begin here."""
        shell.metrics.live.counts = self._phases
        self._fences_known = False
        """Whether what this engine owns is owned by this life of it. Until then its matches are opened by nobody."""

    def __len__(self) -> int:
        return len(self._room_tasks)

    @property
    def takes_new(self) -> bool:
        """Whether matches may begin here."""
        return self._fences_known and self.in_service and not self.ending and not self.draining

    def creating(self, player_id: str) -> AbstractContextManager[bool]:
        """A match is made for a player who asks for it; whether there is room for it."""
        return self._created.making(player_id, self._capacity - len(self))

    def live(self) -> list[Room]:
        """The rooms that are played in now."""
        return [room for room in self._rooms.values() if not room.closed]

    def _phases(self) -> Counter[str]:
        """How many matches there are in each phase; those held by a fault of ours are in none."""
        # Asked from the thread of the metrics page: what is a list already does not change under it.
        rooms = list(self._rooms.values())
        return Counter(
            HELD if room.held else room.story.state.phase.value
            for room in rooms
            if room.held or not room.closed
        )

    def at_hand(self, match_id: str) -> Room | Story | None:
        """What `find` finds without asking the database."""
        room = self._rooms.get(match_id)
        if room is not None and (not room.closed or room.held or room.story.over):
            return room
        finished = self._finished.get(match_id)
        if finished is not None:
            self._finished.move_to_end(match_id)
        return finished

    async def find(self, match_id: str) -> Room | Story:
        """The room of a live match, or the story of a finished one.

        Raises ServiceError: MATCH_NOT_FOUND, or WRONG_ADDRESS when another process owns the match.
        """
        known = self.at_hand(match_id)
        return await self._find_stored(match_id) if known is None else known

    async def _find_stored(self, match_id: str) -> Room | Story:
        owner = await ownership.get_owner(self._pool, match_id)
        if owner is None:
            return await self._read_finished(match_id)
        if owner.engine_id != self._shell.incarnation.engine_id:
            raise ServiceError(
                grpc.StatusCode.FAILED_PRECONDITION,
                "WRONG_ADDRESS",
                "another process plays this match",
                metadata={"address": owner.address or ""},
            )
        if not self._fences_known:
            # A room under the fence of before would contradict what the clock remembers of it.
            raise try_again("the match is being taken up again")
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
            if not isinstance(error, TRANSIENT):
                # Trying again by ourselves would fail again; whoever asks for it hears so.
                self._left_over.discard(match_id)

    async def _open(self, match_id: str, fence: int) -> Room | None:
        lost = await self.continuity.before_opening(match_id, fence)
        stored = await self._openings.of(match_id)
        if stored is None:
            raise match_not_found()
        row, seeds = stored.row, Seeds(match_id, stored.seed)
        story = Story.from_log(row, stored.log, seeds)
        number = story.state.round_no + 1
        if story.announced not in (None, seeds.commitment(number)):
            # The database has forgotten it. The record will show that the deal does not follow from what was announced.
            get_logger().error("seed_lost", match_id=match_id, round_no=number)
        since_ns = 0
        if limits.limit_ns(row, story.state) is not None:
            since_ns = (stored.read_at - story.phase_since) // timedelta(microseconds=1) * 1000
        resumed = self._resumed.pop((match_id, fence), None)
        if resumed is not None:
            resumed = resumed.waited(since_ns)
        if story.over or self.draining:
            return None
        older = self._rooms.get(match_id)
        if older is not None:
            # The same match under an older fence: whatever it still does comes to nothing.
            older.part(self._shell.incarnation.address)
            self._room_tasks[match_id].cancel()
        room = Room(story, fence, self._shell, resumed)
        if lost is not None:
            room.lose_log(lost)
        self._rooms[match_id] = room
        if resumed is not None and resumed.left_at is not None:
            self._shell.metrics.handoff_pause.observe(asyncio.get_running_loop().time() - resumed.left_at)
        task = self._tasks.create_task(self._play(room), name=f"room {match_id}")
        self._room_tasks[match_id] = task
        if row.asked_for:
            self._created.count(row.created_by, task)
        return room

    async def _play(self, room: Room) -> None:
        match_id = room.story.row.match_id
        try:
            await room.run()
            if room.lost is not None:
                room = await self.continuity.void(room, room.lost)
            elif room.held:
                # Whoever asks is told so, until the match is void.
                await room.give_up()
            if room.story.over:
                self._keep_finished(room.story)
                await asyncio.sleep(self._linger_seconds)
        finally:
            if self._rooms.get(match_id) is room and not room.departure.cleanly:
                del self._rooms[match_id]
                del self._room_tasks[match_id]
                if room.story.over:
                    self._shell.journal.forget(match_id)

    # Matches that change hands.

    async def take_up_own(self, gap_ns: int) -> int:
        """Goes on with what an earlier incarnation owned, `gap_ns` after its last proof of life. How many matches."""
        engine_id = self._shell.incarnation.engine_id
        taken = await self._take(lambda connection: ownership.take_up_own(connection, engine_id, gap_ns))
        self._fences_known = True
        await self._resume(taken)
        return len(taken)

    async def take_up_orphans(self, room: int | None = None) -> int:
        """Goes on with matches whose owner is gone or has handed them over. How many.

        `room` is how many may come from processes that could go on with them; None for any number. What nobody else
        plays comes all the same.
        """
        limit = min(ownership.TAKE_UP_LIMIT, room or ownership.TAKE_UP_LIMIT)
        engine_id, asked = self._shell.incarnation.engine_id, asyncio.get_running_loop().time()
        if not await ownership.are_left(self._pool, engine_id, room=room != 0):
            return 0
        taken = await self._take(
            lambda connection: ownership.take_up_orphans(connection, engine_id, limit, room=room != 0), asked
        )
        await self._resume(taken)
        return len(taken)

    async def others_are_ready(self) -> bool:
        """Whether another process would take matches up."""
        address = await ownership.ready_elsewhere(self._pool, self._shell.incarnation.engine_id)
        return address is not None

    async def open_left_over(self) -> None:
        """Opens what was taken up and is not open: the database failed, or did not say that it was ours.

        Nobody may ever ask for such a match, and its time must run all the same.
        """
        fences = {match_id: fence for match_id, fence in self._resumed if match_id in self._left_over}
        self._left_over &= fences.keys()
        if not fences:
            return
        owners = await ownership.owners_of(self._pool, list(fences))
        for match_id, fence in fences.items():
            owner = owners.get(match_id)
            if owner is None or (owner.engine_id, owner.fence) != (self._shell.incarnation.engine_id, fence):
                self._left_over.discard(match_id)
                # A player may have asked for it meanwhile, just before it was lost.
                self._resumed.pop((match_id, fence), None)
        # Others may have come meanwhile, which were not looked for.
        await self._open_all(
            [(match_id, fences[match_id]) for match_id in sorted(self._left_over & fences.keys())]
        )

    async def _take(
        self, take: Callable[[Connection], Awaitable[list[TakenUp]]], asked: float | None = None
    ) -> list[TakenUp]:
        """Makes matches this engine's, and stores why, in one transaction."""
        taken: list[TakenUp] = []
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                taken = await take(connection)
                await self._record(connection, taken, asked)
        finally:
            # No sooner: until the transaction is over, whoever looks finds the owner of before. However it ended: of a
            # commit that was not acknowledged nobody knows whether it is stored.
            self._left_over.update(match.match_id for match in taken)
        return taken

    async def _record(self, connection: Connection, taken: list[TakenUp], asked: float | None = None) -> None:
        """One incident for each owner that is gone, stored with the new ownership."""
        if not taken:
            return
        incidents: dict[tuple[str, bool], Incident] = {}
        for match in taken:
            key = (match.from_engine, match.planned)
            if key not in incidents:
                incidents[key] = self._incident(match)
        turns = await open_turns(connection, [match.match_id for match in taken])
        touches = []
        for match in taken:
            incident = incidents[match.from_engine, match.planned]
            touches.append((match.match_id, Touched(incident, Effect.CONTINUED)))
            # Before the commit: from then on, whoever asks for the match has it opened.
            turn = turns[match.match_id]
            # What passed before its newest ruling was no outage of the turn that is open now.
            gap_ns = min(match.gap_ns, turn.age_ns)
            left_at = None if asked is None or not match.planned else asked - match.gap_ns / SECOND
            self._resumed[match.match_id, match.fence] = Resumed(gap_ns, incident, turn.outages, left_at)
        # All at once: one match after another is what makes taking up hundreds slow.
        await put_touched(connection, touches)

    def _incident(self, match: TakenUp) -> Incident:
        incarnation = self._shell.incarnation
        return Incident.lasting(
            Kind.HANDOFF if match.planned else Kind.TAKEOVER,
            f"game/{incarnation.engine_id}",
            match.gap_ns,
            self._shell.policy.version,
            ended_at=match.at,
            engine_id=match.from_engine,
            reason=f"taken up by {incarnation.engine_id}",
            detail=json.dumps({"incarnation": incarnation.name, "gap_ns": match.gap_ns}),
        )

    async def _resume(self, taken: list[TakenUp]) -> None:
        for match in taken:
            kind = "handoff" if match.planned else "takeover"
            self._shell.metrics.taken_up.labels(kind).inc()
        await self._open_all([(match.match_id, match.fence) for match in taken])
        if taken:
            get_logger().info("matches_taken_up", matches=len(taken))

    async def _open_all(self, owned: Sequence[tuple[str, int]]) -> None:
        # One at a time would be slow; those that are opened at once are read by the same statements.
        for first in range(0, len(owned), OPENED_AT_ONCE):
            await asyncio.gather(
                *(self.open(match_id, fence) for match_id, fence in owned[first : first + OPENED_AT_ONCE]),
                # Each is logged; it stays owned, and is tried again.
                return_exceptions=True,
            )

    async def check_fences(self) -> None:
        """Leaves every match that somebody else has taken up meanwhile."""
        rooms = {match_id: room for match_id, room in self._rooms.items() if not room.closed}
        owners = await ownership.owners_of(self._pool, list(rooms))
        for match_id, room in rooms.items():
            if self._rooms.get(match_id) is not room:
                continue  # it has ended meanwhile, by a write that was refused for example
            owner = owners.get(match_id)
            mine = owner is not None and owner.engine_id == self._shell.incarnation.engine_id
            if owner is not None and not (mine and owner.fence == room.fence):
                get_logger().warning("fenced", match_id=match_id, fence=room.fence, now=owner.fence)
                room.part("" if mine else owner.address or "")
                self._room_tasks[match_id].cancel()

    async def suspend(self) -> None:
        """Ends all rooms and their streams: this process cannot prove any more that it owns them."""
        self._fences_known = False
        for room in self._rooms.values():
            room.part()
        await self._end_all()

    def task_of(self, room: Room) -> asyncio.Task[None] | None:
        """What plays this room; None when it is none of this process any more."""
        match_id = room.story.row.match_id
        return self._room_tasks[match_id] if self._rooms.get(match_id) is room else None

    def leave_to(self, room: Room, successor: str) -> None:
        """Forgets a room that another process has taken up, and tells its players where."""
        room.part(successor)
        match_id = room.story.row.match_id
        if self._rooms.get(match_id) is room:
            del self._rooms[match_id]
            del self._room_tasks[match_id]

    async def take_back(self, offered: Sequence[Room]) -> None:
        """Goes on with what was offered to others, where none of them has taken it up."""
        owned = [(room.story.row.match_id, room.fence) for room in offered]
        engine_id, asked = self._shell.incarnation.engine_id, asyncio.get_running_loop().time()
        taken = await self._take(lambda connection: ownership.take_back(connection, engine_id, owned), asked)
        await self._resume(taken)

    async def hand_over(self, seconds: float) -> None:
        """Leaves all matches at their next boundary and offers them to the other game processes, for `seconds`.

        Players are told where it goes on, when somebody has taken their match up in time.
        """
        self.draining = True
        for room in self._rooms.values():
            room.leave()
        tasks = [task for match_id, task in self._room_tasks.items() if not self._rooms[match_id].story.over]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        left = {
            match_id: room
            for match_id, room in self._rooms.items()
            if room.departure.cleanly and not room.story.over
        }
        try:
            async with asyncio.timeout(seconds):
                await self._offer(left)
        except TRANSIENT as error:
            # Their owner is gone soon; they are taken up when its lease has run out.
            get_logger().warning("handover_failed", error=type(error).__name__, matches=len(left))
        for room in self._rooms.values():
            room.part(room.departure.successor)
        await self._end_all()

    async def _offer(self, left: dict[str, Room]) -> None:
        engine_id = self._shell.incarnation.engine_id
        await ownership.hand_over(
            self._pool,
            engine_id,
            [(match_id, room.fence, room.departure.lasted_ns) for match_id, room in left.items()],
        )
        waiting = dict(left) if await ownership.others_alive(self._pool, engine_id) else {}
        while waiting:
            for match_id, owner in (await ownership.owners_of(self._pool, list(waiting))).items():
                if owner.engine_id != engine_id:
                    waiting.pop(match_id).part(owner.address or "")
            if waiting:
                await asyncio.sleep(SUCCESSOR_SECONDS)

    async def _end_all(self) -> None:
        tasks: list[asyncio.Task[Any]] = [*self._opening.values(), *self._room_tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._rooms.clear()
        self._room_tasks.clear()
