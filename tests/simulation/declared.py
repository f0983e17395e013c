"""Incidents that operators of a world declare, and what a game process finds of them in the database."""

from __future__ import annotations

import json
from random import Random
from typing import Any
from uuid import UUID

from engine.clock import SECOND
from services.storage.declarations import Consequence, ScopeKind
from services.storage.incidents import Kind
from tests.simulation.database import Backend, Database, Row, Tables, live, says

COLUMNS = (
    *(
        "incident_id",
        "kind",
        "noticed_by",
        "began_at",
        "ended_at",
        "policy_version",
        "engine_id",
        "incarnation",
    ),
    *("clock_id", "timeline_id", "from_ns", "to_ns", "reason", "detail"),
)
LATE_NS = 40 * SECOND
"""By then a declaration has reached every match, whatever else goes wrong that may not cost a match."""


def declare(database: Database, dice: Random, incident_id: str, engines: tuple[str, ...]) -> None:
    """Somebody says that something happened, and perhaps that matches are void because of it."""
    tables = database.tables
    scope = dice.choice(tuple(ScopeKind))
    effect = dice.choice((Consequence.VOID, Consequence.VOID, Consequence.NOTE))
    named = [dice.choice(sorted(tables.match))] if scope is ScopeKind.MATCHES and tables.match else []
    detail = {"author": "somebody", "effect": effect.value, "scope": scope.value, "matches": named}
    tables.incident[incident_id] = {
        **dict.fromkeys(COLUMNS),
        "incident_id": incident_id,
        "kind": Kind.OPERATOR.value,
        "noticed_by": "operator/somebody",
        "began_at": database.wall(),
        "ended_at": database.wall(),
        "policy_version": "v1",
        "engine_id": dice.choice(engines) if scope is ScopeKind.ENGINE else None,
        "reason": "something happened",
        "detail": json.dumps(detail),
        "true_at": database.world.now,
    }


def concerns(tables: Tables, incident: Row, match_id: str, engine_id: str) -> bool:
    """Whether a declaration voids a live match of this game process."""
    if incident["kind"] != Kind.OPERATOR.value or incident["ended_at"] is None:
        return False
    detail = json.loads(incident["detail"])
    if detail["effect"] != Consequence.VOID.value or incident["ended_at"] < tables.match[match_id].created_at:
        return False
    if detail["scope"] == ScopeKind.ALL.value:
        return True
    if detail["scope"] == ScopeKind.MATCHES.value:
        return match_id in detail["matches"]
    return incident["engine_id"] == engine_id or any(
        touched == match_id
        and tables.incident[other]["kind"] in ("takeover", "handoff")
        and tables.incident[other]["engine_id"] == incident["engine_id"]
        and tables.incident[other]["ended_at"] >= incident["began_at"]
        for other, touched in tables.touched
    )


@says("select distinct on (o.match_id) o.match_id")
def void_by_declaration(backend: Backend, tables: Tables, engine_id: str) -> list[Row]:
    """The live matches of a game process that a declaration concerns, each with the first of those."""
    rows: list[Row] = []
    for match_id, owner in live(tables):
        if owner["engine_id"] != engine_id:
            continue
        found = [each for each in tables.incident.values() if concerns(tables, each, match_id, engine_id)]
        if found:
            first: dict[str, Any] = min(found, key=lambda each: (each["began_at"], each["incident_id"]))
            row = {name: first[name] for name in COLUMNS}
            rows.append({"match_id": UUID(match_id), **row, "incident_id": UUID(first["incident_id"])})
    return rows
