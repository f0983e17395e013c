"""What must hold between the tables of a database, whatever was restored, copied or repaired: asked in SQL, of all rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from services.storage.pool import Connection

SHOWN_MAX: Final = 20
"""Faults of one kind that are named; the others are counted."""

RULES: Final[Mapping[str, str]] = {
    "the log has no holes": """
        select match_id::text as what from match_log group by match_id
        having min(revision) <> 1 or max(revision) <> count(*) or min(first_sequence) <> 1
            or max(last_sequence) <> sum(last_sequence - first_sequence + 1)
            or max(last_sequence) <> sum(jsonb_array_length(events))
    """,
    "a log is in one place": """
        select a.match_id::text as what from match_archive a
        where exists (select from match_log l where l.match_id = a.match_id)
    """,
    "whatever has an outcome has a log, which says that it ended": """
        select o.match_id::text as what from match_outcome o
        where not exists (select from match_archive a where a.match_id = o.match_id) and not exists (
            select from match_log l where l.match_id = o.match_id and l.events @> '[{"type": "match_ended"}]'
        )
    """,
    "a log that says that the match ended has an outcome": """
        select l.match_id::text as what from match_log l
        where l.events @> '[{"type": "match_ended"}]'
          and not exists (select from match_outcome o where o.match_id = l.match_id)
    """,
    "whoever is seated is in a match that is not over": """
        select s.player_id || ' in ' || s.match_id as what from live_seat s join match_outcome o using (match_id)
    """,
    "the players of a match that is not over are seated in it": """
        select p.player_id || ' in ' || m.match_id as what
        from match m join player p on p.player_id in (m.north, m.south)
        where not p.bot and not exists (select from match_outcome o where o.match_id = m.match_id)
          and not exists (select from live_seat s where s.player_id = p.player_id and s.match_id = m.match_id)
          and not exists (select from invitation i where i.invited = p.player_id and i.match_id = m.match_id)
    """,
    "a match has an owner until it is over": """
        select m.match_id::text as what
        from match m left join match_owner w using (match_id) left join match_outcome o using (match_id)
        where w.match_id is null or (w.released_at is null) <> (o.match_id is null)
    """,
    "a loss on time and a void have their evidence": """
        select o.match_id::text as what from match_outcome o left join clock_evidence e using (evidence_id)
        where o.cause in ('time', 'void') and (e.evidence_id is null or e.match_id <> o.match_id)
    """,
    "a ruling about a result is kept with the decision": """
        select d.match_id::text as what from rating_decision d
        where d.reason in ('held', 'reversed', 'annulled')
          and not exists (select from rating_ruled r where r.match_id = d.match_id and r.ruling_id = d.ruling_id)
    """,
    "whatever awaits its rating decision is on the list of what does, and nothing else": """
        select coalesce(u.match_id, o.match_id)::text as what
        from rating_due u
        full join (
            select match_id, ended_no from match_outcome o
            where not exists (select from rating_decision d where d.match_id = o.match_id)
        ) o on o.match_id = u.match_id and o.ended_no = u.ended_no
        where u.match_id is null or o.match_id is null
    """,
    "the counts that ranks are made of are those of the players": """
        select coalesce(c.shown, r.shown)::text || ' points' as what
        from (select shown, sum(players) as players from rating_count group by shown having sum(players) <> 0) c
        full join (select shown, count(*) as players from rating where rated_matches > 0 group by shown) r
          on r.shown = c.shown
        where c.players is distinct from r.players
    """,
}
"""Each rule in words, with the query for what breaks it."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that does not hold."""

    rule: str
    count: int
    first: tuple[str, ...]


async def broken_rules(connection: Connection) -> list[Broken]:
    """The rules that do not hold, from one snapshot of the caller's transaction."""
    found = []
    for rule, query in RULES.items():
        rows = await connection.fetch(
            f"select what, count(*) over () as count from ({query}) broken order by what limit {SHOWN_MAX}"  # noqa: S608 - constants
        )
        if rows:
            found.append(Broken(rule, rows[0]["count"], tuple(row["what"] for row in rows)))
    return found


@dataclass(frozen=True, slots=True)
class Ended:
    """A finished match with its points."""

    match_id: UUID
    north_balance: int
    south_balance: int


async def newest_ended(connection: Connection, limit: int) -> list[Ended]:
    """The matches that ended last."""
    rows = await connection.fetch(
        "select match_id, north_balance, south_balance from match_outcome order by ended_no desc limit $1",
        limit,
    )
    return [Ended(**row) for row in rows]


async def live_matches(connection: Connection) -> list[UUID]:
    """The matches that are not over."""
    rows = await connection.fetch(
        "select match_id from match m where not exists (select from match_outcome o where o.match_id = m.match_id)"
    )
    return [row["match_id"] for row in rows]
