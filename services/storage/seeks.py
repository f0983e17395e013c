"""Open seeks, and the one transaction that turns two of them into a match.

Every race is settled here: a seek can be deleted once only, by its own id, by whoever comes first (a match, a cancel, a
newer seek, a new leader); and `live_seat` lets a player be in one live match.

What was deleted without a match is remembered for a moment by the name its client gave it (`request_id`): a seek that
was lost goes on waiting when it comes again, one that was cancelled or replaced is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal
from uuid import UUID

import asyncpg

from engine.clock import BANK, DELAY, SECOND
from services.storage import invitations, matches, players
from services.storage.matches import NewMatch, PlayerBusyError, PlayerRow
from services.storage.noshows import Cooling, find_cooldown
from services.storage.pool import Connection
from services.storage.strengths import Strength, strength_of

PoolName = Literal["rated", "casual"]
SeatName = Literal["north", "south"]
EndName = Literal["cancelled", "replaced"]

START_LIMIT_NS: Final = 60 * SECOND
"""How long a seat has to press Start (rule 7.2)."""
CONTINUE_LIMIT_NS: Final = 30 * SECOND
"""How long a seat has to press Continue (rule 7.2)."""

FIRST_FENCE: Final = 1

MEMORY: Final = timedelta(seconds=60)
"""How long a seek that ended without a match is remembered."""


@dataclass(frozen=True, slots=True)
class LiveMatch:
    """A live match as one of its players is told about it."""

    match_id: str
    mode: str
    """The pool it was made in; any other word for a match that no pool has made."""
    seat: SeatName
    opponent: PlayerRow
    opponent_rating: int
    """Shown rating in whole points; 0 without a rated match."""
    engine_id: str | None
    fence: int
    address: str | None
    """Where the owner said last that it is reached; None when it never said so to the database."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The seek is open."""

    name: str
    """What the player is called."""
    strength: Strength
    waited_ns: int
    """How long it has waited already: more than nothing when it was taken up again."""
    resumed: bool
    """Whether it was taken up again."""


@dataclass(frozen=True, slots=True)
class Ended:
    """This very seek has ended before, and not by being lost."""

    how: EndName


@dataclass(frozen=True, slots=True)
class Created:
    """The match exists, and both seeks are gone."""


@dataclass(frozen=True, slots=True)
class NotCreated:
    """Nothing was changed: these players' seeks are gone, or these players are in a live match."""

    gone: frozenset[str] = frozenset()
    busy: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Place:
    """One seat of a match to be made: who sits there, and the seek that is used up."""

    player_id: str
    seek_id: UUID


class _SeeksGoneError(Exception):
    def __init__(self, player_ids: frozenset[str]) -> None:
        super().__init__()
        self.player_ids = player_ids


