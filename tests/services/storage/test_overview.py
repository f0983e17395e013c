"""What the outage view reads from the database."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from services.local.postgres import find_binaries
from services.storage import ladder, ownership
from services.storage.incidents import Incident, Kind, put_incidents
from services.storage.lead import take_lead
from services.storage.overview import PoolSeen, look
from services.storage.poolorders import NewOrder, put_orders
from tests.services.storage.results import put_players, put_result


async def test_an_empty_database_has_a_server_and_nothing_else(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    seen = await look(connection)
    await connection.close()
    assert not seen.server.in_recovery
    assert 0 < seen.server.connections <= seen.server.connections_max
    assert seen.leader is None
    assert (seen.leases, seen.open_incidents, seen.voids) == ((), (), ())
    assert (seen.recent_voids, seen.recent_incidents) == ({}, {})
    assert (seen.rating.undecided, seen.rating.held) == (0, 0)
    assert [(pool.pool, pool.mode, pool.waiting) for pool in seen.pools] == [
        ("rated", "open", 0),
        ("casual", "open", 0),
    ]


async def test_all_that_is_stored_is_seen(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    leader = uuid4()
    await take_lead(connection, leader)
    for engine in ("game-1", "game-2", "idle"):
        await ownership.begin_lease(connection, engine, "i-1", f"{engine}:7601", 60)
    await ownership.end_lease(connection, "idle", "i-1")
    until = datetime.now(UTC) + timedelta(hours=1)
    await put_orders(connection, ["rated"], NewOrder("pause", "ada", "switch 3", until=until))
    await put_orders(connection, ["casual"], NewOrder("drain", "ada", "old", until=until - timedelta(days=1)))
    await put_orders(connection, ["casual"], NewOrder("announce", "bob", "", announcement="back soon"))
    await put_players(connection, ["waits"])
    await connection.execute(
        "insert into seek (player_id, seek_id, pool) values ('waits', gen_random_uuid(), 'casual')"
    )
    lasts = Incident(str(uuid4()), Kind.OPERATOR, "operator/ada", datetime.now(UTC), None, "v1", reason="why")
    await put_incidents(connection, [lasts, Incident.lasting(Kind.STALL, "game/game-1", 10**8, "v1")])
    won = await put_result(connection, "a", "b")
    await put_result(connection, "canary-north", "canary-south", None, "void", rated=False)
    (first, *_) = await ladder.undecided(connection, after=0, limit=1)
    await ladder.decide(connection, first)

    seen = await look(connection)
    await connection.close()
    assert seen.leader is not None
    assert (seen.leader.leader_id, seen.leader.left) == (str(leader), False)
    # A process that has left and owns nothing is history.
    assert [(lease.engine_id, lease.holds) for lease in seen.leases] == [("game-1", True), ("game-2", True)]
    rated, casual = seen.pools
    assert (rated.mode, rated.author, rated.reason, rated.until) == ("pause", "ada", "switch 3", until)
    # An order whose end has come counts no more.
    assert isinstance(casual, PoolSeen)
    assert (casual.mode, casual.author, casual.announcement, casual.waiting) == ("open", "", "back soon", 1)
    assert [incident.incident_id for incident in seen.open_incidents] == [lasts.incident_id]
    assert seen.recent_incidents == {"operator": 1, "stall": 1}
    assert first.match_id == won.match_id
    assert (seen.rating.undecided, seen.rating.held) == (1, 0)
    (void,) = seen.voids
    assert (void.rated, void.canary) == (False, True)
    assert sum(seen.recent_voids.values()) == 1


async def test_matches_without_a_living_owner_are_seen(database_url: str) -> None:
    """Of a process whose lease has run out, and of one that nobody remembers."""
    connection = await asyncpg.connect(database_url)
    await ownership.begin_lease(connection, "game-1", "i-1", "game-1:7601", 60)
    for engine in ("game-1", "forgotten"):
        await put_result(connection, "a", "b", engine=engine)
    await connection.execute("update match_owner set released_at = null, handed_over_at = null")
    await connection.execute("update engine_lease set lease_until = clock_timestamp()")
    seen = await look(connection)
    await connection.close()
    assert [(lease.engine_id, lease.holds, lease.matches) for lease in seen.leases] == [
        ("forgotten", False, 1),
        ("game-1", False, 1),
    ]


async def test_who_follows_the_server_is_seen(postgres_url: str, database_url: str, tmp_path: Path) -> None:
    """A receiver of the log, which is to the server what a replica is."""
    receiver = find_binaries() / "pg_receivewal"
    if not receiver.exists():
        pytest.skip("there is no pg_receivewal here")
    connection = await asyncpg.connect(database_url)
    process = await asyncio.create_subprocess_exec(receiver, "-d", postgres_url, "-D", str(tmp_path))
    try:
        async with asyncio.timeout(30):
            while True:
                followers = (await look(connection)).server.replicas
                if any(replica.state == "streaming" for replica in followers):
                    break
                await asyncio.sleep(0.02)
    finally:
        process.terminate()
        await process.wait()
        await connection.close()
    assert {replica.sync for replica in followers} == {"async"}
