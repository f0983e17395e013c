"""Players and their names in the database, which settles who gets a name that two want."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

import asyncpg

from services.common.names import NameFaultError, PlayerName, neutral_name, parse_name
from services.storage.pool import Connection, Pool


@dataclass(frozen=True, slots=True)
class Profile:
    """What anybody may know of a player."""

    player_id: str
    name: str
    bot: bool
    registered: bool
    """Whether the player has chosen the name."""
    created_at: datetime


class NameRefused(Enum):
    """Why a player does not get a name."""

    TAKEN = auto()
    """Another player has it, perhaps in other case."""
    CONFUSABLE = auto()
    """It looks like the name of another player."""
    CHOSEN = auto()
    """The player has registered another name before."""


async def put_player(
    connection: Connection | Pool, player_id: str, suggestion: str, *, bot: bool = False
) -> str:
    """Make a player known who is not yet, and say what the player is called.

    A new player is called as `suggestion` says when that name is allowed and free, and by a neutral name otherwise. Who
    is known already keeps the name.
    """
    known = await _name(connection, player_id)
    if known is not None:
        return known
    try:
        wanted = parse_name(suggestion, house_bot=bot)
    except NameFaultError:
        wanted = None
    # One statement: of two first calls of the same player one makes the row, and the name is that of whoever got it.
    made = await connection.fetchval(
        """
        with claim as (
            insert into player_name (player_id, name_key, skeleton)
            select $1, $4, $5
            where $4::text is not null and not exists (select from player where player_id = $1)
            on conflict do nothing
            returning player_id
        )
        insert into player (player_id, name, bot)
        values ($1, case when exists (select from claim) then $3 else $6 end, $2)
        on conflict (player_id) do update set name = $3 where exists (select from claim)
        returning name
        """,
        player_id,
        bot,
        wanted and wanted.shown,
        wanted and wanted.key,
        wanted and wanted.skeleton,
        neutral_name(player_id),
    )
    return str(made or await _name(connection, player_id))


async def register(connection: Connection, player_id: str, name: PlayerName) -> NameRefused | None:
    """Give a known player this name for good, or say why not; then nothing has changed.

    The same name again is no other name. Of two players who want one name at the same time exactly one gets it.
    """
    try:
        async with connection.transaction():
            changed = await connection.fetchval(
                """
                insert into player_name as n (player_id, name_key, skeleton, registered_at)
                values ($1, $2, $3, clock_timestamp())
                on conflict (player_id) do update
                set name_key = excluded.name_key, skeleton = excluded.skeleton, registered_at = excluded.registered_at
                where n.registered_at is null
                returning true
                """,
                player_id,
                name.key,
                name.skeleton,
            )
            if changed:
                await connection.execute(
                    "update player set name = $2 where player_id = $1", player_id, name.shown
                )
                return None
    except asyncpg.UniqueViolationError:
        # Both may be violated; what the database names first says nothing.
        taken = await connection.fetchval(
            "select exists (select from player_name where name_key = $1)", name.key
        )
        return NameRefused.TAKEN if taken else NameRefused.CONFUSABLE
    return None if await _name(connection, player_id) == name.shown else NameRefused.CHOSEN


async def _name(connection: Connection | Pool, player_id: str) -> str | None:
    name: str | None = await connection.fetchval("select name from player where player_id = $1", player_id)
    return name


async def get_profile(connection: Connection | Pool, player_id: str) -> Profile | None:
    """A player, or None."""
    row = await connection.fetchrow(
        """
        select p.player_id, p.name, p.bot, p.created_at, n.registered_at is not null as registered
        from player p left join player_name n using (player_id)
        where p.player_id = $1
        """,
        player_id,
    )
    return None if row is None else Profile(**row)
