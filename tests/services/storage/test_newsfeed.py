"""What is stored comes once, whenever it is committed and whatever time it speaks of, on a real PostgreSQL."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import asyncpg

from engine.clock import SECOND
from services.storage import declarations
from services.storage.declarations import Consequence, Declaration, Scope, ScopeKind
from services.storage.endings import Ending, Evidence
from services.storage.incidents import Incident, Kind, put_incidents
from services.storage.newsfeed import Stored, stored_since
from services.storage.pool import Connection
from tests.services.storage.test_journal import entry, journal_on, new_match


def stall() -> Incident:
    """Something that a game process noticed."""
    return Incident.lasting(Kind.STALL, "game/game-0", SECOND, "v1")


async def look(connection: Connection, last: Stored) -> tuple[Stored, list[str]]:
    """The next look, and the incidents it finds."""
    stored = await stored_since(connection, last.snapshot)
    return stored, [incident.incident_id for incident in stored.incidents]


async def test_what_is_committed_late_comes_late_and_nothing_comes_twice(database_url: str) -> None:
    """A transaction that began before the last look and ends after it is not forgotten."""
    before, slow, quick = stall(), stall(), stall()
    reader, one, two = [await asyncpg.connect(database_url) for _ in range(3)]
    try:
        await put_incidents(one, [before])
        last = await stored_since(reader, None)
        assert (last.incidents, last.voids) == ((), ())
        transaction = one.transaction()
        await transaction.start()
        await put_incidents(one, [slow])
        await put_incidents(two, [quick])
        last, found = await look(reader, last)
        assert found == [quick.incident_id]
        await transaction.commit()
        last, found = await look(reader, last)
        assert found == [slow.incident_id]
        # On another connection it goes on where it was.
        again = await asyncpg.connect(database_url)
        try:
            last, found = await look(again, last)
            assert found == []
        finally:
            await again.close()
    finally:
        for connection in (reader, one, two):
            await connection.close()


async def test_a_declaration_about_last_week_comes_too_and_again_when_it_is_closed(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        last = await stored_since(connection, None)
        week_ago = datetime.now(UTC) - timedelta(days=7)
        made = Declaration("ada", "switch 3", Scope(ScopeKind.ALL), Consequence.NOTE, week_ago, None)
        await declarations.declare(connection, made, "v1")
        last, found = await look(connection, last)
        assert found == [made.incident_id]
        last, found = await look(connection, last)
        assert found == []
        await declarations.close(
            connection, made.incident_id, author="bob", reason="replaced", ended_at=datetime.now(UTC)
        )
        last, found = await look(connection, last)
        assert found == [made.incident_id]
        assert last.incidents[0].ended_at is not None
    finally:
        await connection.close()


async def test_a_void_match_comes_with_its_reason_and_others_do_not(database_url: str) -> None:
    """Voids that no clock gave are seen here alone."""
    async with journal_on(database_url) as (journal, pool), pool.acquire() as connection:
        last = await stored_since(connection, None)
        evidence = Evidence(
            str(uuid.uuid4()), "void", "game-0", "i", "v1", '{"summary": "operator/ada: why"}'
        )
        over = Ending(None, "void", "operator", 150, 150, evidence=evidence)
        won = Ending("north", "resignation", "", 150, 150)
        ids = [await new_match(pool) for _ in range(2)]
        for match_id, ending in zip(ids, (over, won), strict=True):
            await journal.append(replace(entry(match_id), ending=ending))
        last, _ = await look(connection, last)
        assert [(each.match_id, each.reason, each.summary) for each in last.voids] == [
            (ids[0], "operator", "operator/ada: why")
        ]
        last, _ = await look(connection, last)
        assert last.voids == ()
