"""Tokens that count no more although they have not expired: by player, all that were issued before a moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from services.storage.pool import Connection, Pool

_ORDER: Final = 7_205_759_403_792_798
"""Number of the advisory lock that makes revocations visible in the order of their numbers: any, so long as every
release uses the same."""


class OtherRevocationError(Exception):
    """The id was used for a revocation of another player."""


@dataclass(frozen=True, slots=True)
class NewRevocation:
    """What an operator wants."""

    revocation_id: UUID
    """Made by the caller: the same one twice revokes once."""
    player_id: str
    author: str
    reason: str
    via: Literal["operations", "database"]


@dataclass(frozen=True, slots=True)
class Revocation:
    """Tokens of a player that were issued before `at` count no more."""

    revocation_no: int
    player_id: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Revoked:
    """What a revocation came to."""

    at: datetime
    known: bool
    """Whether the player has been here: if not, perhaps the id is wrong."""


async def revoke(connection: Connection, new: NewRevocation) -> Revoked:
    """Revoke all tokens of a player that have been issued so far, by the clock of the database.

    Raises OtherRevocationError.
    """
    async with connection.transaction():
        # Whoever follows the numbers must not miss a lower one that is committed later.
        await connection.execute("select pg_advisory_xact_lock($1)", _ORDER)
        row = await connection.fetchrow(
            "select player_id, at from token_revocation where revocation_id = $1", new.revocation_id
        )
        if row is None:
            row = await connection.fetchrow(
                """
                insert into token_revocation (revocation_id, player_id, author, reason, via, database_user)
                values ($1, $2, $3, $4, $5, case when $5 = 'database' then session_user::text end)
                returning player_id, at
                """,
                new.revocation_id,
                new.player_id,
                new.author,
                new.reason,
                new.via,
            )
        assert row is not None
        if row["player_id"] != new.player_id:
            raise OtherRevocationError
        known = await connection.fetchval(
            "select exists (select from player where player_id = $1)", new.player_id
        )
    return Revoked(row["at"], bool(known))


async def revocations_after(connection: Connection | Pool, number: int, seconds: int) -> list[Revocation]:
    """Those with a higher number, of the last `seconds`: older ones are about tokens that have all expired.

    All of these when there is no such number: the database was restored to an earlier state, and counts on from there.
    """
    rows = await connection.fetch(
        """
        select revocation_no, player_id, at from token_revocation
        where at > clock_timestamp() - make_interval(secs => $2)
          and (revocation_no > $1 or $1 > (select max(revocation_no) from token_revocation))
        order by revocation_no
        """,
        number,
        float(seconds),
    )
    return [Revocation(*row) for row in rows]
