"""What the ladder can be asked: pages of it, one player's place, finished matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

import asyncpg

from matchmaker.rating import NEW, Rating
from services.storage.ladder import RESTS_ON, Decision, decision_of
from services.storage.matches import PlayerRow
from services.storage.matchlog import LENGTH_OF, LENGTHS
from services.storage.pool import Connection


@dataclass(frozen=True, slots=True)
class Standing:
    """A player's place on the ladder."""

    player: PlayerRow
    rank: int
    """From 1; players who are shown the same rating share a rank, and the next rank is left out (1, 2, 2, 4). 0
    without a rated match."""
    shown: int
    rating: Rating
    rated_matches: int
    wins: int


class LadderKey(NamedTuple):
    """Where a page of the ladder ended."""

    shown: int
    player_id: str


@dataclass(frozen=True, slots=True)
class Length:
    """How long a match was."""

    played: timedelta
    """From the first deal to the end, pauses and outages included; nothing when no round was dealt."""
    rounds: int
    """Rounds that were dealt."""
    turns: int
    """Turns that a clock ran for, of both seats."""


@dataclass(frozen=True, slots=True)
class MatchResult:
    """A finished match."""

    match_id: UUID
    ended_no: int
    north: PlayerRow
    south: PlayerRow
    winner: str | None
    cause: str
    detail: str
    ended_at: datetime
    north_balance: int
    south_balance: int
    length: Length
    decision: Decision | None


_SELECT: Final = """
    select r.player_id, p.name, p.bot, r.mu, r.sigma, r.shown, r.rated_matches, r.wins
    from rating r join player p using (player_id)
    where r.rated_matches > 0
"""


async def leaderboard(connection: Connection, after: LadderKey | None, limit: int) -> list[Standing]:
    """At most `limit` players after `after`, best first; players who are shown the same are in order of their ids."""
    async with _snapshot(connection):
        return await _ranked(connection, await _after(connection, after, limit))


async def neighbourhood(connection: Connection, player_id: str, each_way: int) -> tuple[list[Standing], int]:
    """The player between at most `each_way` better and as many worse ones, best first, and how many players are ranked.

    Nobody when the player has no rank.
    """
    async with _snapshot(connection):
        ranked = await connection.fetchval("select count(*) from rating where rated_matches > 0")
        own = await connection.fetchrow(f"{_SELECT} and r.player_id = $1", player_id)
        if own is None:
            return [], ranked
        key = LadderKey(own["shown"], player_id)
        better = await connection.fetch(
            f"""
            {_SELECT} and (r.shown > $1 or (r.shown = $1 and r.player_id < $2))
            order by r.shown, r.player_id desc
            limit $3
            """,
            *(*key, each_way),
        )
        worse = await _after(connection, key, each_way)
        return await _ranked(connection, [*reversed(better), own, *worse]), ranked


def _snapshot(connection: Connection) -> asyncpg.transaction.Transaction:
    # A page and the counts before it must speak of the same ladder.
    return connection.transaction(isolation="repeatable_read", readonly=True)


async def _after(connection: Connection, key: LadderKey | None, limit: int) -> list[asyncpg.Record]:
    return await connection.fetch(
        f"""
        {_SELECT} and ($1::integer is null or r.shown < $1 or (r.shown = $1 and r.player_id > $2))
        order by r.shown desc, r.player_id
        limit $3
        """,
        None if key is None else key.shown,
        None if key is None else key.player_id,
        limit,
    )


async def _ranked(connection: Connection, rows: Sequence[asyncpg.Record]) -> list[Standing]:
    """Neighbours on the ladder, best first, with their ranks."""
    if not rows:
        return []
    first = rows[0]
    better, before = await connection.fetchrow(
        """
        select count(*) filter (where shown > $1), count(*)
        from rating
        where rated_matches > 0 and (shown > $1 or (shown = $1 and player_id < $2))
        """,
        first["shown"],
        first["player_id"],
    ) or (0, 0)
    standings: list[Standing] = []
    for place, row in enumerate(rows, start=before + 1):
        if not standings:
            rank = better + 1
        elif row["shown"] == standings[-1].shown:
            rank = standings[-1].rank
        else:
            rank = place
        standings.append(_standing(row, rank))
    return standings


async def standing(connection: Connection, player_id: str) -> Standing | None:
    """One player's place, or None when the service has never met the player."""
    row = await connection.fetchrow(
        """
        select p.player_id, p.name, p.bot, r.mu, r.sigma, r.shown, r.rated_matches, r.wins,
               (select count(*) from rating b where b.rated_matches > 0 and b.shown > r.shown) as better
        from player p left join rating r on r.player_id = p.player_id and r.rated_matches > 0
        where p.player_id = $1
        """,
        player_id,
    )
    if row is None:
        return None
    if row["shown"] is None:
        return newcomer(PlayerRow(row["player_id"], row["name"], row["bot"]))
    return _standing(row, row["better"] + 1)


def newcomer(player: PlayerRow) -> Standing:
    """The standing of a player without a rated match."""
    return Standing(player, rank=0, shown=NEW.shown, rating=NEW, rated_matches=0, wins=0)


def _standing(row: asyncpg.Record, rank: int) -> Standing:
    return Standing(
        PlayerRow(row["player_id"], row["name"], row["bot"]),
        rank=rank,
        shown=row["shown"],
        rating=Rating(row["mu"], row["sigma"]),
        rated_matches=row["rated_matches"],
        wins=row["wins"],
    )


async def results(
    connection: Connection, player_id: str, before: int | None, limit: int
) -> list[MatchResult]:
    """At most `limit` finished matches of a player, newest first, of those that ended before number `before`."""
    rows = await connection.fetch(
        f"""
        select o.match_id as id, o.ended_no, o.winner, o.cause, o.detail, o.ended_at, o.north_balance, o.south_balance,
               n.player_id as n_id, n.name as n_name, n.bot as n_bot,
               s.player_id as s_id, s.name as s_name, s.bot as s_bot,
               {LENGTH_OF}, d.*, {RESTS_ON}
        from match m
        join match_outcome o using (match_id)
        join player n on n.player_id = m.north
        join player s on s.player_id = m.south
        {LENGTHS}
        left join rating_decision d on d.match_id = m.match_id
        left join rating_ruling k on k.ruling_id = d.ruling_id
        where (m.north = $1 or m.south = $1) and ($2::bigint is null or o.ended_no < $2)
          and not exists (select from invitation i where i.match_id = m.match_id and i.invited = $1)
        order by o.ended_no desc
        limit $3
        """,  # noqa: S608 - made of a constant
        player_id,
        before,
        limit,
    )
    return [
        MatchResult(
            match_id=row["id"],
            ended_no=row["ended_no"],
            north=PlayerRow(row["n_id"], row["n_name"], row["n_bot"]),
            south=PlayerRow(row["s_id"], row["s_name"], row["s_bot"]),
            winner=row["winner"],
            cause=row["cause"],
            detail=row["detail"],
            ended_at=row["ended_at"],
            north_balance=row["north_balance"],
            south_balance=row["south_balance"],
            length=Length(_played(row["dealt_at"], row["ended_at"]), row["rounds"], row["turns"]),
            decision=None if row["reason"] is None else decision_of(row),
        )
        for row in rows
    ]


def _played(dealt_at: datetime | None, ended_at: datetime) -> timedelta:
    return max(timedelta(), ended_at - dealt_at) if dealt_at else timedelta()
