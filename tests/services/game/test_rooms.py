"""Which rooms a process opens, and what it knows when it does."""

from __future__ import annotations

import asyncio
import uuid

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from services.game.clock_client import ClockLink
from services.game.gaps import Gaps
from services.game.incarnation import Incarnation
from services.game.livetime import LiveTime
from services.game.ownership import Lease
from services.game.room import Room
from services.game.rooms import Rooms
from services.game.shell import Shell
from services.storage.journal import Journal
from services.storage.ownership import TakenUp
from services.storage.pool import Pool
from services.wire.clock_messages import Policy


def shell(pool: Pool, engine_id: str) -> Shell:
    """What rooms share, as in a process; nothing of it runs."""
    livetime, registry, policy = LiveTime(), CollectorRegistry(), Policy()
    incarnation = Incarnation(engine_id, livetime.incarnation, "127.0.0.1:1")
    lease = Lease(pool, incarnation, 8.0, registry)
    clock = ClockLink(
        "127.0.0.1:1",
        "nobody listens here",
        engine_id,
        livetime.incarnation,
        livetime,
        lease_ok=lambda: True,
        registry=registry,
    )
    gaps = Gaps(livetime, incarnation, policy.version)
    return Shell(
        incarnation, Journal(pool, engine_id, registry), clock, livetime, gaps, lease, policy, registry
    )


async def orphans(pool: Pool, count: int) -> list[str]:
    """Live matches whose owner is gone."""
    await pool.execute("insert into player (player_id, name) values ('ada', 'ada'), ('bob', 'bob')")
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
        assert await rooms.take_up_orphans() == 3
        for match_id in match_ids:
            room = await rooms.find(match_id)
            assert isinstance(room, Room)
            assert room.fence == 2
            assert room._resumed is not None
            assert room._resumed.incident.reason == "taken up by new"
        assert not rooms._resumed
        await rooms.suspend()
