"""Later decisions after an earlier one has changed: exactly those it reaches are made again.

A change reaches the two players of its match; with each later match it reaches their opponents, and so on. Everything
else stays as it is, to the last bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

import asyncpg

from matchmaker.ladder import Change, Result, Treatment
from matchmaker.rating import NEW, Rating, model
from services.storage.pool import Connection
from services.storage.verdicts import SEATS, VERDICT, Verdict, replace_verdicts, verdict_of

FETCHED_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Ended:
    """A finished match with its place in the order."""

    match_id: UUID
    ended_no: int
    result: Result


@dataclass(frozen=True, slots=True)
class Shift:
    """What became of the decision about one match."""

    ended: Ended
    before: Verdict
    after: Verdict


@dataclass(frozen=True, slots=True)
class Moved:
    """What became of one player's rating."""

    player_id: str
    before: Rating
    after: Rating


@dataclass(slots=True)
class Summary:
    """What a ruling has changed."""

    matches: list[Shift] = field(default_factory=list)
    """In the order in which they ended."""
    players: list[Moved] = field(default_factory=list)
    """In the order of their ids."""


def ended_of(row: asyncpg.Record) -> Ended:
    """A finished match from a row with the columns of ENDED."""
    return Ended(
        row["match_id"],
        row["ended_no"],
        Result(row["counts"], row["north"], row["south"], row["winner"], row["cause"]),
    )


ENDED = "o.match_id, o.ended_no, m.rated as counts, m.north, m.south, o.winner, o.cause"
"""Columns of match_outcome `o` and match `m`."""


async def decided(connection: Connection, from_no: int) -> AsyncIterator[tuple[Ended, Verdict]]:
    """The decided matches that ended at this number or later, in order. Inside a transaction only."""
    query = f"""
        select {ENDED}, {VERDICT} from match_outcome o join match m using (match_id)
        join rating_decision d on d.match_id = o.match_id
        where o.ended_no >= $1 order by o.ended_no
    """  # noqa: S608 - made of the constant above
    async for row in connection.cursor(query, from_no, prefetch=FETCHED_AT_ONCE):
        yield ended_of(row), verdict_of(row)


class Refold:
    """Makes decisions again from one match on. The caller owns the ladder and holds the transaction."""

    def __init__(self, connection: Connection, ruling_id: UUID) -> None:
        self._connection = connection
        self._ruling_id = ruling_id
        self._moved: dict[str, Rating] = {}
        """Players who are reached, with their ratings so far."""
        self._matches: Counter[str] = Counter()
        self._wins: Counter[str] = Counter()
        self._shifts: list[Shift] = []

    async def insert(self, ended: Ended, verdict: Verdict) -> Verdict:
        """Decide about a match that comes after later ones; the verdict with the changes of that place."""
        before = {
            seat: await self._rating_before(player, ended.ended_no)
            for seat, player in ended.result.players.items()
        }
        made = self._again(ended, verdict, "rated", before)
        self._count(ended.result, 1)
        self._reach(ended.result, verdict, made, before)
        return made

    async def run(self, from_no: int, treatments: Mapping[UUID, Treatment] | None = None) -> Summary:
        """Makes all later decisions again that are reached. `treatments`: of the matches that are ruled about.

        Raises UnknownModelError when a decision was made with a model of another release; the transaction must then
        be rolled back.
        """
        treatments = treatments or {}
        async for ended, verdict in decided(self._connection, from_no):
            ruled = ended.match_id in treatments
            reached = any(player in self._moved for player in ended.result.players.values())
            if not ruled and not (verdict.rated and reached):
                continue
            reason = ended.result.reason(treatments[ended.match_id]) if ruled else verdict.reason
            before = {
                seat: await self._before(ended, verdict, seat, player)
                for seat, player in ended.result.players.items()
            }
            ruling_id = self._ruling_id if ruled else verdict.ruling_id
            made = self._again(
                ended, Verdict(verdict.reason, verdict.model_version, ruling_id), reason, before
            )
            self._count(ended.result, int(made.rated) - int(verdict.rated))
            self._reach(ended.result, verdict, made, before)
            if made != verdict:
                self._shifts.append(Shift(ended, verdict, made))
        shifts = [(shift.ended.match_id, shift.after) for shift in self._shifts]
        await replace_verdicts(self._connection, shifts, self._ruling_id)
        return Summary(self._shifts, await self._store_ratings())

    def _again(self, ended: Ended, verdict: Verdict, reason: str, before: dict[str, Rating]) -> Verdict:
        changes = None
        if reason == "rated":
            after = model(verdict.model_version)(before, ended.result.winner or "")
            changes = {seat: Change(before[seat], after[seat]) for seat in SEATS}
        return Verdict(reason, verdict.model_version, verdict.ruling_id, changes)  # type: ignore[arg-type]

    async def _before(self, ended: Ended, verdict: Verdict, seat: str, player: str) -> Rating:
        if player in self._moved:
            return self._moved[player]
        if verdict.changes is not None:
            return verdict.changes[seat].before
        return await self._rating_before(player, ended.ended_no)

    async def _rating_before(self, player: str, ended_no: int) -> Rating:
        """What the player's last rated match before this one has left."""
        row = await self._connection.fetchrow(
            """
            select d.*, m.north = $1 as is_north
            from match m join match_outcome o using (match_id) join rating_decision d using (match_id)
            where (m.north = $1 or m.south = $1) and d.rated and o.ended_no < $2
            order by o.ended_no desc limit 1
            """,
            player,
            ended_no,
        )
        if row is None:
            return NEW
        changes = verdict_of(row).changes
        assert changes is not None
        return changes["north" if row["is_north"] else "south"].after

    def _count(self, result: Result, by: int) -> None:
        if by:
            for seat, player in result.players.items():
                self._matches[player] += by
                self._wins[player] += by * (seat == result.winner)

    def _reach(self, result: Result, stored: Verdict, made: Verdict, before: dict[str, Rating]) -> None:
        for seat, player in result.players.items():
            after = before[seat] if made.changes is None else made.changes[seat].after
            if stored.changes is not None:
                as_stored = after == stored.changes[seat].after
            else:
                as_stored = made.changes is None and player not in self._moved
            if as_stored:
                self._moved.pop(player, None)
            else:
                self._moved[player] = after

    async def _store_ratings(self) -> list[Moved]:
        """Stores the ratings and counts of all who were reached."""
        rows = await self._connection.fetch(
            "select player_id, mu, sigma from rating where player_id = any($1::text[]) order by player_id",
            list({*self._moved, *self._matches}),
        )
        stored = {row["player_id"]: Rating(row["mu"], row["sigma"]) for row in rows}
        await self._connection.executemany(
            """
            update rating set mu = $2, sigma = $3, shown = $4, rated_matches = rated_matches + $5, wins = wins + $6,
                              updated_at = clock_timestamp()
            where player_id = $1
            """,
            [
                (player, after.mu, after.sigma, after.shown, self._matches[player], self._wins[player])
                for player, rating in stored.items()
                for after in (self._moved.get(player, rating),)
            ],
        )
        return [
            Moved(player, rating, self._moved[player])
            for player, rating in stored.items()
            if self._moved.get(player, rating) != rating
        ]
