"""Incidents: what went wrong, who noticed, and what it did to which matches."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from services.storage.pool import Connection, Pool

NEAR_SECONDS: Final = 60.0
"""A loss on time so soon after an incident is worth a second look."""
NOTABLE_SECONDS: Final = 1.0
"""Shorter ones happen on any busy machine: they are credited, and they are no trouble."""


class Kind(StrEnum):
    """What went wrong."""

    STALL = "stall"
    """A game process did not listen for a while."""
    TAKEOVER = "takeover"
    """A game process was gone; another, or its next incarnation, went on."""
    HANDOFF = "handoff"
    """A game process left in an orderly way."""
    CLOCK_LOST = "clock_lost"
    """A game process had no clock for a while."""
    CLOCK_DISRUPTION = "clock_disruption"
    """Two clocks that should agree moved against each other."""
    COMMIT_STALLED = "commit_stalled"
    """The database did not take rulings for a while."""
    MASS_DISCONNECT = "mass_disconnect"
    """Many players lost their streams at once while the processes were well."""
    OPERATOR = "operator"
    """Declared by a person."""
    LOG_LOST = "log_lost"
    """The database came back without rulings that it had acknowledged."""


class Effect(StrEnum):
    """What an incident did to a match."""

    CONTINUED = "continued"
    CREDITED = "credited"
    HELD = "held"
    VOID = "void"


@dataclass(frozen=True, slots=True)
class Incident:
    """One incident. Instants in nanoseconds on `timeline_id`."""

    incident_id: str
    kind: Kind
    noticed_by: str
    began_at: datetime
    ended_at: datetime | None
    policy_version: str
    engine_id: str | None = None
    incarnation: str | None = None
    clock_id: str | None = None
    timeline_id: str | None = None
    from_ns: int | None = None
    to_ns: int | None = None
    reason: str = ""
    detail: str = "{}"
    """JSON."""

    @staticmethod
    def lasting(
        kind: Kind,
        noticed_by: str,
        size_ns: int,
        policy_version: str,
        *,
        ended_at: datetime | None = None,
        **more: object,
    ) -> Incident:
        """An incident that lasted `size_ns` and is over since `ended_at`, now if that is not said."""
        ended = ended_at or datetime.now(UTC)
        return Incident(
            **{  # type: ignore[arg-type]
                "incident_id": str(uuid.uuid4()),
                "kind": kind,
                "noticed_by": noticed_by,
                "began_at": ended - timedelta(microseconds=size_ns / 1000),
                "ended_at": ended,
                "policy_version": policy_version,
                **more,
            }
        )

    @property
    def lasted_ns(self) -> int:
        """How long it lasted, to the microsecond; 0 while it does."""
        return (
            0
            if self.ended_at is None
            else (self.ended_at - self.began_at) // timedelta(microseconds=1) * 1000
        )


@dataclass(frozen=True, slots=True)
class Touched:
    """What an incident did to one match."""

    incident: Incident
    effect: Effect
    credited_ns: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """What a match waits for."""

    age_ns: int
    """How long ago its newest ruling was stored, by the database's clock."""
    outages: tuple[Incident, ...] = ()
    """The changes of owner since then, oldest first: no ruling credits them yet."""


async def put_incidents(connection: Connection | Pool, incidents: Iterable[Incident]) -> None:
    """Stores incidents; those already stored stay as they are."""
    # In one order for everybody: two transactions that store the same ones wait for each other and never in a circle.
    ordered = sorted({each.incident_id: each for each in incidents}.items())
    await connection.executemany(
        """
        insert into incident (incident_id, kind, noticed_by, engine_id, incarnation, clock_id, timeline_id, from_ns,
                              to_ns, began_at, ended_at, policy_version, reason, detail)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
        on conflict (incident_id) do nothing
        """,
        [
            (
                uuid.UUID(incident.incident_id),
                incident.kind.value,
                incident.noticed_by,
                incident.engine_id,
                incident.incarnation,
                incident.clock_id,
                incident.timeline_id,
                incident.from_ns,
                incident.to_ns,
                incident.began_at,
                incident.ended_at,
                incident.policy_version,
                incident.reason,
                incident.detail,
            )
            for _, incident in ordered
        ],
    )


async def put_touched(connection: Connection | Pool, touches: Sequence[tuple[str, Touched]]) -> None:
    """Stores what incidents did to matches, given by their ids; the incidents first, since everything rests on them.

    What the same incident did to the same match before stays: credits add up, and going on takes no effect back.
    """
    await put_incidents(connection, [each.incident for _, each in touches])
    await connection.executemany(
        """
        insert into incident_match (incident_id, match_id, effect, credited_ns) values ($1, $2, $3, $4)
        on conflict (incident_id, match_id) do update
        set effect = case when excluded.effect = 'continued' then incident_match.effect else excluded.effect end,
            credited_ns = incident_match.credited_ns + excluded.credited_ns
        """,
        [
            (uuid.UUID(each.incident.incident_id), uuid.UUID(match_id), each.effect.value, each.credited_ns)
            for match_id, each in touches
        ],
    )


async def put_touches(connection: Connection | Pool, touches: Sequence[tuple[str, str, Effect]]) -> None:
    """Stores what stored incidents did to matches without crediting them; what is stored already stays."""
    await connection.executemany(
        """
        insert into incident_match (incident_id, match_id, effect)
        select i.incident_id, m.match_id, $3 from incident i, match m where i.incident_id = $1 and m.match_id = $2
        on conflict (incident_id, match_id) do nothing
        """,
        [
            (uuid.UUID(incident_id), uuid.UUID(match_id), effect.value)
            for incident_id, match_id, effect in touches
        ],
    )


async def open_turns(connection: Connection | Pool, match_ids: Sequence[str]) -> dict[str, Turn]:
    """What each of these matches waits for since its newest ruling.

    The caller has made sure that nobody adds another ruling meanwhile.
    """
    rows = await connection.fetch(
        """
        select m.match_id, (extract(epoch from clock_timestamp() - coalesce(l.at, m.created_at)) * 1e9)::bigint as age,
               i.incident_id, i.kind, i.noticed_by, i.began_at, i.ended_at, i.policy_version, i.engine_id, i.reason,
               i.detail
        from match m
        left join lateral (
            select at from match_log where match_id = m.match_id order by revision desc limit 1
        ) l on true
        left join (incident_match x join incident i on i.incident_id = x.incident_id)
            on x.match_id = m.match_id and i.kind in ('takeover', 'handoff')
            and i.ended_at > coalesce(l.at, '-infinity')
        where m.match_id = any($1::uuid[])
        order by m.match_id, i.ended_at
        """,
        [uuid.UUID(match_id) for match_id in match_ids],
    )
    ages: dict[str, int] = {}
    outages: dict[str, list[Incident]] = {}
    for row in map(dict, rows):
        match_id, age_ns, incident_id = str(row.pop("match_id")), row.pop("age"), row.pop("incident_id")
        ages[match_id] = max(0, age_ns)
        if incident_id is not None:
            incident = Incident(**{**row, "incident_id": str(incident_id), "kind": Kind(row["kind"])})
            outages.setdefault(match_id, []).append(incident)
    return {match_id: Turn(age_ns, tuple(outages.get(match_id, ()))) for match_id, age_ns in ages.items()}
