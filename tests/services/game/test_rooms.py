"""Which rooms a process opens, and what it knows when it does."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from services.common.errors import ServiceError
from services.game.clock_client import ClockLink
from services.game.created import PLAYER_MIN
from services.game.custody import Custody
from services.game.gaps import Gaps
from services.game.incarnation import Incarnation
from services.game.livetime import LiveTime
from services.game.metrics import GameMetrics
from services.game.ownership import Lease
from services.game.room import Room
from services.game.rooms import OPENED_AT_ONCE, Rooms
from services.game.shell import Shell
from services.storage import ownership
from services.storage.incidents import put_touched
from services.storage.journal import Journal
from services.storage.ownership import TakenUp
from services.storage.pool import Pool
from services.wire.clock_messages import Policy


def shell(pool: Pool, engine_id: str) -> Shell:
    """What rooms share, as in a process; nothing of it runs."""
    livetime, metrics, policy = LiveTime(), GameMetrics(CollectorRegistry()), Policy()
    incarnation = Incarnation(engine_id, livetime.incarnation, "127.0.0.1:1")
    lease = Lease(pool, incarnation, 8.0, metrics.lease)
    clock = ClockLink(
        "127.0.0.1:1",
        "nobody listens here",
        engine_id,
        livetime.incarnation,
        livetime,
        lease_ok=lambda: True,
        metrics=metrics.link,
    )
    gaps = Gaps(livetime, incarnation, policy.version)
    journal = Journal(pool, engine_id, metrics.commits)
    return Shell(incarnation, journal, clock, livetime, gaps, lease, policy, metrics.matches)


async def orphans(pool: Pool, count: int) -> list[str]:
    """Live matches whose owner is gone."""
    await pool.execute(
        "insert into player (player_id, name) values ('ada', 'ada'), ('bob', 'bob') on conflict do nothing"
    )
    made = [str(uuid.uuid4()) for _ in range(count)]
    for match_id in made:
        await pool.execute(
            """
            insert into match (match_id, mode, rated, north, south, bank_ns, delay_ns, start_limit_ns, continue_limit_ns)
            values ($1, 'created', false, 'ada', 'bob', 1, 1, 60000000000, 60000000000)
            """,
            match_id,
        )
        await pool.execute(
            "insert into match_owner (match_id, engine_id, fence) values ($1, 'gone', 1)", match_id
        )
    return made


@pytest.mark.parametrize("asked_first", [True, False])
async def test_a_match_that_a_player_asks_for_first_is_resumed_all_the_same(
    database_url: str, *, asked_first: bool
) -> None:
    """A player who finds the new owner before it has opened the match: the outage is credited to the same incident."""

    class Hasty(Rooms):
        """Players come before all matches that were taken up are open."""

        async def _resume(self, taken: list[TakenUp]) -> None:
            if asked_first:
                await asyncio.gather(*(self.find(match.match_id) for match in taken))
            await super()._resume(taken)

    async with (
        asyncpg.create_pool(database_url, min_size=1, max_size=4) as pool,
        asyncio.TaskGroup() as tasks,
    ):
        match_ids = await orphans(pool, 3)
        rooms = Hasty(pool, shell(pool, "new"), tasks, 0)
        assert await rooms.take_up_own(0) == 0
        assert await rooms.take_up_orphans() == 3
        for match_id in match_ids:
            room = await rooms.find(match_id)
            assert isinstance(room, Room)
            assert room.fence == 2
            assert room._resumed is not None
            assert room._resumed.incident.reason == "taken up by new"
        assert not rooms._resumed
        await rooms.suspend()


async def test_a_room_that_ends_while_owners_are_looked_up_is_none_to_leave(database_url: str) -> None:
    """Somebody else has the match, and the room has found out by itself: a process must not die of that."""
    async with (
        asyncpg.create_pool(database_url, min_size=1, max_size=1) as pool,
        asyncio.TaskGroup() as tasks,
    ):
        ended, left = await orphans(pool, 2)
        rooms = Rooms(pool, shell(pool, "new"), tasks, 0)
        assert await rooms.take_up_orphans() == 2
        await pool.execute("update match_owner set engine_id = 'other', fence = 3")
        async with pool.acquire():
            # It has seen both, and waits for the only connection.
            looking = asyncio.create_task(rooms.check_fences())
            await asyncio.sleep(0)
            task = rooms._room_tasks[ended]
            task.cancel()
            await asyncio.wait({task})
        await looking
        assert ended not in rooms._rooms
        still = rooms._room_tasks.get(left)
        assert still is None or still.cancelling()
        await rooms.suspend()


async def test_live_matches_are_counted_by_what_they_wait_for(database_url: str) -> None:
    """When somebody looks, whatever way a match has come here; one that a fault of ours stopped is in no phase."""
    async with (
        asyncpg.create_pool(database_url, min_size=1, max_size=4) as pool,
        asyncio.TaskGroup() as tasks,
    ):
        surroundings = shell(pool, "new")
        live = surroundings.metrics.live

        def counts() -> dict[str, float]:
            (family,) = live.collect()
            return {sample.labels["phase"]: sample.value for sample in family.samples if sample.value}

        match_ids = await orphans(pool, 3)
        rooms = Rooms(pool, surroundings, tasks, 0)
        assert counts() == {}
        assert await rooms.take_up_orphans() == 3
        assert counts() == {"awaiting_start": 3}
        stopped = await rooms.find(match_ids[0])
        assert isinstance(stopped, Room)
        stopped.held = stopped.closed = True
        assert counts() == {"awaiting_start": 2, "held": 1}
        await rooms.suspend()
        assert counts() == {}


async def test_one_player_does_not_take_all_the_room_for_created_matches(database_url: str) -> None:
    """Those that were left at once count for as long as they stay, so that one after the other would fill it."""
    async with (
        asyncpg.create_pool(database_url, min_size=1, max_size=4) as pool,
        asyncio.TaskGroup() as tasks,
    ):
        await orphans(pool, PLAYER_MIN)
        await pool.execute("update match set created_by = 'ada'")
        rooms = Rooms(pool, shell(pool, "new"), tasks, 0, created_max=2 * PLAYER_MIN)
        assert await rooms.take_up_orphans() == PLAYER_MIN
        with rooms.creating("ada") as more, rooms.creating("bob") as first:
            assert (more, first) == (False, True)
        await rooms.suspend()


async def test_nobody_opens_a_match_under_the_fence_of_before_a_suspension(database_url: str) -> None:
    """The clock remembers the old room: another one under the same fence would contradict it and void the match."""
    async with (
        asyncpg.create_pool(database_url, min_size=1, max_size=4) as pool,
        asyncio.TaskGroup() as tasks,
    ):
        (match_id,) = await orphans(pool, 1)
        rooms = Rooms(pool, shell(pool, "gone"), tasks, 0)
        with pytest.raises(ServiceError) as refused:
            await rooms.find(match_id)
        assert refused.value.reason == "TRY_AGAIN"
        assert await rooms.take_up_own(0) == 1
        await rooms.suspend()
        with pytest.raises(ServiceError) as refused:
            await rooms.find(match_id)
        assert refused.value.reason == "TRY_AGAIN"
        assert await rooms.take_up_own(0) == 1
        room = await rooms.find(match_id)
        assert isinstance(room, Room)
        assert room.fence == 3
        await rooms.suspend()


async def test_a_process_that_starts_while_the_database_stumbles_takes_its_matches_up_later(
    database_url: str,
) -> None:
    """And the time until then belongs to the outage."""
    heard: list[int] = []

    class Stumbling(Rooms):
        """The database fails twice before it takes the matches up."""

        async def take_up_own(self, gap_ns: int) -> int:
            heard.append(gap_ns)
            if len(heard) < 3:
                raise asyncpg.CannotConnectNowError
            return await super().take_up_own(gap_ns)

    async with (
        asyncpg.create_pool(database_url, min_size=1, max_size=4) as pool,
        asyncio.TaskGroup() as tasks,
    ):
        surroundings = shell(pool, "new")
        rooms = Stumbling(pool, surroundings, tasks, 0)
        await Custody(surroundings.lease, rooms, lambda: True).begin()
        assert len(heard) == 3
        assert heard == sorted(heard)
        assert heard[2] > heard[0]


async def test_an_outage_in_the_same_turn_is_known_to_the_next_owner(database_url: str) -> None:
    """Each is credited to its own incident, though only the last owner sees a ruling."""
    async with (
        asyncpg.create_pool(database_url, min_size=1, max_size=4) as pool,
        asyncio.TaskGroup() as tasks,
    ):
        (match_id,) = await orphans(pool, 1)
        first, second = (Rooms(pool, shell(pool, name), tasks, 0) for name in ("first", "second"))
        assert await first.take_up_orphans() == 1
        await first.suspend()
        assert await second.take_up_orphans() == 1
        room = await second.find(match_id)
        assert isinstance(room, Room)
        assert room._resumed is not None
        (earlier,) = room._resumed.earlier
        assert (earlier.engine_id, earlier.noticed_by) == ("gone", "game/first")
        assert (room._resumed.incident.engine_id, room._resumed.incident.noticed_by) == (
            "first",
            "game/second",
        )
        await second.suspend()


async def test_many_matches_are_taken_up_with_as_many_statements_as_one(database_url: str) -> None:
    """They are recorded by one statement and read by three, however many; else taking up thousands would take long."""
    said: list[str] = []

    async def listen(connection: Any) -> None:
        connection.add_query_logger(lambda query: said.append(query.query))

    async with (
        asyncpg.create_pool(database_url, min_size=1, max_size=4, init=listen) as pool,
        asyncio.TaskGroup() as tasks,
    ):
        rooms, needed = Rooms(pool, shell(pool, "new"), tasks, 0), []
        for matches in (1, OPENED_AT_ONCE):
            await orphans(pool, matches)
            said.clear()
            assert await rooms.take_up_orphans() == matches
            # Ours are in small letters; asyncpg learns types, and begins and ends transactions, in capitals.
            needed.append([" ".join(query.split())[:40] for query in said if query.strip()[0].islower()])
        assert needed[0] == needed[1]
        assert len(rooms.live()) == 1 + OPENED_AT_ONCE
        assert await pool.fetchval("select count(*) from incident") == 2
        assert await pool.fetchval("select count(*) from incident_match") == 1 + OPENED_AT_ONCE
        await rooms.suspend()


@pytest.mark.parametrize(("waited", "left_at_most"), [("30 seconds", 30.0), ("1 hour", 5.0)])
async def test_the_start_limit_goes_on_after_a_takeover(
    database_url: str, waited: str, left_at_most: float
) -> None:
    """Rule 7.2: it counts from when the match was made, not from when somebody took it up."""
    async with (
        asyncpg.create_pool(database_url, min_size=1, max_size=4) as pool,
        asyncio.TaskGroup() as tasks,
    ):
        (match_id,) = await orphans(pool, 1)
        await pool.execute("update match set created_at = clock_timestamp() - $1::text::interval", waited)
        rooms = Rooms(pool, shell(pool, "new"), tasks, 0)
        assert await rooms.take_up_orphans() == 1
        room = await rooms.find(match_id)
        assert isinstance(room, Room)
        assert room._limit.at is not None
        assert room._limit.at - asyncio.get_running_loop().time() <= left_at_most
        await rooms.suspend()


async def test_an_outage_is_no_part_of_a_start_limit(database_url: str) -> None:
    """Rule 7.2: of 30 seconds since the match was made nobody listened for 20, so that players could use 10."""
    async with (
        asyncpg.create_pool(database_url, min_size=1, max_size=4) as pool,
        asyncio.TaskGroup() as tasks,
    ):
        (match_id,) = await orphans(pool, 1)
        await pool.execute("update match set created_at = clock_timestamp() - interval '30 s'")
        await ownership.begin_lease(pool, "gone", "before", "127.0.0.1:2", -15.0)
        await pool.execute("update engine_lease set renewed_at = clock_timestamp() - interval '20 s'")
        rooms = Rooms(pool, shell(pool, "new"), tasks, 0)
        assert await rooms.take_up_orphans() == 1
        room = await rooms.find(match_id)
        assert isinstance(room, Room)
        assert room._resumed is not None
        assert room._resumed.gap_ns >= 20_000_000_000
        assert room._resumed.waited_ns < 30_000_000_000
        await rooms.suspend()


async def test_a_match_whose_taking_up_was_not_acknowledged_is_opened_without_being_asked_for(
    database_url: str,
) -> None:
    """Its players may both be gone; their time must run all the same. One that somebody else has by then is left."""

    class Unheard(Rooms):
        """The answer to the commit is lost, once."""

        async def _resume(self, taken: list[TakenUp]) -> None:
            if len(taken) == 2:
                raise asyncpg.ConnectionDoesNotExistError
            await super()._resume(taken)

    async with (
        asyncpg.create_pool(database_url, min_size=1, max_size=4) as pool,
        asyncio.TaskGroup() as tasks,
    ):
        lost, kept = await orphans(pool, 2)
        surroundings = shell(pool, "new")
        rooms = Unheard(pool, surroundings, tasks, 0)
        custody = Custody(surroundings.lease, rooms, lambda: True)
        await custody.begin()
        with pytest.raises(asyncpg.ConnectionDoesNotExistError):
            await custody._look()
        assert len(rooms) == 0
        await ownership.begin_lease(pool, "other", "alive", "127.0.0.1:2", 60.0)
        await pool.execute("update match_owner set engine_id = 'other', fence = 3 where match_id = $1", lost)
        await custody._look()
        assert len(rooms) == 1
        room = await rooms.find(kept)
        assert isinstance(room, Room)
        assert room._resumed is not None
        assert not rooms._resumed
        await rooms.suspend()


async def test_a_match_that_is_opened_and_lost_while_it_is_looked_for_stops_nothing(
    database_url: str,
) -> None:
    """A player asks for it and another process takes it up, both between two steps of this one."""

    class Unheard(Rooms):
        """The answer to the commit is lost."""

        async def _resume(self, taken: list[TakenUp]) -> None:
            raise asyncpg.ConnectionDoesNotExistError

    async with (
        asyncpg.create_pool(database_url, min_size=1, max_size=4) as pool,
        asyncio.TaskGroup() as tasks,
    ):
        (match_id,) = await orphans(pool, 1)
        rooms = Unheard(pool, shell(pool, "new"), tasks, 0)
        with pytest.raises(asyncpg.ConnectionDoesNotExistError):
            await rooms.take_up_orphans()
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute("lock table match_owner")
            looking = asyncio.create_task(rooms.open_left_over())
            assert await rooms.open(match_id, 2) is not None
            await connection.execute("update match_owner set engine_id = 'other', fence = 3")
        await looking
        await rooms.suspend()


async def test_why_a_match_goes_on_is_not_forgotten_while_that_is_being_stored(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 123 of the simulation: whoever looked for what is left over found the owner of before, and credits of the
    outage rested on no incident."""
    async with (
        asyncpg.create_pool(database_url, min_size=1, max_size=4) as pool,
        asyncio.TaskGroup() as tasks,
    ):
        kept, moved = await orphans(pool, 2)
        rooms = Rooms(pool, shell(pool, "new"), tasks, 0)

        async def look_first(*arguments: Any) -> None:
            await put_touched(*arguments)
            await rooms.open_left_over()

        monkeypatch.setattr("services.game.rooms.put_touched", look_first)
        assert await rooms.take_up_orphans() == 2
        for match_id in (kept, moved):
            room = await rooms.find(match_id)
            assert isinstance(room, Room)
            assert room._resumed is not None
        await rooms.suspend()


