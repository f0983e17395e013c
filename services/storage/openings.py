"""What live matches are played on with, read for many at once: whoever takes up thousands would ask for each otherwise."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from services.storage.matches import LOG, MATCH, LogRow, MatchRow, match_of
from services.storage.pool import Pool
from services.storage.seeds import seeds_of


@dataclass(slots=True)
class Opening:
    """A live match as it is stored. Whoever owns it must have made sure that nobody adds to it."""

    row: MatchRow
    seed: bytes
    read_at: datetime
    """When it was read, by the database's clock."""
    log: list[LogRow] = field(default_factory=list)
    """All of it, in order: only logs of matches that are over are ever moved elsewhere."""


_MATCHES: Final = f"""
    select clock_timestamp() as read_at, d.seed, {MATCH} left join match_seed d on d.match_id = m.match_id
    where m.match_id = any($1::uuid[])
"""
_LOGS: Final = f"""
    select match_id, {", ".join(LOG)} from match_log where match_id = any($1::uuid[]) order by match_id, revision
"""  # noqa: S608 - made of constants


async def read_openings(
    pool: Pool, match_ids: Sequence[str], fresh: Callable[[], bytes]
) -> dict[str, Opening]:
    """Those of these matches that exist, by their ids; each without a seed gets one of `fresh`, which is stored."""
    keys = [uuid.UUID(match_id) for match_id in match_ids]
    rows = await pool.fetch(_MATCHES, keys)
    seeds = {str(row["match_id"]): row["seed"] for row in rows}
    seeds |= await seeds_of(pool, {match_id: fresh() for match_id, seed in seeds.items() if seed is None})
    found = {
        row.match_id: Opening(row, bytes(seeds[row.match_id]), read_at)
        for row, read_at in ((match_of(each), each["read_at"]) for each in rows)
    }
    for line in map(dict, await pool.fetch(_LOGS, keys)):
        match_id = str(line.pop("match_id"))
        if match_id in found:
            found[match_id].log.append(LogRow(**line))
    return found
