"""The secrets that the deals of matches are drawn from: stored before anybody is told a commitment to any of it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

from services.storage.pool import Connection, Pool

_STORE: Final = """
    insert into match_seed (match_id, seed) select * from unnest($1::uuid[], $2::bytea[])
    on conflict (match_id) do nothing returning match_id, seed
"""
_READ: Final = "select match_id, seed from match_seed where match_id = any($1::uuid[])"


async def seeds_of(connection: Connection | Pool, fresh: Mapping[str, bytes]) -> dict[str, bytes]:
    """The 32 bytes of each of these matches: those that are stored, or the `fresh` ones when there are none yet, which
    are then stored.

    Two that ask at once get the same answer. The matches must exist.
    """
    if not fresh:
        return {}
    # In one order for everybody: two that store the same ones wait for each other and never in a circle.
    keys = sorted(map(uuid.UUID, fresh))
    stored: list[Any] = await connection.fetch(_STORE, keys, [fresh[str(key)] for key in keys])
    if len(stored) < len(keys):
        stored = await connection.fetch(_READ, keys)
    return {str(row["match_id"]): bytes(row["seed"]) for row in stored}
