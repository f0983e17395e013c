"""Logs made whole again after the database has lost what it had acknowledged.

A new primary without the last transactions of the old one, a base copy from before, an unlucky repair: rulings that
players were told are missing. Their writer still has the newest of them in memory and puts them back, exactly, under
their own revisions and fences. What it cannot put back it says, and nothing is written behind a hole in any case: each
append looks where the log ends.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from services.storage.endings import ending_columns, ending_sql
from services.storage.entry import NAMES, Entry, rows, rows_sql
from services.storage.incidents import Effect, Incident, Touched, put_touched
from services.storage.pool import Connection

KEPT_MAX: Final = 16
"""Rulings of a match that are kept to be put back: many times what is told while a standby falls behind."""
MATCHES_MAX: Final = 20_000
"""Matches of which rulings are kept; of more, those that have had none for the longest time are forgotten."""


class LogLostError(Exception):
    """The database has lost rulings of a match, and they cannot be put back."""

    def __init__(self, match_id: str, why: str) -> None:
        super().__init__(f"{match_id}: {why}")
        self.match_id = match_id
        self.why = why


class State(Enum):
    """What is there of a match's log."""

    WHOLE = auto()
    """All of it."""
    MENDED = auto()
    """All of it again."""
    OTHERS = auto()
    """The match is another process's by now."""
    LOST = auto()
    """Not all, and it cannot be put back."""


@dataclass(frozen=True, slots=True)
class Found:
    """What became of looking at one log."""

    state: State
    put_back: int = 0
    """Rulings that were missing and are there again."""
    why: str = ""
    """What is missing."""


class Kept:
    """The newest rulings this process has stored, by match."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, list[Entry]] = OrderedDict()

    def stored(self, entry: Entry) -> None:
        """It is on disk, as far as the database has said."""
        # No deque: each would take room for 64 entries.
        kept = self._kept.setdefault(entry.match_id, [])
        if not kept or kept[-1].revision < entry.revision:
            kept.append(entry)
            del kept[:-KEPT_MAX]
        self._kept.move_to_end(entry.match_id)
        if len(self._kept) > MATCHES_MAX:
            self._kept.popitem(last=False)

    def matches(self) -> Sequence[str]:
        """Of which some are kept."""
        return tuple(self._kept)

    def newest(self, match_id: str) -> Entry | None:
        """The newest one of a match."""
        kept = self._kept.get(match_id)
        return kept[-1] if kept else None

    def of(self, match_id: str) -> Sequence[Entry]:
        """Those of a match, oldest first."""
        return tuple(self._kept.get(match_id, ()))

    def forget(self, match_id: str) -> None:
        """The match is somebody else's, or long over."""
        self._kept.pop(match_id, None)


_PUT_BACK: Final = f"insert into match_log ({NAMES}) select * from ({rows_sql(1)}) as i order by i.revision"  # noqa: S608 - made of constants
_END: Final = ending_sql("stored as (select * from unnest($1::uuid[]) as s (match_id))", 2)


async def mend(
    connection: Connection,
    engine_id: str,
    match_id: str,
    fence: int,
    revision: int,
    kept: Sequence[Entry],
    incident_of: Callable[[str, str], Incident],
) -> Found:
    """Compares a match's log with what its writer has told, up to `revision`, and puts back what is missing.

    One transaction, with the owner's row locked. `kept` are the newest rulings of this writer, without gaps, oldest
    first. With rulings that are put back their incident is stored.
    """
    async with connection.transaction():
        owner = await connection.fetchrow(
            "select engine_id, fence from match_owner where match_id = $1 for update", uuid.UUID(match_id)
        )
        if owner is None:
            return Found(State.LOST, why="the match itself is missing")
        if owner["fence"] > fence or (owner["fence"] == fence and owner["engine_id"] != engine_id):
            others = owner["engine_id"] != engine_id
            return Found(State.OTHERS, why=await _missing(connection, match_id, kept) if others else "")
        if owner["fence"] < fence:
            # Fences only grow, and this one was given out by this database: it has forgotten so.
            await connection.execute(
                "update match_owner set engine_id = $2, fence = $3, handed_over_at = null where match_id = $1",
                uuid.UUID(match_id),
                engine_id,
                fence,
            )
        if await connection.fetchval(
            "select exists (select from match_archive where match_id = $1)", uuid.UUID(match_id)
        ):
            # Its rows are not lost: they were moved, compared and all, after the match was over.
            return Found(State.WHOLE)
        first = kept[0].revision if kept else revision + 1
        before = await connection.fetchval(
            "select count(*) from match_log where match_id = $1 and revision < $2", uuid.UUID(match_id), first
        )
        if before != first - 1:
            return Found(State.LOST, why=f"{first - 1 - before} of the first {first - 1} rulings are missing")
        there = await _compare(connection, match_id, kept)
        if other := [entry.revision for entry in kept if there.get(entry.revision) is False]:
            return Found(State.LOST, why=f"ruling {other[0]} is another one")
        missing = [entry for entry in kept if entry.revision not in there]
        if missing:
            why = f"rulings {missing[0].revision} to {missing[-1].revision} were missing and were put back"
            await _put_back(connection, match_id, missing, incident_of(match_id, why))
        return Found(State.MENDED if missing or owner["fence"] < fence else State.WHOLE, len(missing))


async def _compare(connection: Connection, match_id: str, kept: Sequence[Entry]) -> dict[int, bool]:
    """Which of these revisions are there, and whether they are these very rulings."""
    rows = await connection.fetch(
        """
        select k.revision, l.fence = k.fence and l.events = k.events::jsonb as same
        from unnest($2::bigint[], $3::bigint[], $4::text[]) as k (revision, fence, events)
        join match_log l on l.match_id = $1 and l.revision = k.revision
        """,
        uuid.UUID(match_id),
        [entry.revision for entry in kept],
        [entry.fence for entry in kept],
        [entry.events for entry in kept],
    )
    return {row["revision"]: row["same"] for row in rows}


async def _missing(connection: Connection, match_id: str, kept: Sequence[Entry]) -> str:
    """What of this writer's rulings another owner goes on without; empty for nothing."""
    there = await _compare(connection, match_id, kept)
    lost = [entry.revision for entry in kept if not there.get(entry.revision)]
    return f"rulings {lost[0]} to {lost[-1]} were told and are missing" if lost else ""


async def _put_back(
    connection: Connection, match_id: str, missing: Sequence[Entry], incident: Incident
) -> None:
    touched = [(match_id, each) for entry in missing for each in entry.touched]
    # What credited them went with them, and comes before them as it did.
    await put_touched(connection, [*touched, (match_id, Touched(incident, Effect.CONTINUED))])
    await connection.execute(_PUT_BACK, rows(missing))
    ended = [(match_id, entry.fence, entry.ending) for entry in missing if entry.ending is not None]
    if ended:
        columns: list[list[Any]] = ending_columns(ended)
        await connection.fetch(_END, columns[0], *columns)
