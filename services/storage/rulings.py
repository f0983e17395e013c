"""Rulings about results: recorded acts with author and reason, and everything that follows from them in one transaction."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from matchmaker.ladder import Action, NonsenseError, Treatment, rule, treatment_of
from services.storage import holds
from services.storage.pool import Connection
from services.storage.refold import ENDED, Ended, Refold, Summary, ended_of
from services.storage.verdicts import Verdict, own_ladder, verdict_of

SERVICE: Final = "service/ladder"
"""The author of what the service rules by itself. No person's name has a slash."""
RECOMPUTE: Final = "recompute"
"""The action of a recorded repair: it is about no match, and changes decisions all the same."""


Via = Literal["operations", "database"]
"""How a person's act comes about: through matchmaking, by token; or straight in the database, in an emergency."""


@dataclass(frozen=True, slots=True)
class Act:
    """Who does something about the ladder, and why."""

    author: str
    reason: str
    incident_id: UUID | None = None
    automatic: bool = False
    """By the service, not by a person."""
    via: Via = field(default="database", kw_only=True)
    """How a person did it. An act straight in the database is kept with the user who was connected there."""


@dataclass(frozen=True, slots=True)
class Ruling(Act):
    """An act about results."""

    action: Action = field(kw_only=True)
    ruling_id: UUID = field(default_factory=uuid.uuid4, kw_only=True)


class RefusedError(Exception):
    """The ruling makes no sense, and nothing was changed; the text says why, a line a match."""


async def make_ruling(connection: Connection, ruling: Ruling, match_ids: Sequence[UUID]) -> Summary:
    """Stores a ruling and makes every decision again that it reaches, in one transaction: all or nothing.

    Waits for workers that decide now, and they wait for it. A match whose decision is not made yet is decided as ruled.
    Raises RefusedError, and UnknownModelError when a decision cannot be computed by this release.
    """
    async with connection.transaction():
        await own_ladder(connection)
        return await rule_as_owner(connection, ruling, match_ids)


async def hold_overlooked(connection: Connection, incident_id: UUID) -> Summary:
    """Holds what was rated before the incident was known."""
    # Looked at without the lock first: nearly always there is nothing.
    if not await holds.overlooked(connection, incident_id):
        return Summary()
    async with connection.transaction():
        await own_ladder(connection)
        match_ids = await holds.overlooked(connection, incident_id)
        if not match_ids:
            return Summary()
        reason = await holds.reason_of(connection, incident_id)
        return await rule_as_owner(connection, automatic_hold(incident_id, reason), match_ids)


def automatic_hold(incident_id: UUID, reason: str) -> Ruling:
    """What the service rules because of an incident."""
    return Ruling(SERVICE, reason, incident_id, automatic=True, action=Action.HOLD)


async def rule_as_owner(connection: Connection, ruling: Ruling, match_ids: Sequence[UUID]) -> Summary:
    """As `make_ruling`; the caller owns the ladder and holds the transaction."""
    ended = await _ended(connection, match_ids)
    before = await treatments(connection, match_ids)
    after: dict[UUID, Treatment] = {}
    faults = [] if match_ids else ["no match is named"]
    for match_id in dict.fromkeys(match_ids):
        try:
            after[match_id] = _next(ended, match_id, before[match_id].treatment, ruling.action)
        except NonsenseError as fault:
            faults.append(f"match {match_id}: {fault}")
    if faults:
        raise RefusedError("\n".join(faults))
    await put_ruling(connection, ruling, list(after))
    found = [each for each in ended.values() if each is not None]
    return await Refold(connection, ruling.ruling_id).run(min(each.ended_no for each in found), after)


def _next(
    ended: Mapping[UUID, Ended | None], match_id: UUID, treatment: Treatment, action: Action
) -> Treatment:
    if match_id not in ended:
        raise NonsenseError("there is no such match")
    match = ended[match_id]
    if match is None:
        raise NonsenseError("it is not finished")
    why = match.result.reason()
    if why != "rated":
        raise NonsenseError(f"it is not rated in any case ({why})")
    return rule(treatment, action)


async def put_ruling(connection: Connection, ruling: Ruling, match_ids: Sequence[UUID]) -> None:
    """Stores a ruling about these matches; what follows from it is the caller's, in the same transaction."""
    await _put(connection, ruling.ruling_id, ruling.action.value, ruling)
    await connection.executemany(
        "insert into rating_ruled (match_id, ruling_id) values ($1, $2)",
        [(match_id, ruling.ruling_id) for match_id in match_ids],
    )


async def put_recompute(connection: Connection, by: Act) -> UUID:
    """Stores that decisions are made again from outcomes and rulings; its id."""
    ruling_id = uuid.uuid4()
    await _put(connection, ruling_id, RECOMPUTE, by)
    return ruling_id


