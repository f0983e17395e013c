"""Open seeks, and the one transaction that turns two of them into a match.

Every race is settled here: a seek can be deleted once only, by its own id, by whoever comes first (a match, a cancel, a
newer seek, a new leader); and `live_seat` lets a player be in one live match.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

from engine.clock import BANK, DELAY, SECOND
from matchmaker.rating import NEW
from services.storage import matches
from services.storage.matches import NewMatch, PlayerBusyError, PlayerRow
from services.storage.pool import Connection

PoolName = Literal["rated", "casual"]
SeatName = Literal["north", "south"]

START_LIMIT_NS: Final = 60 * SECOND
"""How long a seat has to press Start (rule 7.2)."""
CONTINUE_LIMIT_NS: Final = 30 * SECOND
"""How long a seat has to press Continue (rule 7.2)."""

FIRST_FENCE: Final = 1


@dataclass(frozen=True, slots=True)
class LiveMatch:
    """A live match as one of its players is told about it."""

    match_id: str
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

    rating: float
    """Mean of the player's rating."""
    shown: int
    """Shown rating in whole points; 0 without a rated match."""


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
    connection: Connection, player: PlayerRow, seek_id: UUID, pool: PoolName
) -> Opened | LiveMatch:
    """Open the player's seek in place of any older one, or find the live match the player is in."""
    async with connection.transaction():
        await matches.put_player(connection, player.player_id, player.name, bot=player.bot)
        await connection.execute(
            """
            insert into seek (player_id, seek_id, pool) values ($1, $2, $3)
            on conflict (player_id) do update set seek_id = $2, pool = $3, since = clock_timestamp()
            """,
            player.player_id,
            seek_id,
            pool,
        )
        # A match that was just made holds the row of the older seek until it is committed: the insert has waited for
        # it, and this statement sees it.
        live = await find_live(connection, player.player_id)
        if live is not None:
            await connection.execute("delete from seek where player_id = $1", player.player_id)
            return live
        row = await connection.fetchrow(
            "select mu, shown from rating where player_id = $1 and rated_matches > 0", player.player_id
        )
        return Opened(NEW.mu, 0) if row is None else Opened(row["mu"], row["shown"])


async def close_seeks(connection: Connection, seek_ids: Sequence[UUID]) -> None:
    """Delete these very seeks; those that are gone already are no error."""
    await connection.execute("delete from seek where seek_id = any($1::uuid[])", seek_ids)


async def cancel_seek(connection: Connection, player_id: str) -> UUID | None:
    """Delete the player's open seek, whichever it is; its id, or None when there is none. Once deleted, no match can
    come of it."""
    seek_id: UUID | None = await connection.fetchval(
        "delete from seek where player_id = $1 returning seek_id", player_id
    )
    return seek_id


async def clear_seeks(connection: Connection) -> int:
    """Delete every seek: nobody waits for them any more. How many there were."""
    return int((await connection.execute("delete from seek")).rpartition(" ")[2])


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
        select m.match_id, m.north = $1 as is_north, p.player_id, p.name, p.bot,
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
        seat="north" if row["is_north"] else "south",
        opponent=PlayerRow(row["player_id"], row["name"], row["bot"]),
        opponent_rating=row["shown"] or 0,
        engine_id=row["engine_id"],
        fence=row["fence"] or FIRST_FENCE,
        address=row["address"],
    )
