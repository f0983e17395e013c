"""Everything that is stored about the time of one match: what a dispute is settled with."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

from services.storage.matchlog import read_log
from services.storage.pool import Connection


@dataclass(frozen=True, slots=True)
class TimedRow:
    """One ruling with its stamps; those are None where no clock ran. Nanoseconds."""

    revision: int
    fence: int
    at: datetime
    events: list[Any]
    seat: str | None
    request_id: str | None
    turn: int | None
    start_ns: int | None
    arrive_ns: int | None
    timeline_id: str | None
    carried_ns: int | None
    elapsed_ns: int | None
    consumed_ns: int | None
    charge_ns: int | None
    bank_after_ns: int | None
    credited_ns: int | None
    clock_id: str | None
    policy_version: str | None


@dataclass(frozen=True, slots=True)
class TouchRow:
    """What an incident did to the match."""

    incident_id: str
    kind: str
    noticed_by: str
    began_at: datetime
    ended_at: datetime | None
    reason: str
    effect: str
    credited_ns: int


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """How the match ended, with the evidence behind it."""

    winner: str | None
    cause: str
    detail: str
    ended_at: datetime
    evidence_id: str | None
    evidence_kind: str | None
    evidence: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class TimeFacts:
    """The whole."""

    bank_ns: int
    delay_ns: int
    script: str | None
    same_device: bool
    log: tuple[TimedRow, ...]
    touches: tuple[TouchRow, ...]
    outcome: OutcomeRow | None


_TIMED: Final = tuple(field.name for field in fields(TimedRow))


async def get_time_facts(connection: Connection, match_id: str) -> TimeFacts | None:
    """Everything about one match's time, from one snapshot of the database; None for an unknown match."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        return await read_time_facts(connection, match_id)


async def read_time_facts(connection: Connection, match_id: str) -> TimeFacts | None:
    """The same, in the caller's transaction."""
    key = uuid.UUID(match_id)
    match = await connection.fetchrow(
        "select bank_ns, delay_ns, script, mode = 'same_device' as same_device from match where match_id = $1",
        key,
    )
    if match is None:
        return None
    log = await read_log(connection, match_id, _TIMED)
    touches = await connection.fetch(
        """
        select i.incident_id, i.kind, i.noticed_by, i.began_at, i.ended_at, i.reason, m.effect, m.credited_ns
        from incident_match m join incident i on i.incident_id = m.incident_id
        where m.match_id = $1 order by i.began_at, i.incident_id
        """,
        key,
    )
    outcome = await connection.fetchrow(
        """
        select o.winner, o.cause, o.detail, o.ended_at, o.evidence_id, e.kind, e.detail as evidence
        from match_outcome o left join clock_evidence e on e.evidence_id = o.evidence_id
        where o.match_id = $1
        """,
        key,
    )
    return TimeFacts(
        bank_ns=match["bank_ns"],
        delay_ns=match["delay_ns"],
        script=match["script"],
        same_device=match["same_device"],
        log=tuple(TimedRow(**{**row, "events": json.loads(row["events"])}) for row in map(dict, log)),
        touches=tuple(
            TouchRow(**{**row, "incident_id": str(row["incident_id"])}) for row in map(dict, touches)
        ),
        outcome=None
        if outcome is None
        else OutcomeRow(
            winner=outcome["winner"],
            cause=outcome["cause"],
            detail=outcome["detail"],
            ended_at=outcome["ended_at"],
            evidence_id=None if outcome["evidence_id"] is None else str(outcome["evidence_id"]),
            evidence_kind=outcome["kind"],
            evidence=None if outcome["evidence"] is None else json.loads(outcome["evidence"]),
        ),
    )
