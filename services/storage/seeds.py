"""The secret that the deals of a match are drawn from: stored before anybody is told a commitment to any of it."""

from __future__ import annotations

import uuid

from services.storage.pool import Connection, Pool

_READ = "select seed from match_seed where match_id = $1"


async def seed_of(connection: Connection | Pool, match_id: str, fresh: bytes) -> bytes:
    """The 32 bytes of a match: those that are stored, or `fresh` when there are none yet, which are then stored.

    Two that ask at once get the same answer. The match must exist.
    """
    key = uuid.UUID(match_id)
    stored = await connection.fetchval(_READ, key)
    if stored is None:
        await connection.execute(
            "insert into match_seed (match_id, seed) values ($1, $2) on conflict (match_id) do nothing",
            key,
            fresh,
        )
        stored = await connection.fetchval(_READ, key)
    return bytes(stored)
