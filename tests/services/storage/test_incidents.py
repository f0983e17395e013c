"""Incidents and what they did to matches, on a real PostgreSQL."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace

from engine.clock import SECOND
from services.storage import ownership
from services.storage.incidents import Effect, Incident, Kind, Touched, Turn, open_turns, put_touched
from services.storage.pool import Pool
from tests.services.storage.test_journal import ENGINE, entry, journal_on, new_match


def takeover(seconds: int) -> Incident:
    """Somebody went on."""
    return Incident.lasting(Kind.TAKEOVER, "game/next", seconds * SECOND, "v1", engine_id=ENGINE)


async def rows(pool: Pool, match_id: str) -> dict[str, tuple[str, int]]:
    """What each incident did to the match."""
    found = await pool.fetch(
        "select incident_id, effect, credited_ns from incident_match where match_id = $1", uuid.UUID(match_id)
    )
    return {str(row["incident_id"]): (row["effect"], row["credited_ns"]) for row in found}


async def outages(pool: Pool, *match_ids: str) -> tuple[tuple[Incident, ...], ...]:
    """The changes of owner in the open turn of each."""
    turns: dict[str, Turn] = await open_turns(pool, match_ids)
    return tuple(turns[match_id].outages for match_id in match_ids)


async def test_an_incident_recorded_by_two_takeovers_keeps_what_it_did(database_url: str) -> None:
    """A ruling after the first takeover credits, another one after the second adds; going on takes nothing back."""
    incident = takeover(8)
    async with journal_on(database_url) as (journal, pool):
        match_id = await new_match(pool)
        for fence, credited, sum_ns in ((2, 5, 5), (3, 3, 8)):
            assert len(await ownership.take_up_own(pool, ENGINE, 0)) == 1
            await put_touched(pool, [(match_id, Touched(incident, Effect.CONTINUED))])
            ruling = entry(match_id, fence - 1, fence)
            await journal.append(replace(ruling, touched=(Touched(incident, Effect.CREDITED, credited),)))
            assert await rows(pool, match_id) == {incident.incident_id: ("credited", sum_ns)}
        await put_touched(pool, [(match_id, Touched(incident, Effect.CONTINUED))])
        assert await rows(pool, match_id) == {incident.incident_id: ("credited", 8)}
        assert await pool.fetchval("select count(*) from incident") == 1


async def test_one_incident_of_many_matches_is_stored_at_once(database_url: str) -> None:
    """A process that is gone is one row, and each of its matches another one."""
    incident = takeover(8)
    async with journal_on(database_url) as (_, pool):
        ids = [await new_match(pool) for _ in range(5)]
        await put_touched(pool, [(match_id, Touched(incident, Effect.CONTINUED)) for match_id in ids])
        assert [await rows(pool, match_id) for match_id in ids] == [
            {incident.incident_id: ("continued", 0)}
        ] * 5


async def test_the_outages_of_a_turn_are_those_since_its_newest_ruling(database_url: str) -> None:
    """What a ruling has credited is not credited again; stalls and other matches are not in it."""
    async with journal_on(database_url) as (journal, pool):
        match_id, other = await new_match(pool), await new_match(pool)

        async def happens(kind: Kind, seconds: int) -> Incident:
            now = await pool.fetchval("select clock_timestamp()")
            incident = Incident.lasting(kind, "game/next", seconds * SECOND, "v1", ended_at=now)
            incident = replace(incident, engine_id=ENGINE, reason="gone", detail=json.dumps({"gap_ns": 1}))
            await put_touched(pool, [(match_id, Touched(incident, Effect.CONTINUED))])
            return incident

        first = await happens(Kind.TAKEOVER, 7)
        await happens(Kind.STALL, 1)
        second = await happens(Kind.HANDOFF, 8)
        assert await outages(pool, match_id, other) == ((first, second), ())
        assert [first.lasted_ns, second.lasted_ns] == [7 * SECOND, 8 * SECOND]
        await journal.append(entry(match_id))
        assert await outages(pool, match_id, other) == ((), ())
        third = await happens(Kind.TAKEOVER, 9)
        assert await outages(pool, match_id, other) == ((third,), ())


async def test_a_turn_is_as_old_as_the_newest_ruling(database_url: str) -> None:
    """Before the first one, as the match."""
    async with journal_on(database_url) as (journal, pool):
        match_id = await new_match(pool)
        await pool.execute("update match set created_at = clock_timestamp() - interval '1 hour'")
        assert (await open_turns(pool, [match_id]))[match_id].age_ns >= 3600 * SECOND
        await journal.append(entry(match_id))
        await journal.append(entry(match_id, 2))
        await pool.execute("update match_log set at = at - interval '1 minute' * (3 - revision)")
        age_ns = (await open_turns(pool, [match_id]))[match_id].age_ns
        assert 60 * SECOND <= age_ns < 120 * SECOND
        assert await open_turns(pool, [str(uuid.uuid4())]) == {}
