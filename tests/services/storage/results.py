"""Finished matches straight in the database, the plain fold over them, and connections that die at a chosen statement."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import asyncpg

from matchmaker.rating import NEW, Rating, rate
from services.storage import ladder
from services.storage.pool import Connection, Pool


@dataclass
class Finished:
    """One finished match, and what has been ruled about it."""

    match_id: UUID
    north: str
    south: str
    winner: str | None
    cause: str
    rated: bool
    engine: str
    ruled: str = ""
    """The newest action: hold, release, reverse."""

    @property
    def counts(self) -> bool:
        """Whether it changes ratings."""
        return self.rated and self.winner is not None and self.ruled in ("", "release")

    @property
    def reason(self) -> str:
        """What the decision must say."""
        if not self.rated:
            return "unrated_mode"
        if self.winner is None:
            return self.cause
        return {"hold": "held", "reverse": "reversed"}.get(self.ruled, "rated")


async def put_players(connection: Connection, players: Sequence[str]) -> None:
    """Players with these ids."""
    await connection.executemany(
        "insert into player (player_id, name) values ($1, $1) on conflict do nothing", [(p,) for p in players]
    )


async def put_result(
    connection: Connection,
    north: str,
    south: str,
    winner: str | None = "north",
    cause: str = "resignation",
    *,
    rated: bool = True,
    engine: str = "game-1",
    detail: str = "",
) -> Finished:
    """A match that has just ended."""
    made = Finished(uuid.uuid4(), north, south, winner, cause, rated, engine)
    await put_players(connection, (north, south))
    evidence = uuid.uuid4() if cause == "time" else None
    async with connection.transaction():
        await connection.execute(
            """
            insert into match (match_id, mode, rated, north, south, bank_ns, delay_ns, start_limit_ns, continue_limit_ns)
            values ($1, $2, $3, $4, $5, 120000000000, 10000000000, 1, 1)
            """,
            made.match_id,
            "rated" if rated else "casual",
            rated,
            north,
            south,
        )
        await connection.execute(
            "insert into match_owner (match_id, engine_id, fence) values ($1, $2, 1)", made.match_id, engine
        )
        if evidence is not None:
            await connection.execute(
                """
                insert into clock_evidence (evidence_id, kind, match_id, engine_id, incarnation, policy_version, detail)
                values ($1, 'timeout', $2, $3, 'i', 'v1', '{}')
                """,
                evidence,
                made.match_id,
                engine,
            )
        await connection.execute(
            """
            insert into match_outcome (match_id, winner, cause, evidence_id, fence, north_balance, south_balance, detail)
            values ($1, $2, $3, $4, 1, $5, 300 - $5, $6)
            """,
            made.match_id,
            winner,
            cause,
            evidence,
            150 if cause != "balance" else 300 if winner == "north" else 0,
            detail,
        )
    return made


async def decide_all(connection: Connection) -> None:
    """What a worker does."""
    for ended in await ladder.undecided(connection, after=0, limit=100_000):
        await ladder.decide(connection, ended)


def fold(results: Sequence[Finished]) -> dict[str, tuple[Rating, int, int]]:
    """Ratings, rated matches and wins, worked out from nothing in the plainest way."""
    ratings: dict[str, Rating] = {}
    matches: dict[str, int] = {}
    wins: dict[str, int] = {}
    for result in results:
        if result.counts:
            seats = {"north": result.north, "south": result.south}
            before = {seat: ratings.get(player, NEW) for seat, player in seats.items()}
            after = rate(before, str(result.winner))
            for seat, player in seats.items():
                ratings[player] = after[seat]
                matches[player] = matches.get(player, 0) + 1
                wins[player] = wins.get(player, 0) + (seat == result.winner)
    return {player: (rating, matches[player], wins[player]) for player, rating in ratings.items()}


async def stored(connection: Connection) -> dict[str, tuple[Rating, int, int]]:
    """The stored ladder: everybody with a rated match."""
    rows = await connection.fetch("select * from rating")
    assert all(row["shown"] == Rating(row["mu"], row["sigma"]).shown for row in rows)
    idle = [row for row in rows if not row["rated_matches"]]
    assert all((row["mu"], row["sigma"], row["wins"]) == (NEW.mu, NEW.sigma, 0) for row in idle)
    return {
        row["player_id"]: (Rating(row["mu"], row["sigma"]), row["rated_matches"], row["wins"])
        for row in rows
        if row["rated_matches"]
    }


async def reasons(connection: Connection | Pool) -> dict[UUID, str]:
    """What is decided about which match."""
    rows = await connection.fetch("select match_id, reason from rating_decision")
    return {row["match_id"]: row["reason"] for row in rows}


@dataclass
class Fate:
    """When a connection dies: before its statement number `at`, or after it when `unheard`."""

    url: str
    at: int
    unheard: bool = False
    seen: list[str] = field(default_factory=list)


class Mortal(asyncpg.Connection):
    """A connection whose backend is terminated at one of its statements, BEGIN and COMMIT among them.

    Before the statement: it never reaches the server. Afterwards: it has had its effect, and nobody hears of it.
    """

    fate: Fate | None = None

    async def _fated(self, query: str, call: Any) -> Any:
        fate = self.fate
        if fate is None:
            return await call
        fate.seen.append(" ".join(query.split())[:60])
        if len(fate.seen) != fate.at:
            return await call
        if fate.unheard:
            await call
        else:
            call.close()
        await self._terminate(fate.url)
        raise asyncpg.ConnectionDoesNotExistError("killed by the test")

    async def _terminate(self, url: str) -> None:
        """Ended by the server, and away before anybody goes on."""
        pid = self.get_server_pid()
        other = await asyncpg.connect(url)
        try:
            await other.execute("select pg_terminate_backend($1)", pid)
            while await other.fetchval("select exists (select from pg_stat_activity where pid = $1)", pid):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        finally:
            await other.close()

    async def execute(self, query: str, *args: Any, **more: Any) -> str:
        return str(await self._fated(query, super().execute(query, *args, **more)))

    async def executemany(self, command: str, args: Any, **more: Any) -> None:
        await self._fated(command, super().executemany(command, args, **more))

    async def fetch(self, query: str, *args: Any, **more: Any) -> Any:
        return await self._fated(query, super().fetch(query, *args, **more))

    async def fetchrow(self, query: str, *args: Any, **more: Any) -> Any:
        return await self._fated(query, super().fetchrow(query, *args, **more))

    async def fetchval(self, query: str, *args: Any, **more: Any) -> Any:
        return await self._fated(query, super().fetchval(query, *args, **more))


async def mortal(fate: Fate) -> Mortal:
    """A connection with this fate."""
    connection = await asyncpg.connect(fate.url, connection_class=Mortal)
    assert isinstance(connection, Mortal)
    connection.fate = fate
    return connection
