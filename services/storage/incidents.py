"""Incidents: what went wrong, who noticed, and what it did to which matches."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

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
    # In one order for everybody, as in `touching_sql`.
    ordered = sorted({each.incident_id: each for each in incidents}.items())
    await connection.executemany(_PUT, [_facts(incident) for _, incident in ordered])


INCIDENT: Final = (
    ("incident_id", "uuid"),
    ("kind", "text"),
    ("noticed_by", "text"),
    ("engine_id", "text"),
    ("incarnation", "text"),
    ("clock_id", "text"),
    ("timeline_id", "text"),
    ("from_ns", "bigint"),
    ("to_ns", "bigint"),
    ("began_at", "timestamptz"),
    ("ended_at", "timestamptz"),
    ("policy_version", "text"),
    ("reason", "text"),
    ("detail", "text"),
)
TOUCHED: Final = (
    ("incident_id", "uuid"),
    ("match_id", "uuid"),
    ("effect", "text"),
    ("credited_ns", "bigint"),
)


_PUT: Final = f"""
    insert into incident ({", ".join(name for name, _ in INCIDENT)})
    values ({", ".join(f"${number}" for number in range(1, len(INCIDENT) + 1))})
    on conflict (incident_id) do nothing
"""  # noqa: S608 - made of the constants above


def touching_sql(first: int) -> str:
    """Common table expressions that store what incidents did to those matches whose ids `stored`, another one, has as
    `match_id`, and the incidents with that: everything rests on them. Parameters: `touching_columns`, from number
    `first` on.

    What the same incident did to the same match before stays: credits add up, and going on takes no effect back.
    """
    touches = ", ".join(f"${number}::{kind}[]" for number, (_, kind) in enumerate(TOUCHED, first))
    facts = ", ".join(
        f"${number}::{kind}[]" for number, (_, kind) in enumerate(INCIDENT, first + len(TOUCHED))
    )
    columns = ", ".join(name for name, _ in INCIDENT)
    # In one order for everybody: two transactions that store the same ones wait for each other and never in a circle.
    return f"""touching as (
        select t.* from unnest({touches}) as t ({", ".join(name for name, _ in TOUCHED)})
        where t.match_id in (select match_id from stored)
    ), noticed as (
        insert into incident ({columns})
        select {columns.replace(", detail", ", detail::jsonb")} from unnest({facts}) as i ({columns})
        where incident_id in (select incident_id from touching) order by incident_id
        on conflict (incident_id) do nothing
    ), touched as (
        insert into incident_match (incident_id, match_id, effect, credited_ns)
        select incident_id, match_id, effect, credited_ns from touching order by incident_id, match_id
        on conflict (incident_id, match_id) do update
        set effect = case when excluded.effect = 'continued' then incident_match.effect else excluded.effect end,
            credited_ns = incident_match.credited_ns + excluded.credited_ns
    )"""  # noqa: S608 - made of the constants above


def touching_columns(touches: Iterable[tuple[str, Touched]]) -> list[list[Any]]:
    """The parameters: what incidents did to matches, given by their ids."""
    incidents: dict[str, Incident] = {}
    effects: dict[tuple[str, str], tuple[Effect, int]] = {}
    for match_id, each in touches:
        key = (each.incident.incident_id, match_id)
        incidents[key[0]] = each.incident
        # One row each: a statement that meets the same row twice is refused.
        effect, credited_ns = effects.get(key, (each.effect, 0))
        effect = effect if each.effect is Effect.CONTINUED else each.effect
        effects[key] = (effect, credited_ns + each.credited_ns)
    rows = [(*key, effect.value, credited_ns) for key, (effect, credited_ns) in effects.items()]
    facts = [_facts(incident) for incident in incidents.values()]
    return [*map(list, zip(*rows, strict=True)), *map(list, zip(*facts, strict=True))]


def _facts(incident: Incident) -> tuple[Any, ...]:
    return (
        incident.incident_id,
        incident.kind.value,
        *(getattr(incident, name) for name, _ in INCIDENT[2:]),
    )


_TOUCH: Final = f"""
    with stored as (select * from unnest($1::uuid[]) as s (match_id)), {touching_sql(2)} select
"""  # noqa: S608 - made of constants


async def put_touched(connection: Connection | Pool, touches: Sequence[tuple[str, Touched]]) -> None:
    """Stores what incidents did to matches, given by their ids, and the incidents with that. One statement."""
    if touches:
        columns = touching_columns(touches)
        await connection.execute(_TOUCH, columns[1], *columns)


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
