"""Incidents as they are looked at afterwards: what each did to which matches, and what became of their results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from services.storage.incidents import Incident, Kind
from services.storage.pool import Connection

_COLUMNS: Final = """
    i.incident_id::text, i.kind, i.noticed_by, i.began_at, i.ended_at, i.policy_version, i.engine_id, i.incarnation,
    i.clock_id, i.timeline_id, i.from_ns, i.to_ns, i.reason, i.detail
"""
# What rests on incident `i`: matches it touched, those a declaration names, those that were ruled about because of it.
_CONCERNED: Final = """
    select t.match_id from incident_match t where t.incident_id = i.incident_id
    union
    select named::uuid from jsonb_array_elements_text(i.detail -> 'matches') as named
    where i.kind = 'operator' and i.detail ->> 'scope' = 'matches'
    union
    select r.match_id from rating_ruled r join rating_ruling k on k.ruling_id = r.ruling_id
    where k.incident_id = i.incident_id
"""


@dataclass(frozen=True, slots=True)
class Listed:
    """An incident with what it did."""

    incident: Incident
    voided: int
    credited: int
    held: int
    """How many matches it voided, how many it was credited to, and how many results are held because of it now."""


@dataclass(frozen=True, slots=True)
class Concerned:
    """A match that an incident touched, that it names, or that was ruled about because of it."""

    match_id: str
    north: str
    south: str
    rated: bool
    effect: str
    """What the incident did to it: `continued`, `credited`, `held` or `void`; empty when it did not touch it."""
    credited_ns: int
    """Time it was credited because of this incident."""
    winner: str | None
    cause: str | None
    """How it ended; None while it is live."""
    detail: str
    ended_at: datetime | None
    evidence_id: str | None
    evidence_kind: str | None
    evidence: str
    """What the evidence of its end says in words; may be empty."""
    decision: str | None
    """The reason word of its rating decision; None when there is none yet."""
    revision: int
    rulings: tuple[str, ...]
    """What was ruled about it because of this incident, in order: `hold by ada: why`."""


@dataclass(frozen=True, slots=True)
class Report:
    """An incident in detail."""

    incident: Incident
    facts: dict[str, Any]
    """What whoever noticed it has kept about it."""
    concerned: tuple[Concerned, ...]
    more: int
    """Matches that were left out because there are so many."""


async def list_incidents(
    connection: Connection,
    kinds: Sequence[Kind],
    *,
    lasting: bool = False,
    since: datetime | None = None,
    limit: int = 50,
) -> list[Listed]:
    """The newest incidents of these kinds; `lasting`: only those without an end; `since`: that were not over by then."""
    rows = await connection.fetch(
        f"""
        select {_COLUMNS},
            (select count(*) from incident_match m where m.incident_id = i.incident_id and effect = 'void') as voided,
            (select count(*) from incident_match m where m.incident_id = i.incident_id and effect = 'credited')
                as credited,
            (select count(*) from rating_ruling k join rating_decision d on d.ruling_id = k.ruling_id
             where k.incident_id = i.incident_id and d.reason = 'held') as held
        from incident i
        where i.kind = any($1::text[]) and (not $2 or i.ended_at is null)
          and ($3::timestamptz is null or i.ended_at is null or i.ended_at >= $3)
        order by i.began_at desc, i.incident_id limit $4
        """,  # noqa: S608 - made of the constant above
        [kind.value for kind in kinds],
        lasting,
        since,
        limit,
    )
    return [Listed(_incident(row), row["voided"], row["credited"], row["held"]) for row in map(dict, rows)]


async def get_report(connection: Connection, incident_id: UUID, *, limit: int = 100) -> Report | None:
    """An incident with the matches that rest on it, the earliest first; None when there is no such incident."""
    row = await connection.fetchrow(
        f"select {_COLUMNS} from incident i where i.incident_id = $1",  # noqa: S608 - made of a constant
        incident_id,
    )
    if row is None:
        return None
    matches = await connection.fetch(
        f"""
        select m.match_id::text, m.north, m.south, m.rated, coalesce(t.effect, '') as effect,
               coalesce(t.credited_ns, 0) as credited_ns, o.winner, o.cause, coalesce(o.detail, '') as detail,
               o.ended_at, e.evidence_id::text, e.kind as evidence_kind,
               coalesce(e.detail ->> 'summary', '') as evidence, d.reason as decision,
               coalesce(d.revision, 0) as revision,
               array(select k.action || ' by ' || k.author || ': ' || k.reason
                     from rating_ruled r join rating_ruling k on k.ruling_id = r.ruling_id
                     where r.match_id = m.match_id and k.incident_id = i.incident_id order by k.ruling_no) as rulings,
               count(*) over () as whole
        from incident i cross join lateral ({_CONCERNED}) c
        join match m on m.match_id = c.match_id
        left join incident_match t on t.incident_id = i.incident_id and t.match_id = m.match_id
        left join match_outcome o on o.match_id = m.match_id
        left join clock_evidence e on e.evidence_id = o.evidence_id
        left join rating_decision d on d.match_id = m.match_id
        where i.incident_id = $1
        order by m.created_at, m.match_id limit $2
        """,  # noqa: S608 - made of the constant above
        incident_id,
        limit,
    )
    concerned = []
    whole = 0
    for each in map(dict, matches):
        whole = each.pop("whole")
        concerned.append(Concerned(**{**each, "rulings": tuple(each["rulings"])}))
    return Report(_incident(dict(row)), json.loads(row["detail"]), tuple(concerned), whole - len(concerned))


def _incident(row: dict[str, Any]) -> Incident:
    fields = {name: row[name] for name in Incident.__dataclass_fields__ if name in row}
    return Incident(**{**fields, "kind": Kind(row["kind"])})
