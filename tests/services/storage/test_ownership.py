"""What looking for matches without an owner costs, and that it finds them all."""

from __future__ import annotations

import asyncpg

from services.storage import ownership
from services.storage.pool import Connection

LIVE = 400


async def _matches(connection: Connection, engine_id: str, count: int) -> None:
    await connection.execute(
        """
        with made as (
            insert into match (match_id, mode, rated, north, south, bank_ns, delay_ns, start_limit_ns, continue_limit_ns)
            select gen_random_uuid(), 'created', false, 'ada', 'bob', 1, 1, 60000000000, 60000000000
            from generate_series(1, $2::int) returning match_id
        )
        insert into match_owner (match_id, engine_id, fence) select match_id, $1, 1 from made
        """,
        engine_id,
        count,
    )


async def _looked_at(connection: Connection) -> int:
    """Rows of owners that this transaction has read so far."""
    read: int = await connection.fetchval(
        "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relname = 'match_owner'"
    )
    return read


async def test_matches_that_are_played_are_not_looked_at_when_orphans_are_sought(database_url: str) -> None:
    """Every process asks four times a second: what all others play must not make that dear."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("insert into player (player_id, name) values ('ada', 'ada'), ('bob', 'bob')")
        for engine_id in ("one", "two", "three"):
            await ownership.begin_lease(connection, engine_id, "inc", f"{engine_id}:1", 60, standing="ready")
            await _matches(connection, engine_id, LIVE)
        await connection.execute("analyze match_owner")
        async with connection.transaction():
            before = await _looked_at(connection)
            assert not await ownership.are_left(connection, "one")
            assert await ownership.take_up_orphans(connection, "one") == []
            assert await _looked_at(connection) - before < LIVE // 4
    finally:
        await connection.close()


async def test_orphans_are_found_by_their_lease_and_by_having_none_and_by_an_offer(database_url: str) -> None:
    """All three ways in which a match waits for its next owner, each match once."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("insert into player (player_id, name) values ('ada', 'ada'), ('bob', 'bob')")
        for engine_id, seconds in (("new", 60.0), ("late", 0.0), ("well", 60.0)):
            await ownership.begin_lease(connection, engine_id, "inc", "a:1", seconds, standing="ready")
        for engine_id in ("new", "late", "never seen", "well"):
            await _matches(connection, engine_id, 2)
        offered = await connection.fetchval(
            "select match_id from match_owner where engine_id = 'well' limit 1"
        )
        await ownership.hand_over(connection, "well", [(str(offered), 1, 0)])

        assert await ownership.are_left(connection, "new", room=False)
        without_room = await ownership.take_up_orphans(connection, "new", room=False)
        assert sorted(each.from_engine for each in without_room) == [
            "late",
            "late",
            "never seen",
            "never seen",
        ]
        assert not await ownership.are_left(connection, "new", room=False)
        assert await ownership.are_left(connection, "new")
        with_room = await ownership.take_up_orphans(connection, "new")
        assert [(each.match_id, each.planned) for each in with_room] == [(str(offered), True)]
        assert not await ownership.are_left(connection, "new")
        assert await ownership.take_up_orphans(connection, "new") == []
    finally:
        await connection.close()