async def open_seek(
    connection: Connection,
    player: PlayerRow,
    seek_id: UUID,
    pool: PoolName,
    request_id: str,
    blocked: frozenset[str] = frozenset(),
) -> Opened | LiveMatch | Ended | Cooling:
    """Open the player's seek in place of any older one, or say what stands against it: the live match the player is in,
    that this seek (by its `request_id`) was cancelled or replaced, or a cooldown; in this order.

    The same seek of the same pool goes on waiting when it was lost a moment ago or is open still: it is the stream that
    was lost then.
    """
    async with connection.transaction():
        name = await players.put_player(connection, player.player_id, player.name, bot=player.bot)
        await invitations.note_blocked(connection, player.player_id, blocked)
        known = await _known(connection, player.player_id, request_id, pool)
        # The match first: when it is cancelled, it lets its players go and blames them in one transaction. So whoever is
        # seen to be free here is seen to be blamed as well.
        against = (
            await find_live(connection, player.player_id)
            or known.ended
            or await find_cooldown(connection, player.player_id)
        )
        if against is not None:
            return against
        waited = await connection.fetchval(
            """
            insert into seek (player_id, seek_id, pool, request_id, since)
            values ($1, $2, $3, $4, coalesce($5, clock_timestamp()))
            on conflict (player_id) do update set seek_id = $2, pool = $3, request_id = $4, since = excluded.since
            returning clock_timestamp() - since
            """,
            player.player_id,
            seek_id,
            pool,
            request_id,
            known.since,
        )
        # A match that was just made holds the row of the older seek until it is committed: the insert has waited for
        # it, and this statement sees it.
        live = await find_live(connection, player.player_id)
        if live is not None:
            await connection.execute("delete from seek where player_id = $1", player.player_id)
            return live
        await _replace_others(connection, player.player_id, request_id, known.other)
        return Opened(
            name=name,
            strength=await strength_of(connection, player.player_id),
            waited_ns=max(0, waited // timedelta(microseconds=1) * 1000),
            resumed=known.since is not None,
        )


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a player's seeks before a new one."""

    since: datetime | None = None
    """When the waiting began that is gone on with."""
    ended: Ended | None = None
    other: asyncpg.Record | None = None
    """An open seek under another name."""


async def _known(connection: Connection, player_id: str, request_id: str, pool: PoolName) -> _Known:
    # Waits for a match that is being made of it.
    older = await connection.fetchrow(
        "select request_id, pool, since from seek where player_id = $1 for update", player_id
    )
    if older is not None and older["request_id"] == request_id:
        return _Known(since=older["since"] if older["pool"] == pool else None)
    other = None if older is None or older["request_id"] is None else older
    past = await connection.fetchrow(
        """
        select pool, since, how from seek_memory
        where player_id = $1 and request_id = $2 and ended_at > clock_timestamp() - $3::interval
        """,
        player_id,
        request_id,
        MEMORY,
    )
    if past is None:
        return _Known(other=other)
    if past["how"] != "lost":
        return _Known(ended=Ended(past["how"]))
    return _Known(since=past["since"] if past["pool"] == pool else None, other=other)


_SAME = """
    on conflict (player_id, request_id) do update
    set pool = excluded.pool, since = excluded.since, how = excluded.how, ended_at = excluded.ended_at
"""


async def _replace_others(
    connection: Connection, player_id: str, request_id: str, other: asyncpg.Record | None
) -> None:
    # Also those whose streams were lost: coming again, they must not push out what was opened after them.
    await connection.execute(
        """
        with back as (delete from seek_memory where player_id = $1 and request_id = $2)
        update seek_memory set how = 'replaced', ended_at = clock_timestamp()
        where player_id = $1 and request_id <> $2 and how = 'lost'
        """,
        player_id,
        request_id,
    )
    if other is not None:
        await connection.execute(
            f"""
            insert into seek_memory (player_id, request_id, pool, since, how) values ($1, $2, $3, $4, 'replaced')
            {_SAME}
            """,  # noqa: S608 - a constant
            player_id,
            *other.values(),
        )


_REMEMBER = f"""
    insert into seek_memory (player_id, request_id, pool, since, how)
    select player_id, request_id, pool, since, '{{how}}' from gone where request_id is not null
    {_SAME}
"""  # noqa: S608 - a constant


async def lose_seeks(connection: Connection, seek_ids: Sequence[UUID]) -> None:
    """Close these very seeks, whose streams are gone; those that are gone already are no error. They may come again."""
    await connection.execute(
        f"with gone as (delete from seek where seek_id = any($1::uuid[]) returning *) {_REMEMBER.format(how='lost')}",  # noqa: S608
        seek_ids,
    )


async def lose_all_seeks(connection: Connection) -> int:
    """Close every seek: whoever led before has no streams any more. They may come again. How many there were."""
    return int(
        await connection.fetchval(
            f"""
            with gone as (delete from seek returning *), kept as ({_REMEMBER.format(how="lost")})
            select count(*) from gone
            """  # noqa: S608
        )
    )


async def cancel_seek(connection: Connection, player_id: str) -> bool:
    """Delete the player's open seek, whichever it is; False when there is none. Once deleted, no match can come of it,
    nor will it open again."""
    return bool(
        await connection.fetchval(
            f"""
            with gone as (delete from seek where player_id = $1 returning *),
                 kept as ({_REMEMBER.format(how="cancelled")})
            select count(*) from gone
            """,  # noqa: S608
            player_id,
        )
    )


async def cancel_lost(connection: Connection, player_id: str) -> bool:
    """Forbid the player's lost seek to come again; False when there is none."""
    return bool(
        await connection.fetchval(
            """
            with cancelled as (
                update seek_memory set how = 'cancelled', ended_at = clock_timestamp()
                where player_id = $1 and how = 'lost' and ended_at > clock_timestamp() - $2::interval
                returning true
            )
            select exists (select from cancelled)
            """,
            player_id,
            MEMORY,
        )
    )


async def forget_seeks(connection: Connection) -> None:
    """Delete what is too old to be remembered."""
    await connection.execute(
        "delete from seek_memory where ended_at <= clock_timestamp() - $1::interval", MEMORY
    )


async def create_match(
    connection: Connection, match_id: str, pool: PoolName, north: Place, south: Place, engine_id: str
) -> Created | NotCreated:
    """Use up both seeks and make their match, owned by `engine_id`: all of it or nothing."""
    new = NewMatch(
        match_id=match_id,
        mode=pool,
        rated=pool == "rated",
        north=north.player_id,
        south=south.player_id,
        bank_ns=BANK,
        delay_ns=DELAY,
        start_limit_ns=START_LIMIT_NS,
        continue_limit_ns=CONTINUE_LIMIT_NS,
    )
    try:
        async with connection.transaction():
            await _take_seeks(connection, (north, south))
            await matches.create_match(connection, new, engine_id)
    except _SeeksGoneError as error:
        return NotCreated(gone=error.player_ids)
    except PlayerBusyError as error:
        return NotCreated(busy=frozenset({error.player_id}))
    return Created()


async def move_match(
    connection: Connection, match_id: str, from_engine: str, fence: int, to_engine: str
) -> int | None:
    """Give a match in which nothing has happened yet to another owner; its new fence, or None when `from_engine` does
    not own it under `fence` any more, or has written."""
    moved: int | None = await connection.fetchval(
        """
        update match_owner o set engine_id = $4, fence = o.fence + 1, handed_over_at = null
        where o.match_id = $1 and o.engine_id = $2 and o.fence = $3 and o.released_at is null
          and not exists (select from match_log l where l.match_id = o.match_id)
        returning o.fence
        """,
        UUID(match_id),
        from_engine,
        fence,
        to_engine,
    )
    return moved


async def was_created(connection: Connection, match_id: str, seats: Sequence[Place]) -> bool:
    """Whether a match exists of which it is not known if its transaction was committed.

    That transaction, should it still run, holds the seeks: asking for their locks waits for its end.
    """
    async with connection.transaction():
        await connection.execute(
            "select from seek where seek_id = any($1::uuid[]) for update", [place.seek_id for place in seats]
        )
        return bool(
            await connection.fetchval("select exists (select from match where match_id = $1)", UUID(match_id))
        )


async def _take_seeks(connection: Connection, seats: Sequence[Place]) -> None:
    rows = await connection.fetch(
        "delete from seek where seek_id = any($1::uuid[]) returning player_id",
        [place.seek_id for place in seats],
    )
    gone = {place.player_id for place in seats} - {row["player_id"] for row in rows}
    if gone:
        raise _SeeksGoneError(frozenset(gone))


async def find_live(connection: Connection, player_id: str) -> LiveMatch | None:
    """The live match the player has a seat in."""
    row = await connection.fetchrow(
        """
        select m.match_id, m.mode, m.north = $1 as is_north, p.player_id, p.name, p.bot,
               r.shown, o.engine_id, o.fence, l.address
        from live_seat s
        join match m using (match_id)
        join player p on p.player_id = case when m.north = $1 then m.south else m.north end
        left join rating r on r.player_id = p.player_id and r.rated_matches > 0
        left join match_owner o on o.match_id = m.match_id
        left join engine_lease l on l.engine_id = o.engine_id
        where s.player_id = $1
        """,
        player_id,
    )
    if row is None:
        return None
    return LiveMatch(
        match_id=str(row["match_id"]),
        mode=row["mode"],
        seat="north" if row["is_north"] else "south",
        opponent=PlayerRow(row["player_id"], row["name"], row["bot"]),
        opponent_rating=row["shown"] or 0,
        engine_id=row["engine_id"],
        fence=row["fence"] or FIRST_FENCE,
        address=row["address"],
    )


async def find_seated(connection: Connection, player_ids: Sequence[str]) -> set[str]:
    """Those of some players who have a seat in a live match."""
    rows = await connection.fetch("select player_id from live_seat where player_id = any($1)", player_ids)
    return {row["player_id"] for row in rows}
