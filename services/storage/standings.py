"""What the ladder can be asked: pages of it, one player's place, finished matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypeAlias
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


_TOP: Final = LadderKey(2**31 - 1, "")
"""A place above everybody."""

_COLUMNS: Final = "r.player_id, p.name, p.bot, r.mu, r.sigma, r.shown, r.rated_matches, r.wins"

# Whoever is shown the same, then whoever is shown something else: two ranges of one index, each read from its beginning.
_WORSE: Final = f"""
    select {_COLUMNS} from (
        (select * from rating where rated_matches > 0 and shown = $1 and player_id > $2 order by player_id limit $3)
        union all
        (select * from rating where rated_matches > 0 and shown < $1 order by shown desc, player_id limit $3)
    ) r join player p using (player_id)
    order by r.shown desc, r.player_id limit $3
"""  # noqa: S608 - made of a constant
_BETTER: Final = f"""
    select {_COLUMNS} from (
        (select * from rating where rated_matches > 0 and shown = $1 and player_id < $2 order by player_id desc limit $3)
        union all
        (select * from rating where rated_matches > 0 and shown > $1 order by shown, player_id desc limit $3)
    ) r join player p using (player_id)
    order by r.shown, r.player_id desc limit $3
"""  # noqa: S608 - made of a constant


async def leaderboard(connection: Connection, after: LadderKey | None, limit: int) -> list[Standing]:
    """At most `limit` players after `after`, best first; players who are shown the same are in order of their ids."""
    async with _snapshot(connection):
        return await _ranked(connection, await connection.fetch(_WORSE, *(after or _TOP), limit))


async def neighbourhood(connection: Connection, player_id: str, each_way: int) -> tuple[list[Standing], int]:
    """The player between at most `each_way` better and as many worse ones, best first, and how many players are ranked.

    Nobody when the player has no rank.
    """
    async with _snapshot(connection):
        ranked = await connection.fetchval("select coalesce(sum(players), 0) from rating_count")
        own = await connection.fetchrow(
            f"""
            select {_COLUMNS} from rating r join player p using (player_id)
            where r.rated_matches > 0 and r.player_id = $1
            """,  # noqa: S608 - made of a constant
            player_id,
        )
        if own is None:
            return [], ranked
        better = await connection.fetch(_BETTER, own["shown"], player_id, each_way)
        worse = await connection.fetch(_WORSE, own["shown"], player_id, each_way)
        return await _ranked(connection, [*reversed(better), own, *worse]), ranked


def _snapshot(connection: Connection) -> asyncpg.transaction.Transaction:
    # A page and the counts that its ranks are made of must speak of the same ladder.
    return connection.transaction(isolation="repeatable_read", readonly=True)


async def _ranked(connection: Connection, rows: Sequence[asyncpg.Record]) -> list[Standing]:
    """Neighbours on the ladder, best first, with their ranks."""
    if not rows:
        return []
    counted = await connection.fetch(
        """
        select shown, rank from (
            select shown, (sum(sum(players)::integer) over (order by shown desc) - sum(players) + 1) as rank
            from rating_count where shown >= $2 group by shown
        ) as counted where shown = any($1::integer[])
        """,
        list({row["shown"] for row in rows}),
        rows[-1]["shown"],
    )
    ranks = {row["shown"]: row["rank"] for row in counted}
    return [_standing(row, ranks[row["shown"]]) for row in rows]


async def standing(connection: Connection, player_id: str) -> Standing | None:
    """One player's place, or None when the service has never met the player."""
    row = await connection.fetchrow(
        """
        select p.player_id, p.name, p.bot, r.mu, r.sigma, r.shown, r.rated_matches, r.wins,
               (select coalesce(sum(c.players), 0) from rating_count c where c.shown > r.shown) as better
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


_Beginning: TypeAlias = tuple[datetime, UUID]
_NEVER: Final[_Beginning] = datetime(9999, 12, 31, tzinfo=UTC), UUID(int=0)
"""Later than any match began."""
# Matches that are over, without those that others made with the player, who never accepted.
_OVER: Final = """
    (select match_id, created_at, north, south from match) m
    where (created_at, match_id) < ($2::timestamptz, $3::uuid)
      and exists (select from match_outcome o where o.match_id = m.match_id)
      and not exists (select from invitation i where i.match_id = m.match_id and i.invited = $1)
"""
_MINE: Final = f"""
    (select match_id, created_at from {_OVER} and north = $1 order by created_at desc, match_id desc limit $4)
    union
    (select match_id, created_at from {_OVER} and south = $1 order by created_at desc, match_id desc limit $4)
    order by created_at desc, match_id desc limit $4
"""  # noqa: S608 - made of a constant
# A statement of its own, which is planned once for all; together they would be planned anew with each question.
_RESULTS: Final = f"""
    select o.match_id as id, o.ended_no, o.winner, o.cause, o.detail, o.ended_at, o.north_balance, o.south_balance,
           n.player_id as n_id, n.name as n_name, n.bot as n_bot,
           s.player_id as s_id, s.name as s_name, s.bot as s_bot,
           {LENGTH_OF}, d.*, {RESTS_ON}
    from unnest($1::uuid[]) with ordinality as mine (match_id, place)
    join match m using (match_id)
    join match_outcome o using (match_id)
    join player n on n.player_id = m.north
    join player s on s.player_id = m.south
    left join rating_decision d on d.match_id = m.match_id
    {LENGTHS}
    left join rating_ruling k on k.ruling_id = d.ruling_id
    order by mine.place
"""  # noqa: S608 - made of constants


async def results(
    connection: Connection, player_id: str, before: int | None, limit: int
) -> list[MatchResult]:
    """At most `limit` finished matches of a player, newest first, of those that began before match number `before`.

    By when they began, as the indexes of `match` have it: but for house bots nobody is in two matches at once.
    """
    began = _NEVER if before is None else await _beginning(connection, before)
    if began is None:
        return []
    mine = await connection.fetch(_MINE, player_id, *began, limit)
    rows = await connection.fetch(_RESULTS, [row["match_id"] for row in mine])
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


async def _beginning(connection: Connection, ended_no: int) -> _Beginning | None:
    row = await connection.fetchrow(
        "select created_at, match_id from match join match_outcome using (match_id) where ended_no = $1",
        ended_no,
    )
    return None if row is None else (row["created_at"], row["match_id"])


def _played(dealt_at: datetime | None, ended_at: datetime) -> timedelta:
    return max(timedelta(), ended_at - dealt_at) if dealt_at else timedelta()