async def _put(connection: Connection, ruling_id: UUID, action: str, by: Act) -> None:
    await connection.execute(
        """
        insert into rating_ruling (ruling_id, action, author, reason, automatic, incident_id, via, database_user)
        values ($1, $2, $3, $4, $5, $6, $7, case when $7 = 'database' then session_user end)
        """,
        ruling_id,
        action,
        by.author,
        by.reason,
        by.automatic,
        by.incident_id,
        "service" if by.automatic else by.via,
    )


async def _ended(connection: Connection, match_ids: Sequence[UUID]) -> dict[UUID, Ended | None]:
    """The matches that exist; None for those that are not over."""
    rows = await connection.fetch(
        f"""
        select {ENDED}, m.match_id as id from match m left join match_outcome o using (match_id)
        where m.match_id = any($1::uuid[])
        """,  # noqa: S608 - made of the constant above
        list(match_ids),
    )
    return {row["id"]: None if row["match_id"] is None else ended_of(row) for row in rows}


@dataclass(frozen=True, slots=True)
class Ruled:
    """What the rulings about a match come to, and the newest of them."""

    treatment: Treatment = Treatment.COUNTS
    ruling_id: UUID | None = None


async def treatments(
    connection: Connection, match_ids: Sequence[UUID] | None = None
) -> defaultdict[UUID, Ruled]:
    """What the stored rulings come to, for these matches or for all; nothing for those without."""
    wanted = "where r.match_id = any($1::uuid[])" if match_ids is not None else ""
    rows = await connection.fetch(
        f"""
        select r.match_id, array_agg(k.action order by k.ruling_no) as actions,
               (array_agg(k.ruling_id order by k.ruling_no desc))[1] as newest
        from rating_ruled r join rating_ruling k using (ruling_id) {wanted} group by r.match_id
        """,  # noqa: S608 - made of constants
        *([] if match_ids is None else [list(match_ids)]),
    )
    found: defaultdict[UUID, Ruled] = defaultdict(Ruled)
    for row in rows:
        found[row["match_id"]] = Ruled(treatment_of(map(Action, row["actions"])), row["newest"])
    return found


@dataclass(frozen=True, slots=True)
class Held:
    """A result that waits for a person."""

    match_id: UUID
    north: str
    south: str
    ended_at: datetime
    author: str
    reason: str
    incident_id: UUID | None


async def list_held(connection: Connection, limit: int) -> list[Held]:
    """The results that are held, the earliest first."""
    rows = await connection.fetch(
        """
        select d.match_id, m.north, m.south, o.ended_at, r.author, r.reason, r.incident_id
        from rating_decision d join match m using (match_id) join match_outcome o using (match_id)
        join rating_ruling r on r.ruling_id = d.ruling_id
        where d.reason = 'held' order by o.ended_no limit $1
        """,
        limit,
    )
    return [Held(**row) for row in rows]


async def held_by(connection: Connection, incident_id: UUID) -> list[UUID]:
    """The results that are held because of an incident, in the order in which they ended."""
    rows = await connection.fetch(
        """
        select d.match_id from rating_decision d join match_outcome o using (match_id)
        join rating_ruling r on r.ruling_id = d.ruling_id
        where d.reason = 'held' and r.incident_id = $1 order by o.ended_no
        """,
        incident_id,
    )
    return [row["match_id"] for row in rows]


async def count_held(connection: Connection) -> int:
    """How many results wait for a person."""
    held: int = await connection.fetchval("select count(*) from rating_decision where reason = 'held'")
    return held


@dataclass(frozen=True, slots=True)
class Said:
    """What a decision said once, and the ruling that changed it."""

    revision: int
    verdict: Verdict
    superseded_by: UUID
    superseded_at: datetime


@dataclass(frozen=True, slots=True)
class NamedRuling:
    """A stored ruling; `action` may also be `recompute`."""

    ruling_id: UUID
    action: str
    author: str
    reason: str
    incident_id: UUID | None
    at: datetime


async def rulings_about(connection: Connection, match_id: UUID) -> list[NamedRuling]:
    """The rulings about a match, and those about others that changed its decision; in their order."""
    rows = await connection.fetch(
        """
        select ruling_id, action, author, reason, incident_id, at from rating_ruling
        where ruling_id in (select ruling_id from rating_ruled where match_id = $1
                            union select superseded_by from rating_revision where match_id = $1)
        order by ruling_no
        """,
        match_id,
    )
    return [NamedRuling(**row) for row in rows]


async def revisions(connection: Connection, match_id: UUID) -> list[Said]:
    """What the decision about a match said before, oldest first."""
    rows = await connection.fetch(
        "select * from rating_revision where match_id = $1 order by revision", match_id
    )
    return [
        Said(row["revision"], verdict_of(row), row["superseded_by"], row["superseded_at"]) for row in rows
    ]
