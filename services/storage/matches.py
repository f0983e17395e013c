"""Matches in the database: their rows, owners, logs and lists."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

import asyncpg

from services.storage.matchlog import read_log
from services.storage.pool import Connection, Pool


@dataclass(frozen=True, slots=True)
class PlayerRow:
    """A player."""

    player_id: str
    name: str
    bot: bool


@dataclass(frozen=True, slots=True)
class MatchRow:
    """What a match is, apart from what happened in it."""

    match_id: str
    mode: str
    rated: bool
    north: PlayerRow
    south: PlayerRow
    bank_ns: int
    delay_ns: int
    start_limit_ns: int
    continue_limit_ns: int
    script: str | None
    """JSON of a test configuration's start position and deals."""
    created_at: datetime
    created_by: str | None = None
    """Who made it by CreateMatch; None when matchmaking did."""

    @property
    def same_device(self) -> bool:
        """Whether both seats are played on one device (rule 7.4)."""
        return self.mode == "same_device"

    @property
    def asked_for(self) -> bool:
        """Whether a player has made it, and not matchmaking."""
        return self.mode in ("created", "same_device")

    def takes_seat(self, player: PlayerRow) -> bool:
        """Whether a player must accept the seat, since somebody else has made the match."""
        return self.mode == "created" and self.created_by not in (None, player.player_id) and not player.bot


@dataclass(frozen=True, slots=True)
class LogRow:
    """One stored ruling, as far as replay and repeated requests need it."""

    revision: int
    first_sequence: int
    last_sequence: int
    events: str
    seat: str | None
    request_id: str | None
    request_hash: bytes | None
    credited_ns: int | None
    at: datetime

    def event_list(self) -> list[Any]:
        """The events as plain JSON values."""
        events: list[Any] = json.loads(self.events)
        return events


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A match in a list."""

    match_id: str
    north: PlayerRow
    south: PlayerRow
    rated: bool
    created_at: datetime
    ended_at: datetime | None
    winner: str | None
    cause: str | None
    detail: str | None
    address: str | None


class PlayerBusyError(Exception):
    """A player has a live match already; the database said so."""

    def __init__(self, player_id: str, match_id: str | None) -> None:
        super().__init__(f"{player_id} has a live match")
        self.player_id = player_id
        self.match_id = match_id


class RequestReusedError(Exception):
    """The request_id was used for another match by the same player."""


@dataclass(frozen=True, slots=True)
class NewMatch:
    """A match to be created."""

    match_id: str
    mode: str
    rated: bool
    north: str
    south: str
    bank_ns: int
    delay_ns: int
    start_limit_ns: int
    continue_limit_ns: int
    script: str | None = None
    created_by: str | None = None
    request_id: str | None = None
    request_hash: bytes | None = None


async def get_player(connection: Connection | Pool, player_id: str) -> PlayerRow | None:
    """A player, or None."""
    row = await connection.fetchrow("select player_id, name, bot from player where player_id = $1", player_id)
    return None if row is None else PlayerRow(row["player_id"], row["name"], row["bot"])


async def create_match(
    connection: Connection, new: NewMatch, engine_id: str, *, invited: str | None = None
) -> None:
    """Creates a match, seats its players and gives it an owner; the caller holds the transaction. A player who is only
    `invited` has no seat yet.

    Raises PlayerBusyError when a player (not a house bot) has a live match: rule one of the ladder, held by a primary
    key and not by a look before the insert. The transaction must then be rolled back.
    """
    await connection.execute(
        """
        insert into match (match_id, mode, rated, north, south, bank_ns, delay_ns, start_limit_ns, continue_limit_ns,
                           script, created_by, request_id, request_hash)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
        """,
        uuid.UUID(new.match_id),
        new.mode,
        new.rated,
        new.north,
        new.south,
        new.bank_ns,
        new.delay_ns,
        new.start_limit_ns,
        new.continue_limit_ns,
        new.script,
        new.created_by,
        new.request_id,
        new.request_hash,
    )
    # In one order for everybody: two creations that share players wait for each other and never in a circle.
    for player_id in sorted({new.north, new.south} - {invited}):
        seated = await connection.fetchval(
            """
            insert into live_seat (player_id, match_id)
            select player_id, $2 from player where player_id = $1 and not bot
            on conflict (player_id) do nothing
            returning player_id
            """,
            player_id,
            uuid.UUID(new.match_id),
        )
        if seated is None and not await connection.fetchval(
            "select bot from player where player_id = $1", player_id
        ):
            live = await connection.fetchval("select match_id from live_seat where player_id = $1", player_id)
            raise PlayerBusyError(player_id, None if live is None else str(live))
    await connection.execute(
        "insert into match_owner (match_id, engine_id, fence) values ($1, $2, 1)",
        uuid.UUID(new.match_id),
        engine_id,
    )


async def find_created(
    connection: Connection | Pool, created_by: str, request_id: str, request_hash: bytes
) -> str | None:
    """The match an earlier CreateMatch call made, or None. Raises RequestReusedError for another payload."""
    row = await connection.fetchrow(
        "select match_id, request_hash from match where created_by = $1 and request_id = $2",
        created_by,
        request_id,
    )
    if row is None:
        return None
    if row["request_hash"] != request_hash:
        raise RequestReusedError
    return str(row["match_id"])


async def live_match_of(connection: Connection | Pool, player_id: str) -> str | None:
    """The live match of a player, or None."""
    match_id = await connection.fetchval("select match_id from live_seat where player_id = $1", player_id)
    return None if match_id is None else str(match_id)


MATCH: Final = """
    m.match_id, m.mode, m.rated, m.bank_ns, m.delay_ns, m.start_limit_ns, m.continue_limit_ns, m.script,
    m.created_at, m.created_by, n.player_id as north, n.name as north_name, n.bot as north_bot,
    s.player_id as south, s.name as south_name, s.bot as south_bot
    from match m join player n on n.player_id = m.north join player s on s.player_id = m.south
