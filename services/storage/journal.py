"""The only writer of match logs: rulings of different matches that wait for the disk together share one transaction.

Every append checks the owner's fence in its own statement. A connection lost during a commit leaves the result
unknown; an append can be repeated, because it is keyed by match and revision, and finds out whether it was there.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, Final, NamedTuple, Protocol

from services.common.logs import get_logger
from services.storage.endings import Ending, ending_columns, ending_sql
from services.storage.entry import NAMES, Entry, rows, rows_sql
from services.storage.incidents import INCIDENT, TOUCHED, Incident, Kind, touching_columns, touching_sql
from services.storage.invitations import Elsewhere, NotOurs, Seated, accept
from services.storage.mending import Found, Kept, LogLostError, State, mend
from services.storage.ownership import owners_of
from services.storage.pool import TRANSIENT, Pool

GROUP_MAX: Final = 256
GATHER_SECONDS: Final = 0.004
"""How long rulings wait at most for others that are on their way: whoever comes later waits for the whole group before."""
TOLD_AT_ONCE: Final = 32
"""What rooms do then, and streams, must not fill a turn of the loop that is long: nobody is heard meanwhile."""
RETRY_SECONDS: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
STALLED_SECONDS: Final = 1.0
"""A group that took longer than this is worth an incident."""


class FencedError(Exception):
    """Another process owns the match; this one must stop at once."""


class _Stored(NamedTuple):
    """What came of a group, by match."""

    now: set[str]
    """The ruling was stored by this attempt."""
    lost: set[str]
    """The ruling is not in the log: another process owns the match, or the ruling before it is missing."""


# Nothing is written behind a hole: a database that has lost the ruling before this one is mended first. (The newest one
# of each match, looked up once. Asking for the very one before was 15 times as dear: before the first statistics are
# there, the planner takes an index that does not lead to it.)
# The share lock makes a takeover, which updates the owner's row, wait for this commit or come before it.
_APPEND = f"""input as ({rows_sql(2)}
), owned as (
    select o.match_id, o.fence,
        coalesce((select max(l.revision) from match_log l where l.match_id = o.match_id), 0) as newest
    from match_owner o
    where o.match_id = any (array(select match_id from input)) and o.engine_id = $1 and o.released_at is null
    order by o.match_id for share of o
), stored as (
    insert into match_log ({NAMES})
    select i.* from input i
    join owned o on o.match_id = i.match_id and o.fence = i.fence and i.revision <= o.newest + 1
    on conflict do nothing
    returning match_id
)"""  # noqa: S608 - made of the constants above
APPEND = f"with {_APPEND} select match_id from stored"  # noqa: S608 - the same
APPEND_AND_END = ending_sql(_APPEND, 3)
# What their figures rest on goes with them: it comes by the hundred when a stall is credited.
_TOUCH = f"{_APPEND}, {touching_sql(3)}"
APPEND_AND_TOUCH = f"with {_TOUCH} select match_id from stored"  # noqa: S608 - the same
APPEND_TOUCH_AND_END = ending_sql(_TOUCH, 3 + len(TOUCHED) + len(INCIDENT))
_STATEMENTS: Final = {
    (False, False): APPEND,
    (False, True): APPEND_AND_END,
    (True, False): APPEND_AND_TOUCH,
    (True, True): APPEND_TOUCH_AND_END,
}
"""By whether incidents, and ends, come with the rulings."""
SAFE = "select pg_logical_emit_message(true, 'spectacular_bid', '')"
"""Writes nothing that anybody reads, but is a commit, which waits for the standbys that it must."""
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
        self._kept = Kept()
        self.on_mended: Callable[[str, str], Incident] = lambda match_id, why: Incident.lasting(
            Kind.LOG_LOST, f"game/{engine_id}", 0, "", engine_id=engine_id, reason=f"{match_id}: {why}"
        )
        """Makes the incident of rulings that were put back, of what match and why."""
        self.coming: Callable[[], int] = lambda: 0
        """How many rulings will be appended in a moment: those of commands that are being judged."""
        self._waiting: list[tuple[Entry, asyncio.Future[None]]] = []
        self._stored: deque[asyncio.Future[None]] = deque()
        """Of rulings whose rooms are not told yet."""
        self._gathering: asyncio.Future[None] | None = None
        """Done when the next group may be written; None while one is."""
        self._gathered_at_last: asyncio.TimerHandle | None = None
        self._holding = AsyncExitStack()
        self._connection: Any = None
        """Kept from group to group while rulings wait: to take it from the pool and to give it back costs more than ten
        rulings, and another one would know less of our statement."""
        self.on_stalled: Callable[[float, Sequence[str]], None] = lambda _seconds, _match_ids: None
        """Told how long a group took that took long, and whose rulings were in it, once it is stored."""

    def append(self, entry: Entry) -> asyncio.Future[None]:
        """Done when the ruling is on disk. Raises FencedError when this process does not own the match any more.

        Database trouble is waited out: the result is then late, never wrong.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, done))
        if self._gathering is not None:
            self._gather(self._gathering)
        return done

    async def run(self) -> None:
        """Writes until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                if not self._waiting:
                    await self._let_go()
                self._gathering = loop.create_future()
                if self._waiting:
                    self._gather(self._gathering)
                await self._gathering
                self._gathering = None
                await self._write_patiently(self._next_group())
        finally:
            await self._let_go()

    def _gather(self, gathering: asyncio.Future[None]) -> None:
        """Begins with the next group, unless at least as many are on their way as are here: those are waited for a while.

        A transaction costs as much as fifteen rulings, whatever is in it, and those that miss it wait for all of it. When
        little is played nothing is on its way, and nothing waits.
        """
        if len(self._waiting) > min(self.coming(), GROUP_MAX - 1):
            self._begin(gathering)
        elif self._gathered_at_last is None:
            loop = asyncio.get_running_loop()
            self._gathered_at_last = loop.call_later(GATHER_SECONDS, self._begin, gathering)

    def _begin(self, gathering: asyncio.Future[None]) -> None:
        if self._gathered_at_last is not None:
            self._gathered_at_last.cancel()
            self._gathered_at_last = None
        if not gathering.done():
            gathering.set_result(None)

    async def _connected(self) -> Any:
        if self._connection is None:
            self._connection = await self._holding.enter_async_context(self._pool.acquire())
        return self._connection

    async def _let_go(self) -> None:
        self._connection = None
        # If it cannot be given back in order, the pool ends it.
        with suppress(*TRANSIENT):
            await self._holding.aclose()

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
                    _fail(done, lost[entry.match_id])
                    continue
                self._kept.stored(entry)
                self._stored.append(done)
            self._say_so()
            return

    def _say_so(self) -> None:
        """Tells rooms that their rulings are stored, not more than `TOLD_AT_ONCE` in one turn of the loop."""
        for _ in range(min(TOLD_AT_ONCE, len(self._stored))):
            done = self._stored.popleft()
            if not done.done():
                done.set_result(None)
        if self._stored:
            asyncio.get_running_loop().call_soon(self._say_so)

    async def seat(self, match_id: str, fence: int, player_id: str) -> Seated | Elsewhere:
        """Gives an invited player the seat. Raises FencedError when this process does not own the match any more."""
        async with self._pool.acquire() as connection:
            seated = await accept(connection, match_id, player_id, self._engine_id, fence)
        if isinstance(seated, NotOurs):
            raise FencedError(match_id)
        return seated

    @property
    def kept(self) -> Iterable[str]:
        """The matches of which something could be put back."""
        return self._kept.matches()

    async def mend(self, match_id: str, fence: int | None = None, revision: int | None = None) -> Found:
        """Puts back what the database has lost of a match that was told up to `revision`; without more, what is known
        of it here is what is kept."""
        newest = self._kept.newest(match_id)
        if newest is not None:
            fence, revision = fence or newest.fence, revision or newest.revision
        if fence is None or revision is None:
            return Found(State.WHOLE)  # nothing was told
        async with self._pool.acquire() as connection:
            return await self._mend(connection, match_id, fence, revision)

    def forget(self, match_id: str) -> None:
        """The match is somebody else's, or long over: nothing of it will be put back."""
        self._kept.forget(match_id)

    async def _mend(self, connection: Any, match_id: str, fence: int, revision: int) -> Found:
        kept = self._kept.of(match_id)
        found = await mend(connection, self._engine_id, match_id, fence, revision, kept, self.on_mended)
        if found.state is State.MENDED:
            get_logger().warning("log_mended", match_id=match_id, fence=fence, put_back=found.put_back)
        return found

    async def _write(self, entries: Sequence[Entry]) -> dict[str, Exception]:
        """Stores them. Returns, by match, why a ruling is not in the log: another process owns the match, or the
        database has lost what came before it."""
        began = time.monotonic()
        try:
            connection = await self._connected()
            lost = await self._store(connection, entries)
            if not lost:
                return {}
            return await self._look_into(connection, [each for each in entries if each.match_id in lost])
        except BaseException:
            # It may be what was wrong, or lead to where nothing is written any more.
            await self._let_go()
            raise
        finally:
            self._meter.tried(time.monotonic() - began)

    async def _look_into(self, connection: Any, entries: Sequence[Entry]) -> dict[str, Exception]:
        """Why these were not stored. What is missing before them is put back, if it can be, and they follow."""
        failed: dict[str, Exception] = {}
        again = []
        owners = await owners_of(connection, [entry.match_id for entry in entries])
        for entry in entries:
            match_id, owner = entry.match_id, owners.get(entry.match_id)
            failed[match_id] = FencedError(match_id)
            # Fences only grow: one that is behind ours is one that the database has forgotten to raise.
            if owner is None or owner.fence > entry.fence:
                continue
            if owner.fence == entry.fence and owner.engine_id != self._engine_id:
                continue
            found = await self._mend(connection, match_id, entry.fence, entry.revision - 1)
            if found.state is State.LOST:
                failed[match_id] = LogLostError(match_id, found.why)
            elif found.state is not State.OTHERS:
                del failed[match_id]
                again.append(entry)
        if again:
            failed |= {match_id: FencedError(match_id) for match_id in await self._store(connection, again)}
        return failed

    async def _store(self, connection: Any, entries: Sequence[Entry]) -> set[str]:
        """One transaction. Returns the matches whose ruling is not in the log."""
        if not [entry for entry in entries if entry.ending and entry.touched]:
            return (await self._append(connection, entries, end=True)).lost
        async with connection.transaction():
            stored = await self._append(connection, entries, end=False)
            # Behind the incidents that an outcome rests on: they excuse who did not come. What an earlier attempt stored
            # ended with it.
            if ended := _ended(entry for entry in entries if entry.match_id in stored.now):
                columns = ending_columns(ended)
                await connection.fetch(END, columns[0], *columns)
        return stored.lost

    async def _append(self, connection: Any, entries: Sequence[Entry], *, end: bool) -> _Stored:
        """The rulings, the incidents that they rest on, and with `end` the ends that they bring.

        What came with a ruling that an earlier attempt stored was stored in that transaction too: credits are added up,
        so once more would be once too often. The statements see to it.
        """
        touched = [(entry.match_id, each) for entry in entries for each in entry.touched]
        ended = _ended(entries) if end else []
        stored = await connection.fetch(
            _STATEMENTS[bool(touched), bool(ended)],
            self._engine_id,
            rows(entries),
            *(touching_columns(touched) if touched else ()),
            *(ending_columns(ended) if ended else ()),
        )
        if len(stored) == len(entries):
            return _Stored({entry.match_id for entry in entries}, set())
        now = {str(row["match_id"]) for row in stored}
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
        if there:
            # Seen is not safe: a commit whose wait for a standby was cut, as when our patience with the statement ended,
            # is on this server alone. This one commits after it, and waits anew for all that comes before.
            await connection.execute(SAFE)
        return there


def _fail(done: asyncio.Future[None], error: Exception) -> None:
    if not done.done():
        done.set_exception(error)


def _ended(entries: Iterable[Entry]) -> list[tuple[str, int, Ending]]:
    return [(entry.match_id, entry.fence, entry.ending) for entry in entries if entry.ending is not None]
