"""Rating decisions: one row and one transaction a finished match, exactly once, in the order in which matches ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

import asyncpg

from matchmaker.ladder import Change, Reason, Treatment
from matchmaker.rating import MODEL_VERSION, NEW, Rating, rate
from services.storage import annulments, holds
from services.storage.pool import Connection
from services.storage.refold import ENDED, Ended, Refold, ended_of
from services.storage.rulings import SERVICE, Act, automatic_hold, put_recompute, put_ruling, treatments
from services.storage.verdicts import Verdict, own_ladder, put_verdict, share_ladder, verdict_of


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about a match; the changes are there exactly when it was rated."""

    match_id: UUID
    rated: bool
    reason: Reason
    model_version: str
    north: Change | None
    south: Change | None
    decided_at: datetime
    revision: int = 1
    """From 1; one more with each change of the decision."""
    incident_id: UUID | None = None
    """The incident because of which it is held or was ruled about."""
    evidence_id: UUID | None = None
    """The stored evidence of a forfeit or void."""
    explanation: str = ""
    """What was said by whoever ruled last about the match."""


class _LateError(Exception):
    """Later matches of the same players are decided already."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """A finished match without a decision."""

    ended: Ended
    waited_seconds: float
    """Since it ended, by the database's clock."""


async def undecided(connection: Connection, *, after: int, limit: int) -> list[Ended]:
    """The first matches without a decision, in the order in which they ended, of those numbered above `after`."""
    return [found.ended for found in await backlog(connection, after=after, limit=limit)]


async def backlog(connection: Connection, *, after: int, limit: int) -> list[Undecided]:
    """The same, and how long each has waited."""
    rows = await connection.fetch(
        f"""
        select {ENDED}, extract(epoch from clock_timestamp() - o.ended_at)::double precision as waited
        from (select match_id from rating_due where ended_no > $1 order by ended_no limit $2) due
        join match_outcome o using (match_id) join match m using (match_id)
        order by o.ended_no
        """,  # noqa: S608 - made of a constant
        after,
        limit,
    )
    return [Undecided(ended_of(row), max(0.0, row["waited"])) for row in rows]


async def decide(connection: Connection, ended: Ended) -> Reason | None:
    """Decide about one match, and change both ratings when it is rated. None when it was decided already.

    Both players' ratings are locked, in the order of their ids, before anything is looked at: decisions about matches
    of the same player come one after the other, whoever makes them. A result that an incident makes doubtful is held,
    and that is recorded as a ruling. Where later matches of the players are decided already, those are made again.
    Raises UnknownWinnerError, and decides nothing, when the outcome makes no sense.
    """
    try:
        async with connection.transaction():
            await share_ladder(connection)
            return await _decide(connection, ended)
    except _LateError:
        async with connection.transaction():
            await own_ladder(connection)
            return await _decide_late(connection, ended)


async def _decide(connection: Connection, ended: Ended) -> Reason | None:
    result, reason = ended.result, ended.result.reason()
    if reason != "rated":
        made = await put_verdict(connection, ended.match_id, Verdict(reason, MODEL_VERSION))
        return reason if made else None
    ratings, newest = await _lock_ratings(connection, sorted(result.players.values()))
    # Only now: another worker may have decided while we waited for the locks.
    verdict = await _ruled(connection, ended)
    if verdict is None:
        return None
    if verdict.reason == "rated":
        if ended.ended_no < newest:
            raise _LateError
        before = {seat: ratings[player] for seat, player in result.players.items()}
        after = rate(before, result.winner or "")
        changes = {seat: Change(before[seat], after[seat]) for seat in before}
        verdict = Verdict("rated", MODEL_VERSION, verdict.ruling_id, changes)
    await put_verdict(connection, ended.match_id, verdict)
    await _store_ratings(connection, ended, verdict)
    return verdict.reason


async def _decide_late(connection: Connection, ended: Ended) -> Reason | None:
    """As `_decide`, and everything later that it reaches again. The caller owns the ladder."""
    await _lock_ratings(connection, sorted(ended.result.players.values()))
    verdict = await _ruled(connection, ended)
    if verdict is None:
        return None
    if verdict.reason == "rated":
        late = f"match {ended.match_id} was decided after later ones"
        ruling_id = await put_recompute(connection, Act(SERVICE, late, automatic=True))
        refold = Refold(connection, ruling_id)
        verdict = await refold.insert(ended, verdict)
        await refold.run(ended.ended_no + 1)
    await put_verdict(connection, ended.match_id, verdict)
    # Their ratings are those after their newest match already.
    await _store_ratings(connection, ended, Verdict(verdict.reason, verdict.model_version))
    return verdict.reason


