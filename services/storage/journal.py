"""The only writer of match logs: rulings of different matches that wait for the disk together share one transaction.

Every append checks the owner's fence in its own statement. A connection lost during a commit leaves the result
unknown; an append can be repeated, because it is keyed by match and revision, and finds out whether it was there.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple, Protocol

from services.common.logs import get_logger
from services.storage.endings import Ending, ending_columns, ending_sql
from services.storage.incidents import Touched, put_touched
from services.storage.pool import TRANSIENT, Pool

GROUP_MAX: Final = 256
RETRY_SECONDS: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
STALLED_SECONDS: Final = 1.0
"""A group that took longer than this is worth an incident."""


class FencedError(Exception):
    """Another process owns the match; this one must stop at once."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The stamps and figures behind a timed ruling. Nanoseconds."""

    turn: int
    start_ns: int | None = None
    arrive_ns: int | None = None
    start_raw_ns: int | None = None
    read_raw_ns: int | None = None
    timeline_id: str | None = None
    carried_ns: int | None = None
    elapsed_ns: int | None = None
    consumed_ns: int | None = None
    charge_ns: int | None = None
    bank_after_ns: int | None = None
    credited_ns: int | None = None
    clock_id: str | None = None
    policy_version: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One ruling to be stored."""

    match_id: str
    revision: int
    first_sequence: int
    last_sequence: int
    fence: int
    events: str
    """JSON array."""
    seat: str | None = None
    request_id: str | None = None
    request_hash: bytes | None = None
    judged: Judged | None = None
    ending: Ending | None = None
    touched: tuple[Touched, ...] = ()
    """Incidents that this ruling's figures rest on; stored before them."""


class _Stored(NamedTuple):
    """What came of a group, by match."""

    now: set[str]
    """The ruling was stored by this attempt."""
    lost: set[str]
    """The ruling is not in the log, because another process owns the match."""


_JUDGED = tuple(field.name for field in fields(Judged))
_COLUMNS: Final = (
    ("match_id", "uuid"),
    ("revision", "bigint"),
    ("first_sequence", "bigint"),
    ("last_sequence", "bigint"),
    ("fence", "bigint"),
    ("events", "text"),
    ("seat", "text"),
    ("request_id", "text"),
    ("request_hash", "bytea"),
    *(
        (name, "text" if name in ("timeline_id", "clock_id", "policy_version") else "bigint")
        for name in _JUDGED
    ),
)
_NAMES = ", ".join(name for name, _ in _COLUMNS)
_VALUES = ", ".join("i.events::jsonb" if name == "events" else f"i.{name}" for name, _ in _COLUMNS)
_ARRAYS = ", ".join(f"${number}::{kind}[]" for number, (_, kind) in enumerate(_COLUMNS, 2))

# The share lock makes a takeover, which updates the owner's row, wait for this commit or come before it.
_APPEND = f"""input as (
    select * from unnest({_ARRAYS}) as t ({_NAMES})
), owned as (
    select o.match_id, o.fence from match_owner o
    where o.match_id = any($2::uuid[]) and o.engine_id = $1 and o.released_at is null
    order by o.match_id for share of o
), stored as (
    insert into match_log ({_NAMES})
    select {_VALUES} from input i join owned o on o.match_id = i.match_id and o.fence = i.fence
    on conflict do nothing
    returning match_id
)"""  # noqa: S608 - made of the constants above
APPEND = f"with {_APPEND} select match_id from stored"  # noqa: S608 - the same
APPEND_AND_END = ending_sql(_APPEND, len(_COLUMNS) + 2)
END = ending_sql("stored as (select * from unnest($1::uuid[]) as s (match_id))", 2)


class Meter(Protocol):
    """Is told what group commits cost."""

    def tried(self, seconds: float) -> None:
        """A group was written, or could not be, after so long."""

    def stored(self, rulings: int) -> None:
        """So many rulings were stored in one transaction."""

    def repeated(self) -> None:
        """A group has to be written once more."""


