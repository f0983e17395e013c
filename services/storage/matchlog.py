"""The one place where logs of matches are read: from `match_log`, or from `match_archive` when they were moved there.

The archive holds every column of every row, as JSON lines in the order of their revisions, compressed. Whoever moves a
log stores the archive and removes the rows in one transaction, so a log is in one of the two places, and whole. The
rows are looked for first: a reader whose two statements have the move between them finds it in the second one.
"""

from __future__ import annotations

import hashlib
import json
import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from services.storage.pool import Connection, Pool

LENGTH: Final = """
    count(*) filter (where events @> '[{"type": "round_dealt"}]') as rounds,
    min(at) filter (where events @> '[{"type": "round_dealt"}]') as dealt_at,
    coalesce(max(turn), 0) as turns
"""
"""How long a match was: aggregates over its rows in match_log. The function match_length says the same to those who must
not read the rows."""

LENGTHS: Final = """
    left join match_archive a on a.match_id = o.match_id and d.match_turns is null
    left join lateral (
        select * from match_length(o.match_id) where d.match_turns is null and a.match_id is null limit 1
    ) l on true
"""
"""Joins to match_outcome `o` and its rating_decision `d`, which may be missing, what LENGTH_OF reads. A decision has the
length, unless it was made by a release that did not know of it; with the limit a log is read only then."""

LENGTH_OF: Final = """
    coalesce(d.match_rounds, a.rounds, l.rounds) as rounds, coalesce(d.match_turns, a.turns, l.turns) as turns,
    coalesce(d.match_dealt_at, a.dealt_at, l.dealt_at) as dealt_at
"""

CREDITS: Final = """
    select match_id, seat, credited_ns from match_log where credited_ns > 0
    union all select match_id, 'north', north_credited_ns from match_archive where north_credited_ns > 0
    union all select match_id, 'south', south_credited_ns from match_archive where south_credited_ns > 0
"""
"""Time that was not charged: match_id, seat (or null), credited_ns; several rows a match."""

_LEVEL: Final = 9
_BYTES: Final = frozenset({"request_hash"})
_TIMES: Final = frozenset({"at"})


class DamagedError(Exception):
    """An archive does not hold what was stored; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Packed:
    """The log of a match, compressed."""

    data: bytes
    checksum: bytes
    """SHA-256 of what is compressed."""
    plain_bytes: int
    rulings: int


async def read_log(
    connection: Connection | Pool, match_id: str, columns: Sequence[str]
) -> list[dict[str, Any]]:
    """These columns of the whole log of a match, in order; JSON columns as text. Raises DamagedError.

    The names are constants of the caller.
    """
    key = uuid.UUID(match_id)
    rows = await connection.fetch(
        f"select {', '.join(columns)} from match_log where match_id = $1 order by revision",  # noqa: S608 - see above
        key,
    )
    if rows:
        return [dict(row) for row in rows]
    archived = await connection.fetchrow(
        "select data, checksum, rulings from match_archive where match_id = $1", key
    )
    if archived is None:
        return []
    unpacked = unpack(archived["data"], archived["checksum"], archived["rulings"])
    # A column that is younger than the archive was null.
    return [{column: row.get(column) for column in columns} for row in unpacked]


def pack(rows: Iterable[Mapping[str, Any]]) -> Packed:
    """Rows of match_log with all their columns, in order of their revisions. The match's id goes without saying.

    Raises TypeError for a column of a kind that is not known here.
    """
    lines = [json.dumps(_plain(row), separators=(",", ":"), ensure_ascii=False) for row in rows]
    plain = "".join(f"{line}\n" for line in lines).encode()
    return Packed(zlib.compress(plain, _LEVEL), hashlib.sha256(plain).digest(), len(plain), len(lines))


def unpack(data: bytes, checksum: bytes, rulings: int) -> list[dict[str, Any]]:
    """The rows, without the match's id; JSON columns as text. Raises DamagedError."""
    try:
        plain = zlib.decompress(data)
    except zlib.error as error:
        raise DamagedError(f"the archive cannot be unpacked: {error}") from None
    if hashlib.sha256(plain).digest() != checksum:
        raise DamagedError("the archive is not what was stored: its checksum differs")
    rows = [_row(json.loads(line)) for line in plain.splitlines()]
    if len(rows) != rulings:
        raise DamagedError(f"the archive holds {len(rows)} rulings instead of {rulings}")
    return rows


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for name, value in row.items():
        if name == "match_id":
            continue
        if name == "events":
            plain[name] = json.loads(value)
        elif name in _TIMES:
            plain[name] = value.isoformat()
        elif name in _BYTES and value is not None:
            plain[name] = value.hex()
        elif value is None or isinstance(value, str | int):
            plain[name] = value
        else:
            raise TypeError(f"{name}: {type(value).__name__} is not known in an archive")
    return plain


def _row(plain: dict[str, Any]) -> dict[str, Any]:
    row = dict(plain)
    row["events"] = json.dumps(plain["events"], ensure_ascii=False)
    row |= {name: datetime.fromisoformat(plain[name]) for name in _TIMES}
    row |= {name: bytes.fromhex(plain[name]) for name in _BYTES if plain[name] is not None}
    return row