"""
"""What `match_of` reads, behind `select` and before `where`."""
_MATCH: Final = f"select {MATCH} where m.match_id = $1"


async def get_match(connection: Connection | Pool, match_id: str) -> MatchRow | None:
    """A match, or None."""
    row = await connection.fetchrow(_MATCH, uuid.UUID(match_id))
    return None if row is None else match_of(row)


def match_of(row: asyncpg.Record) -> MatchRow:
    """A row of MATCH."""
    return MatchRow(
        match_id=str(row["match_id"]),
        mode=row["mode"],
        rated=row["rated"],
        north=PlayerRow(row["north"], row["north_name"], row["north_bot"]),
        south=PlayerRow(row["south"], row["south_name"], row["south_bot"]),
        bank_ns=row["bank_ns"],
        delay_ns=row["delay_ns"],
        start_limit_ns=row["start_limit_ns"],
        continue_limit_ns=row["continue_limit_ns"],
        script=row["script"],
        created_at=row["created_at"],
        created_by=row["created_by"],
    )


LOG: Final = tuple(field.name for field in fields(LogRow))


async def get_log(connection: Connection | Pool, match_id: str) -> list[LogRow]:
    """The whole log of a match, in order; wherever it is kept by now."""
    return [LogRow(**row) for row in await read_log(connection, match_id, LOG)]


_BEFORE: Final = "($2::timestamptz is null or (m.created_at, m.match_id) < ($2, $3))"
_PAGE: Final = "order by m.created_at desc, m.match_id desc limit $4"
_NOT_INVITED: Final = "not exists (select from invitation i where i.match_id = m.match_id and i.invited = $1)"
_NOT_OVER: Final = "not exists (select from match_outcome x where x.match_id = m.match_id)"

_ALL: Final = f"""
    (select * from match m where m.north = $1 and {_BEFORE} and {_NOT_INVITED} {_PAGE})
    union
    (select * from match m where m.south = $1 and {_BEFORE} and {_NOT_INVITED} {_PAGE})
"""  # noqa: S608 - made of constants
# From what is live in the whole service, however many matches the player has behind. House bots have no seat of their own.
_LIVE: Final = f"""
    select m.* from match m
    where m.match_id in (
        select match_id from live_seat where player_id = $1
        union all
        select o.match_id from match_owner o
        where o.released_at is null and (select bot from player where player_id = $1)
    ) and $1 in (m.north, m.south) and {_NOT_OVER} and {_BEFORE} and {_NOT_INVITED}
"""  # noqa: S608 - made of constants
_INVITATIONS: Final = f"""
    select m.* from match m
    where m.match_id in (select match_id from invitation where invited = $1) and {_NOT_OVER} and {_BEFORE}
"""  # noqa: S608 - made of constants


async def list_matches(
    connection: Connection | Pool,
    player_id: str,
    *,
    live_only: bool,
    before: tuple[datetime, str] | None,
    limit: int,
    invitations: bool = False,
) -> Sequence[SummaryRow]:
    """A page of a player's matches, newest first, after the one that `before` names: all of them or those that are not
    over; or, with `invitations`, those that others have made against the player, who has not accepted, and that are not
    over."""
    mine = _INVITATIONS if invitations else _LIVE if live_only else _ALL
    rows = await connection.fetch(
        f"""
        with mine as ({mine})
        select m.match_id, m.rated, m.created_at, n.player_id as north, n.name as north_name, n.bot as north_bot,
               s.player_id as south, s.name as south_name, s.bot as south_bot,
               x.ended_at, x.winner, x.cause, x.detail, l.address
        from mine m
        join player n on n.player_id = m.north join player s on s.player_id = m.south
        left join match_outcome x on x.match_id = m.match_id
        left join match_owner o on o.match_id = m.match_id and o.released_at is null
        left join engine_lease l on l.engine_id = o.engine_id
        {_PAGE}
        """,  # noqa: S608 - made of constants
        player_id,
        before[0] if before else None,
        uuid.UUID(before[1]) if before else None,
        limit,
    )
    return [_summary(row) for row in rows]


def _summary(row: asyncpg.Record) -> SummaryRow:
    return SummaryRow(
        match_id=str(row["match_id"]),
        north=PlayerRow(row["north"], row["north_name"], row["north_bot"]),
        south=PlayerRow(row["south"], row["south_name"], row["south_bot"]),
        rated=row["rated"],
        created_at=row["created_at"],
        ended_at=row["ended_at"],
        winner=row["winner"],
        cause=row["cause"],
        detail=row["detail"],
        address=row["address"],
    )
