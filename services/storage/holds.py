"""Which results an incident makes doubtful: those the service holds by itself, and those a person may hold because of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from services.storage.pool import Connection

AFTER_SECONDS: Final = 60
"""How long after players were lost together a result by time is still held."""

# Whether match `o` (its owner `w`) is a match of what incident `i` is about.
_THERE: Final = """
    case when i.kind = 'operator' and i.detail ->> 'scope' = 'all' then true
         when i.kind = 'operator' and i.detail ->> 'scope' = 'matches' then i.detail -> 'matches' ? o.match_id::text
         else w.engine_id = i.engine_id
              or exists (select from incident_match t
                         where t.match_id = o.match_id and t.incident_id = i.incident_id)
              or exists (select from incident_match t join incident k on k.incident_id = t.incident_id
                         where t.match_id = o.match_id and k.kind in ('takeover', 'handoff')
                           and k.engine_id = i.engine_id and k.ended_at >= i.began_at)
    end
"""
# Whether the service holds the result by itself.
_HOLDS: Final = f"""
    i.kind in ('operator', 'mass_disconnect') and o.ended_at >= i.began_at
    and case i.kind when 'operator'
        then i.detail ->> 'effect' = 'hold' and o.ended_at <= coalesce(i.ended_at, 'infinity')
        else o.cause = 'time' and o.ended_at <= coalesce(i.ended_at, 'infinity') + interval '{AFTER_SECONDS} s'
    end and {_THERE}
"""
# Whether a person who names the incident means the result.
_CONCERNS: Final = f"""
    case when i.kind = 'operator'
        then o.ended_at between i.began_at and coalesce(i.ended_at, 'infinity') and {_THERE}
        when i.kind = 'mass_disconnect' then {_HOLDS}
        else exists (select from incident_match t where t.match_id = o.match_id and t.incident_id = i.incident_id)
    end
"""
_WON_RATED: Final = "m.rated and o.winner is not null"


@dataclass(frozen=True, slots=True)
class Holding:
    """An incident that holds results."""

    incident_id: UUID
    settled: bool
    """Its window is long over: no result can appear in it any more."""


async def incident_over(connection: Connection, match_id: UUID) -> tuple[UUID, str] | None:
    """The first incident that holds this result, with what was said about it."""
    row = await connection.fetchrow(
        f"""
        select i.incident_id, coalesce(nullif(i.reason, ''), i.kind) as reason
        from match_outcome o left join match_owner w using (match_id) join incident i on {_HOLDS}
        where o.match_id = $1 order by i.began_at, i.incident_id limit 1
        """,  # noqa: S608 - made of the constants above
        match_id,
    )
    return None if row is None else (row["incident_id"], row["reason"])


async def holdings(connection: Connection) -> list[Holding]:
    """Every incident that holds results by itself, the earliest first."""
    rows = await connection.fetch(
        """
        select incident_id, coalesce(ended_at < clock_timestamp() - interval '10 minutes', false) as settled
        from incident i
        where kind in ('operator', 'mass_disconnect') and (kind <> 'operator' or detail ->> 'effect' = 'hold')
        order by began_at, incident_id
        """
    )
    return [Holding(row["incident_id"], row["settled"]) for row in rows]


async def overlooked(connection: Connection, incident_id: UUID) -> list[UUID]:
    """Results that were rated before the incident was known and that it holds; none about which anybody has ruled."""
    rows = await connection.fetch(
        f"""
        select o.match_id from incident i
        join match_outcome o on o.ended_at >= i.began_at
                             and o.ended_at <= coalesce(i.ended_at, 'infinity') + interval '{AFTER_SECONDS} s'
        join match m using (match_id)
        join rating_decision d on d.match_id = o.match_id left join match_owner w on w.match_id = o.match_id
        where i.incident_id = $1 and d.reason = 'rated' and {_WON_RATED} and {_HOLDS}
          and not exists (select from rating_ruled r where r.match_id = o.match_id)
        order by o.ended_no
        """,  # noqa: S608 - made of the constants above
        incident_id,
    )
    return [row["match_id"] for row in rows]


async def concerned(connection: Connection, incident_id: UUID) -> list[UUID] | None:
    """Every rated result that a person means who names this incident; None when there is no such incident."""
    if not await connection.fetchval(
        "select exists (select from incident where incident_id = $1)", incident_id
    ):
        return None
    rows = await connection.fetch(
        f"""
        select o.match_id from incident i
        cross join match_outcome o join match m using (match_id) left join match_owner w on w.match_id = o.match_id
        where i.incident_id = $1 and {_WON_RATED} and {_CONCERNS} order by o.ended_no
        """,  # noqa: S608 - made of the constants above
        incident_id,
    )
    return [row["match_id"] for row in rows]


async def reason_of(connection: Connection, incident_id: UUID) -> str:
    """What was said about an incident; its kind when nothing was."""
    reason: str = await connection.fetchval(
        "select coalesce(nullif(reason, ''), kind) from incident where incident_id = $1", incident_id
    )
    return reason
