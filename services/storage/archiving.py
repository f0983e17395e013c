"""Logs of matches that have long been over, moved to the archive: one transaction a match, verified before anything goes.

Whoever stops in the middle, in whatever way, has moved some matches and left the others as they were.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from services.storage.matchlog import LENGTH, Packed, pack, unpack
from services.storage.pool import Connection

NUMBERS_AT_ONCE: Final = 100_000
"""Of outcomes that one statement looks at: most were moved long ago, and it must stay within its time."""

# A number of ours; whoever takes it moves the logs of this database.
_MOVER: Final = 0x5BEC_A2C4


class ChangedError(Exception):
    """What would be stored is not what is there: nothing was moved. The text says which match."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A match whose log may be moved."""

    match_id: UUID
    ended_no: int


@dataclass(frozen=True, slots=True)
class Moved:
    """What was moved."""

    rulings: int
    plain_bytes: int
    packed_bytes: int


async def become_mover(connection: Connection) -> bool:
    """As long as the connection lasts nobody else moves logs; False when somebody does."""
    return bool(await connection.fetchval("select pg_try_advisory_lock($1)", _MOVER))


async def candidates(connection: Connection, *, days: float, after: int, limit: int) -> list[Finished]:
    """The first matches that ended more than `days` ago, by the database's clock, and have their logs in match_log; of
    those numbered above `after`, in the order in which they ended. There may be fewer than `limit`; none only when
    there are no more."""
    newest = await connection.fetchval("select coalesce(max(ended_no), 0) from match_outcome")
    for first in range(after, newest, NUMBERS_AT_ONCE):
        rows = await connection.fetch(
            """
            select o.match_id, o.ended_no from match_outcome o
            cross join lateral (select from match_log l where l.match_id = o.match_id limit 1) has_log
            where o.ended_no > $1 and o.ended_no <= $2
              and o.ended_at < clock_timestamp() - make_interval(secs => $3 * 86400)
            order by o.ended_no limit $4
            """,
            first,
            first + NUMBERS_AT_ONCE,
            days,
            limit,
        )
        if rows:
            return [Finished(row["match_id"], row["ended_no"]) for row in rows]
    return []


async def move(connection: Connection, match_id: UUID) -> Moved | None:
    """Move one log; None when it is not in match_log any more.

    The archive is read back and compared, row by row and column by column, before the rows go. Raises ChangedError, and
    TypeError for a column that cannot be archived; nothing has moved then.
    """
    async with connection.transaction():
        rows = await connection.fetch(
            "select * from match_log where match_id = $1 order by revision", match_id
        )
        if not rows:
            return None
        log = [dict(row) for row in rows]
        packed = pack(log)
        await _store(connection, match_id, packed)
        await _verify(connection, match_id, log)
        gone = await connection.execute("delete from match_log where match_id = $1", match_id)
        if gone != f"DELETE {len(rows)}":
            raise ChangedError(f"match {match_id}: {gone} instead of {len(rows)} rows")
        return Moved(len(rows), packed.plain_bytes, len(packed.data))


async def _store(connection: Connection, match_id: UUID, packed: Packed) -> None:
    await connection.execute(
        f"""
        insert into match_archive (match_id, rulings, plain_bytes, checksum, data, rounds, dealt_at, turns,
                                   north_credited_ns, south_credited_ns)
        select $1, $2, $3, $4, $5, {LENGTH},
               coalesce(sum(credited_ns) filter (where seat = 'north' and credited_ns > 0), 0),
               coalesce(sum(credited_ns) filter (where seat = 'south' and credited_ns > 0), 0)
        from match_log where match_id = $1
        """,  # noqa: S608 - made of a constant
        match_id,
        packed.rulings,
        packed.plain_bytes,
        packed.checksum,
        packed.data,
    )


async def _verify(connection: Connection, match_id: UUID, log: list[dict[str, Any]]) -> None:
    stored = await connection.fetchrow(
        "select data, checksum, rulings from match_archive where match_id = $1", match_id
    )
    assert stored is not None
    restored = unpack(stored["data"], stored["checksum"], stored["rulings"])
    if list(map(_comparable, restored)) != list(map(_comparable, log)):
        raise ChangedError(f"match {match_id}: the archive does not hold what is in the log")


def _comparable(row: dict[str, Any]) -> dict[str, Any]:
    # JSON is what it says, however it is spelled.
    known = {name: value for name, value in row.items() if name != "match_id"}
    return known | {"events": json.loads(row["events"])}


async def restore(connection: Connection, match_id: UUID) -> int:
    """Put the rows of an archived log back into match_log, exactly as they were, and remove the archive; how many rows.

    0 when there is no archive. For tools that must have rows: nothing in the services needs it.
    """
    async with connection.transaction():
        stored = await connection.fetchrow(
            "delete from match_archive where match_id = $1 returning data, checksum, rulings", match_id
        )
        if stored is None:
            return 0
        rows = unpack(stored["data"], stored["checksum"], stored["rulings"])
        names = list(rows[0])
        places = ", ".join(
            f"${number}::jsonb" if name == "events" else f"${number}" for number, name in enumerate(names, 2)
        )
        await connection.executemany(
            f"insert into match_log (match_id, {', '.join(names)}) values ($1, {places})",  # noqa: S608 - see above
            [(match_id, *row.values()) for row in rows],
        )
        return len(rows)
