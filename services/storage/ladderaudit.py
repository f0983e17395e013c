"""The whole ladder built again from outcomes and rulings, beside the one that is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from uuid import UUID

from matchmaker.ladder import Ladder, Record
from matchmaker.rating import Rating
from services.storage.pool import Connection
from services.storage.refold import ENDED, FETCHED_AT_ONCE, Ended, ended_of
from services.storage.rulings import Act, Ruled, Via, put_recompute, treatments
from services.storage.sessions import WHOLE_SECONDS, statement_seconds
from services.storage.verdicts import (
    REPLACED_AT_ONCE,
    VERDICT,
    Verdict,
    own_ladder,
    replace_verdicts,
    verdict_of,
)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where what is stored is not what follows."""

    what: str
    """`match ID` or `player ID`."""
    stored: str
    expected: str

    def __str__(self) -> str:
        return f"{self.what}: stored {self.stored}, expected {self.expected}"


@dataclass(slots=True)
class Audit:
    """What was looked at and found."""

    matches: int = 0
    players: int = 0
    undecided: int = 0
    """Finished matches without a decision yet; the ladder without them is compared."""
    differences: list[Difference] = field(default_factory=list)
    out_of_order: int = 0
    """How many of the differences are decisions that were made before an earlier one of the same player. No repair is
    about those: they are made again when the earlier one is made."""
    ruling_id: UUID | None = None
    """The recorded repair."""


async def check(connection: Connection) -> Audit:
    """Compare in one snapshot; changes nothing and stops nobody. Raises UnknownModelError."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        await connection.execute(statement_seconds(WHOLE_SECONDS))
        return await compare(connection)


async def compare(connection: Connection) -> Audit:
    """The same, in the caller's transaction."""
    return await _Audit(connection).run()


async def repair(connection: Connection, author: str, reason: str, via: Via = "database") -> Audit:
    """Store what follows where something else is stored, as a recorded ruling; what was stored is kept.

    Nobody decides meanwhile. Nothing is recorded when there is no difference. Raises UnknownModelError.
    """
    async with connection.transaction():
        await own_ladder(connection)
        audit = _Audit(connection)
        found = await audit.run()
        if audit.found_fault:
            found.ruling_id = await put_recompute(connection, Act(author, reason, via=via))
            await replace_verdicts(connection, audit.verdicts, found.ruling_id)
            await audit.store_ratings()
        return found


class _Audit:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._ladder = Ladder()
        self._found = Audit()
        self.verdicts: list[tuple[UUID, Verdict]] = []
        """What should be decided where something else is."""
        self._records: list[tuple[str, Record]] = []
        self._newest: dict[str, int] = {}
        """The numbers of the players' newest decided results that count or could: an older one is late."""
        self._waiting: dict[str, UUID] = {}
        """Players of a match without a decision, which no later one of theirs may have."""

    async def run(self) -> Audit:
        ruled = await treatments(self._connection)
        async for ended, stored in self._finished():
            if stored is None:
                self._found.undecided += 1
                if ended.result.reason() == "rated":
                    self._waiting |= dict.fromkeys(ended.result.players.values(), ended.match_id)
                continue
            self._found.matches += 1
            about = ruled.get(ended.match_id, Ruled())
            changes = self._ladder.take(ended.result, about.treatment, stored.model_version)
            reason = ended.result.reason(about.treatment)
            expected = Verdict(reason, stored.model_version, about.ruling_id, changes)
            if stored != expected:
                self.verdicts.append((ended.match_id, expected))
                self._differ(f"match {ended.match_id}", _verdict(stored), _verdict(expected))
            if ended.result.reason() == "rated":
                self._newest |= dict.fromkeys(ended.result.players.values(), ended.ended_no)
            self._in_order(ended, stored)
        await self._players()
        return self._found

    async def _finished(self) -> AsyncIterator[tuple[Ended, Verdict | None]]:
        query = f"""
            select {ENDED}, {VERDICT}
            from match_outcome o join match m using (match_id)
            left join rating_decision d on d.match_id = o.match_id order by o.ended_no
        """  # noqa: S608 - made of a constant
        async for row in self._connection.cursor(query, prefetch=FETCHED_AT_ONCE):
            yield ended_of(row), None if row["reason"] is None else verdict_of(row)

    def _in_order(self, ended: Ended, stored: Verdict) -> None:
        for player in ended.result.players.values() if stored.rated else ():
            if player in self._waiting:
                self._found.out_of_order += 1
                self._differ(f"match {ended.match_id}", "decided", f"match {self._waiting[player]} before it")

    async def _players(self) -> None:
        rows = await self._connection.fetch(
            """
            select player_id, mu, sigma, shown, rated_matches, wins, newest_ended_no from rating order by player_id
            """
        )
        records = self._ladder.records
        self._found.players = len(records)
        for player in sorted(records.keys() - {row["player_id"] for row in rows}):
            self._records.append((player, records[player]))
            self._differ(f"player {player}", "nothing", _record(records[player]))
        for row in rows:
            stored = Record(Rating(row["mu"], row["sigma"]), row["rated_matches"], row["wins"])
            expected = records.get(row["player_id"], Record())
            if stored != expected or row["shown"] != expected.rating.shown:
                self._records.append((row["player_id"], expected))
                said = _record(stored, row["shown"])
                self._differ(f"player {row['player_id']}", said, _record(expected))
            elif row["newest_ended_no"] < (newest := self._newest.get(row["player_id"], 0)):
                self._records.append((row["player_id"], expected))
                said = f"newest result {row['newest_ended_no']}"
                self._differ(f"player {row['player_id']}", said, f"newest result {newest}")

    def _differ(self, what: str, stored: str, expected: str) -> None:
        self._found.differences.append(Difference(what, stored, expected))

    @property
    def found_fault(self) -> bool:
        """Whether something stored is not as it should be (what only awaits its decision is decided by a worker)."""
        return bool(self.verdicts or self._records)

    async def store_ratings(self) -> None:
        for first in range(0, len(self._records), REPLACED_AT_ONCE):
            await self._connection.executemany(
                """
                insert into rating as r (player_id, mu, sigma, shown, rated_matches, wins, newest_ended_no)
                values ($1, $2, $3, $4, $5, $6, $7)
                on conflict (player_id) do update
                set mu = $2, sigma = $3, shown = $4, rated_matches = $5, wins = $6,
                    newest_ended_no = greatest(r.newest_ended_no, $7), updated_at = clock_timestamp()
                """,
                [
                    (
                        player,
                        record.rating.mu,
                        record.rating.sigma,
                        record.rating.shown,
                        record.rated_matches,
                        record.wins,
                        self._newest.get(player, 0),
                    )
                    for player, record in self._records[first : first + REPLACED_AT_ONCE]
                ],
            )


def _verdict(verdict: Verdict) -> str:
    rests = f" by ruling {verdict.ruling_id}" if verdict.ruling_id else ""
    changes = "".join(
        f"; {seat} {_rating(change.before)} to {_rating(change.after)}"
        for seat, change in (verdict.changes or {}).items()
    )
    return f"{verdict.reason}{rests}{changes}"


def _record(record: Record, shown: int | None = None) -> str:
    points = record.rating.shown if shown is None else shown
    return f"{_rating(record.rating)}, shown {points}, {record.wins} wins in {record.rated_matches}"


def _rating(rating: Rating) -> str:
    # Every digit: a difference in the last bit is one.
    return f"{rating.mu!r} ± {rating.sigma!r}"