async def test_what_is_taken_up_while_others_are_looked_for_is_left_to_the_next_look(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One match is left over; another comes while the database is asked who owns the first."""

    class Unheard(Rooms):
        """Nothing is opened at once."""

        async def _resume(self, taken: list[TakenUp]) -> None:
            pass

    async with (
        asyncpg.create_pool(database_url, min_size=1, max_size=4) as pool,
        asyncio.TaskGroup() as tasks,
    ):
        await orphans(pool, 2)
        rooms = Unheard(pool, shell(pool, "new"), tasks, 0)
        monkeypatch.setattr(ownership, "TAKE_UP_LIMIT", 1)
        assert await rooms.take_up_orphans() == 1
        owners_of = ownership.owners_of

        async def taken_up_meanwhile(*arguments: Any) -> Any:
            assert await rooms.take_up_orphans() == 1
            return await owners_of(*arguments)

        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(ownership, "owners_of", taken_up_meanwhile)
            await rooms.open_left_over()
        assert len(rooms) == 1
        await rooms.open_left_over()
        assert len(rooms) == 2
        await rooms.suspend()


async def test_what_passed_before_the_newest_ruling_is_no_outage_of_the_turn(database_url: str) -> None:
    """Fault 24: a ruling that was stored when the database came back opens a turn that nobody has waited in yet."""
    async with (
        asyncpg.create_pool(database_url, min_size=1, max_size=4) as pool,
        asyncio.TaskGroup() as tasks,
    ):
        (match_id,) = await orphans(pool, 1)
        hour_ns = 3600 * 10**9
        await pool.execute("update match_owner set engine_id = 'new'")
        await pool.execute("update match set created_at = clock_timestamp() - interval '2 hours'")
        rooms = Rooms(pool, shell(pool, "new"), tasks, 0)
        for stored, gap_ns in ((False, hour_ns), (True, 0)):
            if stored:
                await pool.execute(
                    """
                    insert into match_log (match_id, revision, first_sequence, last_sequence, fence, events)
                    values ($1, 1, 1, 1, 2, '[{"type": "started", "seat": "north"}]')
                    """,
                    match_id,
                )
            assert await rooms.take_up_own(hour_ns) == 1
            room = await rooms.find(match_id)
            assert isinstance(room, Room)
            assert room._resumed is not None
            assert gap_ns <= room._resumed.gap_ns <= gap_ns + hour_ns // 2
            assert room._resumed.incident.lasted_ns == hour_ns
        await rooms.suspend()
