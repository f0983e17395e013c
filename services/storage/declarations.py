"""Incidents that a person declares, and the matches that are void because of them."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from services.storage.incidents import Incident, Kind, put_incidents
from services.storage.pool import Connection, Pool
from services.storage.rulings import Via


class Consequence(StrEnum):
    """What a declaration does."""

    VOID = "void"
    """Voids the live matches it concerns. What is over stays as it is."""
    HOLD = "hold"
    """Live matches go on; rated results of the window do not count until a person has ruled about them."""
    NOTE = "note"
    """Nothing: it is there to be read."""


class ScopeKind(StrEnum):
    """Which matches a declaration concerns."""

    ALL = "all"
    ENGINE = "engine"
    MATCHES = "matches"


@dataclass(frozen=True, slots=True)
class Scope:
    """The matches: all, those of one game process in the window, or named ones."""

    kind: ScopeKind
    engine_id: str | None = None
    match_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Declaration:
    """What an operator says happened. Times are wall times: a person speaks of no timeline."""

    author: str
    reason: str
    scope: Scope
    consequence: Consequence
    began_at: datetime
    ended_at: datetime | None
    """None while it lasts; a declaration that voids has an end."""
    incident_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    before_rating: bool = False
    """Whether a named match is void even if it is over, as long as it has not been rated (`annulments`)."""
    via: Via = "database"


class UnknownMatchError(Exception):
    """A match that is named does not exist; the text says which."""


class UnknownGameProcessError(Exception):
    """No game process has ever had the name that is given; the text says it."""


class TooEarlyError(Exception):
    """A declared incident would have ended before it began."""


async def declare(connection: Connection, declaration: Declaration, policy_version: str) -> None:
    """Stores a declaration; declaring it twice stores it once. Raises UnknownMatchError, UnknownGameProcessError."""
    scope = declaration.scope
    # A name with a slip in it would concern nothing, and whoever declares it in a hurry would not notice.
    if scope.engine_id is not None and not await connection.fetchval(
        "select exists (select from engine_lease where engine_id = $1)", scope.engine_id
    ):
        raise UnknownGameProcessError(scope.engine_id)
    if scope.match_ids:
        known = await connection.fetch(
            "select match_id::text from match where match_id = any($1::uuid[])", list(scope.match_ids)
        )
        missing = set(scope.match_ids) - {row["match_id"] for row in known}
        if missing:
            raise UnknownMatchError(", ".join(sorted(missing)))
    detail = {
        "author": declaration.author,
        "effect": declaration.consequence.value,
        "scope": scope.kind.value,
        "matches": list(scope.match_ids),
        **({"before_rating": True} if declaration.before_rating else {}),
        **await _signed(connection, "declared", declaration.via),
    }
    incident = Incident(
        incident_id=declaration.incident_id,
        kind=Kind.OPERATOR,
        noticed_by=f"operator/{declaration.author}",
        began_at=declaration.began_at,
        ended_at=declaration.ended_at,
        policy_version=policy_version,
        engine_id=scope.engine_id,
        reason=declaration.reason,
        detail=json.dumps(detail),
    )
    await put_incidents(connection, [incident])


async def _signed(connection: Connection, what: str, via: Via) -> dict[str, str]:
    """When something is done and how; straight in the database, who is connected there."""
    row = await connection.fetchrow("select clock_timestamp() as at, session_user::text as who")
    assert row is not None
    signed = {f"{what}_at": row["at"].isoformat(), f"{what}_via": via}
    return signed if via == "operations" else signed | {f"{what}_database_user": row["who"]}


async def close(
    connection: Connection,
    incident_id: str,
    *,
    author: str,
    reason: str,
    ended_at: datetime | None,
    via: Via = "database",
) -> bool:
    """Ends a declared incident that still lasts, saying who ended it and why; False when there is none.

    None is now. The same author saying the same again is told that it is done. Raises TooEarlyError: what it held until
    now would be let go by a slip in a date.
    """
    if ended_at is not None and await connection.fetchval(
        """
        select exists (select from incident where incident_id = $1 and kind = 'operator' and ended_at is null
                       and began_at > $2)
        """,
        uuid.UUID(incident_id),
        ended_at,
    ):
        raise TooEarlyError
    row = await connection.fetchval(
        """
        update incident
        set ended_at = greatest(coalesce($2, clock_timestamp()), began_at),
            detail = detail || jsonb_build_object('closed_by', $3::text, 'closed_reason', $4::text) || $5::jsonb
        where incident_id = $1 and kind = 'operator' and ended_at is null
        returning true
        """,
        uuid.UUID(incident_id),
        ended_at,
        author,
        reason,
        json.dumps(await _signed(connection, "closed", via)),
    )
    if row is None:
        row = await connection.fetchval(
            """
            select exists (select from incident where incident_id = $1 and kind = 'operator'
                           and detail ->> 'closed_by' = $2 and detail ->> 'closed_reason' = $3)
            """,
            uuid.UUID(incident_id),
            author,
            reason,
        )
    return bool(row)


_COLUMNS = """
    i.incident_id, i.kind, i.noticed_by, i.began_at, i.ended_at, i.policy_version, i.engine_id, i.incarnation,
    i.clock_id, i.timeline_id, i.from_ns, i.to_ns, i.reason, i.detail
"""


async def void_by_declaration(connection: Connection | Pool, engine_id: str) -> list[tuple[str, Incident]]:
    """The live matches of a game process that a declaration concerns: they existed before the end of its window. A
    process may declare one void, too, that another goes on with without what its players were told.

    A match that was taken up from another process since the window began is also one of that process.
    """
    rows = await connection.fetch(
        f"""
        select distinct on (o.match_id) o.match_id, {_COLUMNS}
        from match_owner o
        join match m on m.match_id = o.match_id
        join incident i on i.kind in ('operator', 'log_lost') and i.detail ->> 'effect' = 'void' and i.ended_at >= m.created_at
        where o.engine_id = $1 and o.released_at is null and case i.detail ->> 'scope'
            when 'all' then true
            when 'matches' then i.detail -> 'matches' ? o.match_id::text
            else i.engine_id = o.engine_id or exists (
                select from incident_match t join incident k on k.incident_id = t.incident_id
                where t.match_id = o.match_id and k.kind in ('takeover', 'handoff')
                  and k.engine_id = i.engine_id and k.ended_at >= i.began_at
            )
        end
        order by o.match_id, i.began_at, i.incident_id
        """,  # noqa: S608 - made of the constant above
        engine_id,
    )
    return [(str(row.pop("match_id")), _incident(row)) for row in map(dict, rows)]


def _incident(row: dict[str, object]) -> Incident:
    return Incident(**{**row, "incident_id": str(row["incident_id"]), "kind": Kind(str(row["kind"]))})  # type: ignore[arg-type]
