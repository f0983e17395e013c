"""Rating decisions: one row and one transaction a finished match, exactly once, in the order in which matches ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

import asyncpg

from matchmaker.rating import MODEL_VERSION, NEW, Rating, rate
from services.storage.pool import Connection

Reason = Literal["rated", "unrated_mode", "void", "cancelled"]


@dataclass(frozen=True, slots=True)
class FinishedMatch:
    """An outcome that awaits its decision."""

    match_id: UUID
    ended_no: int
    rated: bool
    """Whether the match counts, if it was won."""
    north: str
    south: str
    winner: str | None
    """`north`, `south`, or nobody."""
    cause: str

    @property
    def reason(self) -> Reason:
        """Whether it is rated, and why not."""
        if not self.rated:
            return "unrated_mode"
        if self.cause == "void":
            return "void"
        if self.cause == "cancelled":
            return "cancelled"
        return "rated"


@dataclass(frozen=True, slots=True)
class Change:
    """One player's rating before and after a match."""

    before: Rating
    after: Rating


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about a match; the changes are there exactly when it was rated."""

    match_id: UUID
    rated: bool
    reason: str
    model_version: str
    north: Change | None
    south: Change | None
    decided_at: datetime


async def undecided(connection: Connection, *, after: int, limit: int) -> list[FinishedMatch]:
    """The first matches without a decision, in the order in which they ended, of those numbered above `after`."""
    rows = await connection.fetch(
        """
        select o.match_id, o.ended_no, m.rated, m.north, m.south, o.winner, o.cause
        from match_outcome o join match m using (match_id)
        where o.ended_no > $1 and not exists (select from rating_decision d where d.match_id = o.match_id)
        order by o.ended_no
        limit $2
        """,
        after,
        limit,
    )
    return [FinishedMatch(**row) for row in rows]


async def settled_mark(connection: Connection) -> int:
    """A number up to which no outcome can appear any more: none of a transaction that might still be open is below.

    Numbers are given before commits, so a smaller one may be committed later; ten minutes are far more than a
    transaction can last.
    """
    mark: int | None = await connection.fetchval(
        "select max(ended_no) from match_outcome where ended_at < clock_timestamp() - interval '10 minutes'"
    )
    return mark or 0


async def decide(connection: Connection, finished: FinishedMatch) -> bool:
    """Decide about one match, and change both ratings when it is rated. False when it was decided already.

    Both players' ratings are locked, in the order of their ids, before anything is looked at: decisions about matches
    of the same player come one after the other, whoever makes them. Raises UnknownWinnerError, and decides nothing,
    when the outcome makes no sense.
    """
    async with connection.transaction():
        if finished.reason == "rated":
            return await _decide_rated(connection, finished)
        done = await connection.execute(
            """
            insert into rating_decision (match_id, rated, reason, model_version) values ($1, false, $2, $3)
            on conflict (match_id) do nothing
            """,
            finished.match_id,
            finished.reason,
            MODEL_VERSION,
        )
        return done == "INSERT 0 1"


async def _decide_rated(connection: Connection, finished: FinishedMatch) -> bool:
    ids = {"north": finished.north, "south": finished.south}
    held = await _lock_ratings(connection, sorted(ids.values()))
    # Only now: another worker may have decided while we waited for the locks.
    if await connection.fetchval(
        "select exists (select from rating_decision where match_id = $1)", finished.match_id
    ):
        return False
    before = {seat: held[player_id] for seat, player_id in ids.items()}
    after = rate(before, finished.winner or "")
    await connection.execute(
        """
        insert into rating_decision (match_id, rated, reason, model_version,
            north_mu_before, north_sigma_before, north_mu_after, north_sigma_after,
            south_mu_before, south_sigma_before, south_mu_after, south_sigma_after)
        values ($1, true, 'rated', $2, $3, $4, $5, $6, $7, $8, $9, $10)
        """,
        finished.match_id,
        MODEL_VERSION,
        *(
            figure
            for seat in ("north", "south")
            for rating in (before[seat], after[seat])
            for figure in (rating.mu, rating.sigma)
        ),
    )
    for seat in sorted(ids, key=lambda seat: ids[seat]):
        await connection.execute(
            """
            update rating set mu = $2, sigma = $3, shown = $4, rated_matches = rated_matches + 1,
                              wins = wins + $5, updated_at = clock_timestamp()
            where player_id = $1
            """,
            ids[seat],
            after[seat].mu,
            after[seat].sigma,
            after[seat].shown,
            int(seat == finished.winner),
        )
    return True


async def _lock_ratings(connection: Connection, player_ids: list[str]) -> dict[str, Rating]:
    """Both ratings, made where they are missing and locked, in the order of `player_ids`."""
    await connection.execute(
        """
        insert into rating (player_id, mu, sigma, shown, rated_matches, wins)
        select player_id, $2, $3, $4, 0, 0 from unnest($1::text[]) as player_id order by player_id
        on conflict (player_id) do nothing
        """,
        player_ids,
        NEW.mu,
        NEW.sigma,
        NEW.shown,
    )
    rows = await connection.fetch(
        "select player_id, mu, sigma from rating where player_id = any($1::text[]) order by player_id for update",
        player_ids,
    )
    return {row["player_id"]: Rating(row["mu"], row["sigma"]) for row in rows}


async def find_decision(connection: Connection, match_id: UUID) -> Decision | None:
    """The decision about a match, if it has been made."""
    row = await connection.fetchrow("select * from rating_decision where match_id = $1", match_id)
    return None if row is None else decision_of(row)


async def is_over(connection: Connection, match_id: UUID) -> bool | None:
    """Whether a match has an outcome; None when there is no such match."""
    over: bool | None = await connection.fetchval(
        """
        select o.match_id is not null from match m left join match_outcome o using (match_id) where m.match_id = $1
        """,
        match_id,
    )
    return over


def decision_of(row: asyncpg.Record) -> Decision:
    """A decision from a row that has all columns of rating_decision."""
    return Decision(
        match_id=row["match_id"],
        rated=row["rated"],
        reason=row["reason"],
        model_version=row["model_version"],
        north=_change(row, "north"),
        south=_change(row, "south"),
        decided_at=row["decided_at"],
    )


def _change(row: asyncpg.Record, seat: str) -> Change | None:
    if not row["rated"]:
        return None
    return Change(
        Rating(row[f"{seat}_mu_before"], row[f"{seat}_sigma_before"]),
        Rating(row[f"{seat}_mu_after"], row[f"{seat}_sigma_after"]),
    )
