"""Incidents and what they did to matches, on a real PostgreSQL."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace

from engine.clock import SECOND
from services.storage import ownership
from services.storage.incidents import Effect, Incident, Kind, Touched, outages_of_turns, put_touched
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
        assert await outages_of_turns(pool, [match_id, other]) == {match_id: (first, second)}
        assert [first.lasted_ns, second.lasted_ns] == [7 * SECOND, 8 * SECOND]
        await journal.append(entry(match_id))
        assert await outages_of_turns(pool, [match_id, other]) == {}
        third = await happens(Kind.TAKEOVER, 9)
        assert await outages_of_turns(pool, [match_id, other]) == {match_id: (third,)}
