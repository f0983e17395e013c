"""Matches that somebody has made against a person: until that person takes the seat, nothing is theirs but the offer.

An invitation is a row that goes when it is accepted. Whoever is invited keeps the queue, the one live match and the
history to themselves; whoever invites too much without being accepted is told to wait.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import Final

from services.storage.pool import Connection

WINDOW: Final = timedelta(minutes=10)
"""For so long an invitation that nobody has accepted counts."""
PAIR_MAX: Final = 3
"""Of one player to one other."""
INVITER_MAX: Final = 10
"""Of one player to anybody."""
INVITED_MAX: Final = 50
"""Of all to one player."""


class Refused(Enum):
    """Why nobody is invited."""

    BLOCKED = auto()
    """The newest seek of the other player names the inviter among those never to be met."""


@dataclass(frozen=True, slots=True)
class TooMany:
    """Too many that were not accepted; in `wait` one of them counts no more."""

    whose: str
    wait: timedelta


@dataclass(frozen=True, slots=True)
class Seated:
    """The seat is the player's, who has no other one."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The player is in another match."""

    match_id: str


@dataclass(frozen=True, slots=True)
class NotOurs:
    """Whoever asks does not own the match."""


async def may_invite(connection: Connection, inviter: str, invited: str) -> Refused | TooMany | None:
    """What stands against an invitation; None for nothing. Says nothing of what the other player is doing."""
    if await connection.fetchval(
        "select $1 = any(blocked) from player where player_id = $2", inviter, invited
    ):
        return Refused.BLOCKED
    for whose, most, condition in (
        ("of yours to this player", PAIR_MAX, "inviter = $1 and invited = $2"),
        ("of yours", INVITER_MAX, "inviter = $1 and $2::text is not null"),
        ("to this player", INVITED_MAX, "invited = $2 and $1::text is not null"),
    ):
        wait: timedelta | None = await connection.fetchval(
            f"""
            select at + $3::interval - clock_timestamp() from invitation
            where {condition} and at > clock_timestamp() - $3::interval
            order by at desc offset $4 limit 1
            """,  # noqa: S608 - constants
            inviter,
            invited,
            WINDOW,
            most - 1,
        )
        if wait is not None:
            return TooMany(whose, wait)
    return None


async def invite(connection: Connection, match_id: str, inviter: str, invited: str) -> None:
    """Store an invitation with its match; the caller holds the transaction."""
    await connection.execute(
        "insert into invitation (match_id, inviter, invited) values ($1, $2, $3)",
        uuid.UUID(match_id),
        inviter,
        invited,
    )


async def accept(
    connection: Connection, match_id: str, player_id: str, engine_id: str, fence: int
) -> Seated | Elsewhere | NotOurs:
    """Give an invited player the seat, for the owner of the match; the same again changes nothing."""
    key = uuid.UUID(match_id)
    async with connection.transaction():
        owned = await connection.fetchval(
            """
            select true from match_owner
            where match_id = $1 and engine_id = $2 and fence = $3 and released_at is null for share
            """,
            key,
            engine_id,
            fence,
        )
        if not owned:
            return NotOurs()
        await connection.execute(
            "insert into live_seat (player_id, match_id) values ($2, $1) on conflict (player_id) do nothing",
            key,
            player_id,
        )
        seat = await connection.fetchval("select match_id from live_seat where player_id = $1", player_id)
        if seat != key:
            # Gone in this moment: the next try finds the player free.
            return Elsewhere("" if seat is None else str(seat))
        await connection.execute("delete from invitation where match_id = $1", key)
    return Seated()


async def note_blocked(connection: Connection, player_id: str, blocked: frozenset[str]) -> None:
    """Keep whom a player does not want to meet, as their newest seek says."""
    await connection.execute(
        """
        update player set blocked = $2 where player_id = $1 and coalesce(blocked, '{}') is distinct from $2::text[]
        """,
        player_id,
        sorted(blocked),
    )