class Journal:
    """Appends rulings in groups. One task, `run`, writes; `append` waits for its own ruling's commit."""

    def __init__(self, pool: Pool, engine_id: str, meter: Meter) -> None:
        self._pool = pool
        self._engine_id = engine_id
        self._meter = meter
        self._waiting: list[tuple[Entry, asyncio.Future[None]]] = []
        self._wake = asyncio.Event()
        self.on_stalled: Callable[[float, Sequence[str]], None] = lambda _seconds, _match_ids: None
        """Told how long a group took that took long, and whose rulings were in it, once it is stored."""

    def append(self, entry: Entry) -> asyncio.Future[None]:
        """Done when the ruling is on disk. Raises FencedError when this process does not own the match any more.

        Database trouble is waited out: the result is then late, never wrong.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, done))
        self._wake.set()
        return done

    async def run(self) -> None:
        """Writes until cancelled."""
        while True:
            await self._wake.wait()
            group = self._next_group()
            if not self._waiting:
                self._wake.clear()
            await self._write_patiently(group)

    def _next_group(self) -> list[tuple[Entry, asyncio.Future[None]]]:
        """Takes those that wait longest, one a match, since what came of a group is told by match.

        Two rulings of a match wait at once when a room was lost in an outage of the database and the next one was opened
        before it was over: the older ruling must not pass for stored because the newer one was.
        """
        group: dict[str, tuple[Entry, asyncio.Future[None]]] = {}
        later = []
        for waiting in self._waiting:
            if len(group) < GROUP_MAX and waiting[0].match_id not in group:
                group[waiting[0].match_id] = waiting
            else:
                later.append(waiting)
        self._waiting = later
        return list(group.values())

    async def _write_patiently(self, group: list[tuple[Entry, asyncio.Future[None]]]) -> None:
        attempt, since = 0, time.monotonic()
        while group:
            try:
                lost = await self._write([entry for entry, _ in group])
            except TRANSIENT as error:
                self._meter.repeated()
                pause = RETRY_SECONDS[min(attempt, len(RETRY_SECONDS) - 1)]
                get_logger().warning(
                    "commit_retry", error=type(error).__name__, rulings=len(group), attempt=attempt
                )
                attempt += 1
                await asyncio.sleep(pause)
                continue
            except Exception as error:  # noqa: BLE001 - whatever it is, the room that waits must learn of it
                if len(group) > 1:
                    # One ruling the database does not take must not stop the others.
                    for single in group:
                        await self._write_patiently([single])
                    return
                get_logger().exception("commit_refused", match_id=group[0][0].match_id)
                _fail(group[0][1], error)
                return
            self._meter.stored(len(group))
            if (seconds := time.monotonic() - since) > STALLED_SECONDS:
                self.on_stalled(seconds, [entry.match_id for entry, _ in group])
            for entry, done in group:
                if entry.match_id in lost:
                    _fail(done, FencedError(entry.match_id))
                elif not done.done():
                    done.set_result(None)
            return

    async def _write(self, entries: Sequence[Entry]) -> set[str]:
        """One transaction. Returns the matches whose ruling is not in the log, because another process owns them."""
        began = time.monotonic()
        try:
            return await self._store(entries)
        finally:
            self._meter.tried(time.monotonic() - began)

    async def _store(self, entries: Sequence[Entry]) -> set[str]:
        async with self._pool.acquire() as connection:
            if not any(entry.touched for entry in entries):
                return (await self._append(connection, entries, end=True)).lost
            async with connection.transaction():
                stored = await self._append(connection, entries, end=False)
                # What came with a ruling that an earlier attempt stored was stored in that transaction too: credits
                # are added up, so once more would be once too often.
                now = [entry for entry in entries if entry.match_id in stored.now]
                touched = [(entry.match_id, each) for entry in now for each in entry.touched]
                if touched:
                    await put_touched(connection, touched)
                # Behind the incidents that an outcome rests on.
                if ended := _ended(now):
                    columns = ending_columns(ended)
                    await connection.fetch(END, columns[0], *columns)
            return stored.lost

    async def _append(self, connection: Any, entries: Sequence[Entry], *, end: bool) -> _Stored:
        """The rulings, and with `end` the ends that they bring."""
        ended = _ended(entries) if end else []
        if ended:
            rows = await connection.fetch(
                APPEND_AND_END, self._engine_id, *_arrays(entries), *ending_columns(ended)
            )
        else:
            rows = await connection.fetch(APPEND, self._engine_id, *_arrays(entries))
        now = {str(row["match_id"]) for row in rows}
        missing = [entry for entry in entries if entry.match_id not in now]
        there = await self._already_there(connection, missing)
        return _Stored(now, {entry.match_id for entry in missing} - there)

    async def _already_there(self, connection: Any, entries: Sequence[Entry]) -> set[str]:
        """Matches whose ruling an earlier attempt stored, though its commit was never acknowledged."""
        there = set()
        for entry in entries:
            row = await connection.fetchrow(
                "select fence, events = $3::jsonb as same from match_log where match_id = $1 and revision = $2",
                uuid.UUID(entry.match_id),
                entry.revision,
                entry.events,
            )
            if row is not None and row["fence"] == entry.fence and row["same"]:
                there.add(entry.match_id)
        return there


def _fail(done: asyncio.Future[None], error: Exception) -> None:
    if not done.done():
        done.set_exception(error)


def _ended(entries: Iterable[Entry]) -> list[tuple[str, int, Ending]]:
    return [(entry.match_id, entry.fence, entry.ending) for entry in entries if entry.ending is not None]


def _arrays(entries: Sequence[Entry]) -> list[list[Any]]:
    plain = (
        "revision",
        "first_sequence",
        "last_sequence",
        "fence",
        "events",
        "seat",
        "request_id",
        "request_hash",
    )
    return [
        [uuid.UUID(entry.match_id) for entry in entries],
        *([getattr(entry, name) for entry in entries] for name in plain),
        *([entry.judged and getattr(entry.judged, name) for entry in entries] for name in _JUDGED),
    ]
