"""Logs made whole again, on a real PostgreSQL from which rows are taken behind the writer's back."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from services.storage import ownership
from services.storage.endings import Ending, Evidence
from services.storage.entry import Entry
from services.storage.incidents import Effect, Incident, Kind, Touched
from services.storage.journal import FencedError, Journal
from services.storage.mending import KEPT_MAX, MATCHES_MAX, Kept, LogLostError, State
from services.storage.pool import Pool, open_pool
from services.storage.server import Server
from tests.services.storage.test_journal import ENGINE, count, entry, journal_on, new_match


async def forget(pool: Pool, match_id: str, *revisions: int) -> None:
    """What a database does that loses them."""
    await pool.execute(
        "delete from match_log where match_id = $1 and revision = any($2::bigint[])",
        uuid.UUID(match_id),
        list(revisions),
    )


async def rows(pool: Pool, match_id: str) -> list[dict[str, Any]]:
    """The log as it is stored, but for the time at which a row was written."""
    found = await pool.fetch("select * from match_log where match_id = $1 order by revision", match_id)
    return [{key: value for key, value in row.items() if key != "at"} for row in found]


async def told(journal: Journal, match_id: str, revisions: Sequence[int]) -> None:
    """Rulings that were acknowledged."""
    for revision in revisions:
        await journal.append(entry(match_id, revision))


def final(match_id: str, revision: int) -> Entry:
    """A loss on time, with its proof and what it credited."""
    evidence = Evidence(str(uuid.uuid4()), "timeout", ENGINE, "life", "v1", "{}")
    stall = Incident.lasting(Kind.STALL, f"game/{ENGINE}", 2_000_000, "v1")
    return replace(
        entry(match_id, revision),
        ending=Ending("south", "time", "", 150, 150, evidence),
        touched=(Touched(stall, Effect.CREDITED, 2_000_000),),
    )


@pytest.mark.parametrize("lost", [[5], [3, 4, 5], [3], [1, 2, 3, 4, 5]])
async def test_what_is_missing_is_put_back_exactly(database_url: str, lost: list[int]) -> None:
    async with journal_on(database_url) as (journal, pool):
        match_id, other = await new_match(pool), await new_match(pool)
        await told(journal, match_id, range(1, 6))
        await told(journal, other, [1])
        before = await rows(pool, match_id)
        await forget(pool, match_id, *lost)
        found = await journal.mend(match_id)
        assert (found.state, found.put_back) == (State.MENDED, len(lost))
        assert await rows(pool, match_id) == before
        assert (await journal.mend(match_id)).state is State.WHOLE
        assert (await journal.mend(other)).state is State.WHOLE
        incident = await pool.fetchrow(
            """
            select i.kind, i.reason, t.effect from incident i join incident_match t using (incident_id)
            where t.match_id = $1
            """,
            match_id,
        )
        assert incident is not None
        assert (incident["kind"], incident["effect"]) == ("log_lost", "continued")
        assert f"rulings {lost[0]} to {lost[-1]} were missing" in incident["reason"]
        assert await count(pool, "incident_match", other) == 0


async def test_an_end_that_is_missing_comes_back_with_all_that_goes_with_it(database_url: str) -> None:
    """The outcome, its evidence, the credit it rests on; the seats are free and nobody owns the match."""
    async with journal_on(database_url) as (journal, pool):
        match_id = await new_match(pool)
        await told(journal, match_id, [1, 2])
        await journal.append(final(match_id, 3))
        tables = ("match_outcome", "clock_evidence", "incident_match", "live_seat")
        before = {table: await pool.fetch(f"select * from {table}") for table in tables}  # noqa: S608
        seats = await pool.fetch("select north, south from match where match_id = $1", match_id)
        # As if the transaction had never been.
        await pool.execute("delete from match_outcome")
        await pool.execute("delete from clock_evidence")
        await pool.execute("delete from incident_match")
        await pool.execute("update match_owner set released_at = null")
        for player_id in seats[0].values():
            await pool.execute(
                "insert into live_seat (player_id, match_id) values ($1, $2)", player_id, match_id
            )
        await forget(pool, match_id, 3)
        assert (await journal.mend(match_id, 1, 3)).state is State.MENDED
        after = {table: await pool.fetch(f"select * from {table}") for table in tables}  # noqa: S608
        proofs = [[row["evidence_id"] for row in found["clock_evidence"]] for found in (before, after)]
        assert proofs[0] == proofs[1] != []
        (outcome,) = after["match_outcome"]
        assert (outcome["cause"], outcome["winner"]) == ("time", "south")
        credited = [row["credited_ns"] for row in after["incident_match"] if row["effect"] == "credited"]
        assert credited == [2_000_000]
        assert after["live_seat"] == []
        assert await pool.fetchval("select released_at is not null from match_owner")


async def test_nothing_is_written_behind_a_hole_that_can_be_closed(database_url: str) -> None:
    """Nobody has noticed yet that another server answers: the next ruling finds out, and follows what was put back."""
    async with journal_on(database_url) as (journal, pool):
        match_id, other = await new_match(pool), await new_match(pool)
        await told(journal, match_id, range(1, 5))
        await told(journal, other, range(1, 5))
        before = await rows(pool, match_id)
        await forget(pool, match_id, 3, 4)
        await asyncio.gather(journal.append(entry(match_id, 5)), journal.append(entry(other, 5)))
        assert (await rows(pool, match_id))[:4] == before
        assert [row["revision"] for row in await rows(pool, match_id)] == [1, 2, 3, 4, 5]
        assert await count(pool, "match_log", other) == 5


async def test_nothing_is_written_behind_a_hole_that_stays(database_url: str) -> None:
    """What is too old to be in memory is lost, and so is the ruling that would come after it."""
    async with journal_on(database_url) as (journal, pool):
        match_id = await new_match(pool)
        await told(journal, match_id, range(1, KEPT_MAX + 4))
        await forget(pool, match_id, *range(3, KEPT_MAX + 4))
        with pytest.raises(LogLostError) as error:
            await journal.append(entry(match_id, KEPT_MAX + 4))
        assert error.value.why == "1 of the first 3 rulings are missing"
        assert [row["revision"] for row in await rows(pool, match_id)] == [1, 2]


async def test_a_ruling_that_became_another_one_is_not_overwritten(database_url: str) -> None:
    async with journal_on(database_url) as (journal, pool):
        match_id = await new_match(pool)
        await told(journal, match_id, [1, 2])
        await pool.execute(
            "update match_log set events = $1::jsonb where revision = 2", json.dumps([{"event": "other"}])
        )
        found = await journal.mend(match_id)
        assert (found.state, found.why) == (State.LOST, "ruling 2 is another one")


async def test_a_match_that_was_read_from_the_log_is_whole_or_lost(database_url: str) -> None:
    """Whoever has taken a match up has nothing to put back, and knows how much there was."""
    async with journal_on(database_url) as (journal, pool):
        match_id = await new_match(pool)
        await told(journal, match_id, [1, 2, 3])
        journal.forget(match_id)
        assert (await journal.mend(match_id, 1, 3)).state is State.WHOLE
        await forget(pool, match_id, 3)
        found = await journal.mend(match_id, 1, 3)
        assert (found.state, found.why) == (State.LOST, "1 of the first 3 rulings are missing")


async def test_a_takeover_that_was_forgotten_is_put_back(database_url: str) -> None:
    """Fences are given out by the database: one that is behind ours has been forgotten, not undone."""
    async with journal_on(database_url) as (journal, pool):
        match_id = await new_match(pool)
        await told(journal, match_id, [1])
        await ownership.take_up_own(pool, ENGINE, 0)
        await journal.append(entry(match_id, 2, fence=2))
        await pool.execute(
            # No statement does this, but a database that has lost its newest transactions looks so.
            """
            begin;
            set local session_replication_role = replica;
            update match_owner set fence = 1, engine_id = 'game-1';
            commit
            """
        )
        await forget(pool, match_id, 2)
        await journal.append(entry(match_id, 3, fence=2))
        owner = await ownership.get_owner(pool, match_id)
        assert owner is not None
        assert (owner.engine_id, owner.fence) == (ENGINE, 2)
        assert [(row["revision"], row["fence"]) for row in await rows(pool, match_id)] == [
            (1, 1),
            (2, 2),
            (3, 2),
        ]


async def test_what_another_owner_goes_on_without_is_said_and_left_alone(database_url: str) -> None:
    async with journal_on(database_url) as (journal, pool):
        match_id = await new_match(pool)
        await told(journal, match_id, [1, 2, 3])
        await pool.execute("update match_owner set fence = 2, engine_id = 'game-1'")
        found = await journal.mend(match_id)
        assert (found.state, found.why) == (State.OTHERS, "")
        await forget(pool, match_id, 2, 3)
        found = await journal.mend(match_id)
        assert (found.state, found.why) == (State.OTHERS, "rulings 2 to 3 were told and are missing")
        with pytest.raises(FencedError):
            await journal.append(entry(match_id, 4))
        assert await count(pool, "match_log", match_id) == 1


async def test_a_match_that_is_gone_as_a_whole_is_lost(database_url: str) -> None:
    async with journal_on(database_url) as (journal, _):
        found = await journal.mend(str(uuid.uuid4()), 1, 3)
        assert (found.state, found.why) == (State.LOST, "the match itself is missing")
        assert (await journal.mend(str(uuid.uuid4()))).state is State.WHOLE  # nothing was ever told


def test_memory_is_bounded() -> None:
    kept = Kept()
    for revision in range(1, 2 * KEPT_MAX):
        kept.stored(entry("a", revision))
    assert [each.revision for each in kept.of("a")] == list(range(KEPT_MAX, 2 * KEPT_MAX))
    kept.stored(entry("a", 3))  # an old one once more is no news
    assert len(kept.of("a")) == KEPT_MAX
    one = entry("b")
    for number in range(MATCHES_MAX):
        kept.stored(replace(one, match_id=str(number)))
    assert kept.of("a") == ()
    assert len(kept.matches()) == MATCHES_MAX


async def test_another_server_is_noticed_by_the_first_connection_to_it(database_url: str) -> None:
    """The same server is the same for all connections."""
    server, changes = Server(), []
    server.on_changed = lambda: changes.append(server.identity)
    pool = await open_pool(database_url, name="test", size=3, wait_seconds=5, on_connect=server.met)
    async with pool.acquire() as one, pool.acquire() as other:
        assert await one.fetchval("select 1") == await other.fetchval("select 1")
    await pool.close()
    assert changes == []
    assert server.identity.endswith("/00000001")
    server.identity = "1794570000.000001/00000001"
    connection = await asyncpg.connect(database_url)
    await server.met(connection)
    await server.met(connection)
    await connection.close()
    assert len(changes) == 1
