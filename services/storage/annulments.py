"""Named matches that operators void before they are rated, whether they are over or not.

A live match becomes void where it is played. One that is over keeps its outcome, and its result is never rated. The two
cannot miss each other: whoever declares owns the ladder, so a result is either decided before, and then it is refused,
or decided afterwards by somebody who finds the declaration.
"""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

from matchmaker.ladder import Action
from services.storage.declarations import Consequence, Declaration, Scope, ScopeKind, declare
from services.storage.pool import Connection
from services.storage.rulings import SERVICE, Act, RefusedError, Ruling, rule_as_owner
from services.storage.verdicts import own_ladder


class Voided(StrEnum):
    """What became of the match."""

    LIVE = "live"
    """It was live: whoever plays it voids it within about a second, and should it end in another way first, its result
    is annulled."""
    ANNULLED = "annulled"
    """It was over: its result will never be rated."""


async def void_match(
    connection: Connection, match_id: UUID, by: Act, incident_id: UUID, policy_version: str
) -> Voided:
    """Void a match that was not rated yet, by an incident of this id; the same id again finds what was done.

    Raises RefusedError when there is no such match, when it was rated, and when it would not be rated in any case.
    """
    async with connection.transaction():
        await own_ladder(connection)
        if (done := await _done(connection, incident_id, match_id)) is not None:
            return done
        row = await connection.fetchrow(
            """
            select m.rated, o.cause, d.reason, clock_timestamp() as now
            from match m left join match_outcome o using (match_id) left join rating_decision d using (match_id)
            where m.match_id = $1
            """,
            match_id,
        )
        if row is None:
            raise RefusedError(f"match {match_id}: there is no such match")
        over = row["cause"] is not None
        if over and row["reason"] == "rated":
            raise RefusedError(f"match {match_id}: it is rated; `rating reverse` takes it out of the ladder")
        made = Declaration(
            author=by.author,
            reason=by.reason,
            scope=Scope(ScopeKind.MATCHES, match_ids=(str(match_id),)),
            consequence=Consequence.VOID,
            # The time of the database, with which the beginning of the match is compared.
            began_at=row["now"],
            ended_at=row["now"],
            incident_id=str(incident_id),
            before_rating=True,
            via=by.via,
        )
        await declare(connection, made, policy_version)
        if not over:
            return Voided.LIVE
        ruling = Ruling(by.author, by.reason, incident_id, action=Action.ANNUL, via=by.via)
        await rule_as_owner(connection, ruling, [match_id])
        return Voided.ANNULLED


async def _done(connection: Connection, incident_id: UUID, match_id: UUID) -> Voided | None:
    row = await connection.fetchrow(
        """
        select i.detail -> 'matches' ? $2 as same, exists (
            select from rating_ruling k where k.incident_id = i.incident_id and not k.automatic
        ) as ruled
        from incident i where i.incident_id = $1
        """,
        incident_id,
        str(match_id),
    )
    if row is None:
        return None
    if not row["same"]:
        raise RefusedError(f"incident {incident_id} is another one")
    return Voided.ANNULLED if row["ruled"] else Voided.LIVE


async def annulment_of(connection: Connection, match_id: UUID) -> Ruling | None:
    """What follows for a result from a declaration that it is void before rating; None without one."""
    row = await connection.fetchrow(
        """
        select incident_id, reason from incident
        where kind = 'operator' and detail -> 'before_rating' = 'true' and detail -> 'matches' ? $1
        order by began_at, incident_id limit 1
        """,
        str(match_id),
    )
    if row is None:
        return None
    return Ruling(SERVICE, row["reason"], row["incident_id"], automatic=True, action=Action.ANNUL)
