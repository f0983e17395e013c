"""Matches on a database that has forgotten what it acknowledged, one process at a time on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg
from prometheus_client import CollectorRegistry

from engine.command import Start
from engine.seats import NORTH, SOUTH, Seat
from services.common.tracing import NoTracer
from services.game.answers import Answered
from services.game.asked import Asked
from services.game.course import Answer, Courses
from services.game.metrics import CommandMetrics
from services.game.room import Room
from services.game.rooms import Rooms
from services.game.shell import Shell
from services.storage.declarations import void_by_declaration
from services.storage.incidents import Kind
from services.storage.pool import Pool
from tests.seats import eventually
from tests.services.game.test_rooms import orphans, shell


@dataclass
class Process:
    """A game process without its servers: rooms, and a journal that writes."""

    pool: Pool
    rooms: Rooms
    shell: Shell

    async def room(self, match_id: str) -> Room:
        """The room of a match that is played here."""
        room = await self.rooms.find(match_id)
        assert isinstance(room, Room)
        return room

    async def start(self, match_id: str, seat: Seat) -> Answer:
        """Somebody presses Start."""
        livetime, loop = self.shell.livetime, asyncio.get_running_loop()
        courses = Courses(CommandMetrics(CollectorRegistry()), NoTracer())
        heard = livetime.heard()
        request_id = uuid.uuid4().hex
        course = courses.begin(
            heard, match_id=match_id, player_id="", request_id=request_id, decision_id=1, kind="start"
        )
        answered: asyncio.Future[Answer] = loop.create_future()
        asked = Asked(Start(seat), request_id, b"", 1, heard, answered.set_result, course)
        (await self.room(match_id)).ask(asked)
        async with asyncio.timeout(30):
            return await answered

    async def lose(self, match_id: str) -> None:
        """The database forgets the newest ruling of a match, and another server answers."""
        await self.pool.execute(
            """
            delete from match_log where match_id = $1
            and revision = (select max(revision) from match_log where match_id = $1)
            """,
            match_id,
        )
        self.rooms.continuity.doubt()

    async def log(self, match_id: str) -> list[int]:
        """The revisions that are stored."""
        rows = await self.pool.fetch(
            "select revision from match_log where match_id = $1 order by revision", match_id
        )
        return [row["revision"] for row in rows]


@asynccontextmanager
async def process(database_url: str) -> AsyncIterator[Process]:
    """With its lease; its journal runs, and nothing else."""
    async with (
        asyncpg.create_pool(database_url, min_size=1, max_size=4) as pool,
        asyncio.TaskGroup() as tasks,
    ):
        surroundings = shell(pool, "new")
        await surroundings.lease.begin()
        journal = asyncio.create_task(surroundings.journal.run())
        rooms = Rooms(pool, surroundings, tasks, 0)
        await rooms.take_up_own(0)
        yield Process(pool, rooms, surroundings)
        await rooms.suspend()
        journal.cancel()
        await asyncio.gather(journal, return_exceptions=True)


async def test_a_match_that_was_suspended_is_mended_before_it_is_read_again(database_url: str) -> None:
    """A failover so long that the rooms were given up: what they knew is put back before anybody reads the log."""
    async with process(database_url) as made:
        (match_id,) = await orphans(made.pool, 1)
        await made.rooms.take_up_orphans()
        assert isinstance(await made.start(match_id, NORTH), Answered)
        assert await made.log(match_id) == [1]
        await made.rooms.suspend()
        await made.lose(match_id)
        assert await made.log(match_id) == []
        await made.rooms.take_up_own(0)
        assert (await made.room(match_id)).story.state.pressed == (NORTH,)
        assert await made.log(match_id) == [1]
        assert isinstance(await made.start(match_id, SOUTH), Answered)
        assert await made.log(match_id) == [1, 2]


async def test_a_suspended_match_that_cannot_be_mended_is_void_when_it_is_read_again(
    database_url: str,
) -> None:
    async with process(database_url) as made:
        (match_id,) = await orphans(made.pool, 1)
        await made.rooms.take_up_orphans()
        await made.start(match_id, NORTH)
        await made.rooms.suspend()
        await made.pool.execute("""update match_log set events = '[{"type": "started", "seat": "south"}]'""")
        made.rooms.continuity.doubt()
        await made.rooms.take_up_own(0)

        async def over() -> bool:
            return bool(await made.pool.fetchval("select exists (select from match_outcome)"))

        await eventually(over)
        outcome = await made.pool.fetchrow("select * from match_outcome")
        assert outcome is not None
        assert (outcome["cause"], outcome["detail"]) == ("void", "log_lost")


async def test_what_another_process_goes_on_without_is_declared_void_to_it(database_url: str) -> None:
    """The new owner reads from the log what is left of the match, and cannot know that players were told more."""
    async with process(database_url) as made:
        told, whole = await orphans(made.pool, 2)
        await made.rooms.take_up_orphans()
        for match_id in (told, whole):
            await made.start(match_id, NORTH)
        await made.lose(told)
        await made.pool.execute("update match_owner set engine_id = 'other', fence = fence + 1")
        looking = asyncio.create_task(made.rooms.continuity.run())

        async def declared() -> bool:
            await made.shell.gaps._log.store(made.pool)
            return bool(await void_by_declaration(made.pool, "other"))

        await eventually(declared)
        looking.cancel()
        ((match_id, incident),) = await void_by_declaration(made.pool, "other")
        assert (match_id, incident.kind) == (told, Kind.LOG_LOST)
        assert incident.reason == "rulings 1 to 1 were told and are missing"


async def test_a_database_that_was_only_restarted_changes_nothing(database_url: str) -> None:
    async with process(database_url) as made:
        (match_id,) = await orphans(made.pool, 1)
        await made.rooms.take_up_orphans()
        await made.start(match_id, NORTH)
        made.rooms.continuity.doubt()
        looking = asyncio.create_task(made.rooms.continuity.run())

        async def looked() -> bool:
            return not made.rooms.continuity._doubtful

        await eventually(looked)
        looking.cancel()
        assert isinstance(await made.start(match_id, SOUTH), Answered)
        assert await made.pool.fetchval("select count(*) from incident where kind = 'log_lost'") == 0