async def _ruled(connection: Connection, ended: Ended) -> Verdict | None:
    """What has been ruled about a match that would be rated: by people, or now because of an incident.

    None when it is decided already.
    """
    if await _is_decided(connection, ended.match_id):
        return None
    ruled = (await treatments(connection, [ended.match_id]))[ended.match_id]
    settled = ruled.treatment in (Treatment.REVERSED, Treatment.ANNULLED)
    if not settled and (annulled := await annulments.annulment_of(connection, ended.match_id)):
        await put_ruling(connection, annulled, [ended.match_id])
        return Verdict(ended.result.reason(Treatment.ANNULLED), MODEL_VERSION, annulled.ruling_id)
    if ruled.ruling_id is None and (found := await holds.incident_over(connection, ended.match_id)):
        ruling = automatic_hold(*found)
        await put_ruling(connection, ruling, [ended.match_id])
        return Verdict(ended.result.reason(Treatment.HELD), MODEL_VERSION, ruling.ruling_id)
    return Verdict(ended.result.reason(ruled.treatment), MODEL_VERSION, ruled.ruling_id)


async def _is_decided(connection: Connection, match_id: UUID) -> bool:
    return bool(
        await connection.fetchval("select exists (select from rating_decision where match_id = $1)", match_id)
    )


async def _store_ratings(connection: Connection, ended: Ended, verdict: Verdict) -> None:
    """Stores what the newest match of both players has made of them; only its number when it is not rated."""
    await connection.execute(
        """
        update rating r
        set mu = coalesce(t.mu, r.mu), sigma = coalesce(t.sigma, r.sigma), shown = coalesce(t.shown, r.shown),
            rated_matches = r.rated_matches + (t.mu is not null)::integer, wins = r.wins + t.won::integer,
            newest_ended_no = greatest(r.newest_ended_no, $6), updated_at = clock_timestamp()
        from unnest($1::text[], $2::double precision[], $3::double precision[], $4::integer[], $5::boolean[])
            as t (player_id, mu, sigma, shown, won)
        where r.player_id = t.player_id
        """,
        *zip(
            *(_row(ended, verdict, seat, player) for seat, player in ended.result.players.items()),
            strict=True,
        ),
        ended.ended_no,
    )


def _row(ended: Ended, verdict: Verdict, seat: str, player: str) -> tuple[object, ...]:
    if verdict.changes is None:
        return player, None, None, None, False
    after = verdict.changes[seat].after
    return player, after.mu, after.sigma, after.shown, seat == ended.result.winner


async def _lock_ratings(connection: Connection, player_ids: list[str]) -> tuple[dict[str, Rating], int]:
    """Both ratings, made where they are missing and locked, in the order of `player_ids`; and the number of the newest
    match of either that is decided."""
    rows = await connection.fetch(_LOCKED, player_ids)
    if len(rows) < len(player_ids):
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
        rows = await connection.fetch(_LOCKED, player_ids)
    ratings = {row["player_id"]: Rating(row["mu"], row["sigma"]) for row in rows}
    return ratings, max(row["newest_ended_no"] for row in rows)


_LOCKED: Final = """
    select player_id, mu, sigma, newest_ended_no from rating
    where player_id = any($1::text[]) order by player_id for update
"""


async def find_decision(connection: Connection, match_id: UUID) -> Decision | None:
    """The decision about a match, if it has been made."""
    row = await connection.fetchrow(
        f"""
        select d.*, {RESTS_ON} from rating_decision d
        join match_outcome o using (match_id) left join rating_ruling k on k.ruling_id = d.ruling_id
        where d.match_id = $1
        """,  # noqa: S608 - made of a constant
        match_id,
    )
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


RESTS_ON = "k.incident_id, o.evidence_id, coalesce(k.reason, '') as explanation"
"""What a decision rests on: columns of match_outcome `o` and of its newest rating_ruling `k`, if there is one."""


def decision_of(row: asyncpg.Record) -> Decision:
    """A decision from a row that has all columns of rating_decision, and RESTS_ON."""
    verdict = verdict_of(row)
    changes = verdict.changes or {}
    return Decision(
        match_id=row["match_id"],
        rated=verdict.rated,
        reason=verdict.reason,
        model_version=verdict.model_version,
        north=changes.get("north"),
        south=changes.get("south"),
        decided_at=row["decided_at"],
        revision=row["revision"],
        incident_id=row["incident_id"],
        evidence_id=row["evidence_id"],
        explanation=row["explanation"],
    )
