"""The rows of the database and what a server does with them: transactions, row locks, a clock, and trouble.

The statements are those of services.storage, each known by how it begins; one that is not known fails loudly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import asyncpg

from engine.clock import MILLISECOND, SECOND
from services.storage.matches import MatchRow
from tests.simulation.world import EPOCH, World

Row = dict[str, Any]
LOCK_TIMEOUT_NS: Final = 10 * SECOND
LOCK_LOOK_NS: Final = 1 * MILLISECOND
WALL: Final = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Tables:
    """What is committed."""

    match: dict[str, MatchRow] = field(default_factory=dict)
    owner: dict[str, Row] = field(default_factory=dict)
    lease: dict[str, Row] = field(default_factory=dict)
    log: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    evidence: dict[str, Row] = field(default_factory=dict)
    outcome: dict[str, Row] = field(default_factory=dict)
    incident: dict[str, Row] = field(default_factory=dict)
    touched: dict[tuple[str, str], Row] = field(default_factory=dict)
    seed: dict[str, bytes] = field(default_factory=dict)


@dataclass
class Trouble:
    """How the server is now: chances for each statement."""

    down: bool = False
    lost: float = 0.0
    """The statement never arrives, and the connection breaks."""
    unheard: float = 0.0
    """It is carried out, but the connection breaks before the answer."""
    late: float = 0.0
    """The connection breaks, and it is carried out some time later."""
    slow_ms: float = 0.5


class WaitForLock(Exception):
    """Somebody else holds a row."""


class Backend:
    """One connection, as the server sees it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.open = True
        self.within = False
        """Whether a transaction is open."""
        self.writes: list[Callable[[], object]] = []
        self.locks: dict[tuple[str, str], bool] = {}

    def lock(self, table: str, key: str, *, shared: bool = False, skip: bool = False) -> bool:
        """Holds a row until the transaction ends. False when `skip` and somebody else has it."""
        for other in self.database.backends:
            if other is self:
                continue
            held = other.locks.get((table, key))
            if held is not None and not (held and shared):
                if skip:
                    return False
                raise WaitForLock
        self.locks[table, key] = shared and self.locks.get((table, key), True)
        return True

    def later(self, write: Callable[[], object]) -> None:
        """Something that becomes true when the transaction commits."""
        self.writes.append(write)

    def end(self, *, commit: bool) -> None:
        """The end of the transaction."""
        writes, self.writes, self.within = self.writes, [], False
        if commit:
            for write in writes:
                write()
            if writes:
                self.database.committed()
        self.locks.clear()

    def close(self) -> None:
        """The connection is gone."""
        if self.open:
            self.open = False
            self.end(commit=False)
            self.database.backends.remove(self)


class Database:
    """The server."""

    def __init__(self, world: World, *, fences: bool = True) -> None:
        self.world = world
        self.tables = Tables()
        self.trouble = Trouble()
        self.backends: list[Backend] = []
        self.dice = world.dice("database")
        self.wall_step_ns = 0
        """By how much its wall clock was set."""
        self.on_commit: list[Callable[[], None]] = []
        self.checks_fences = fences

    def wall_ns(self) -> int:
        """clock_timestamp(), in nanoseconds since the wall's zero."""
        return self.world.now - EPOCH + self.wall_step_ns

    def wall(self) -> datetime:
        """clock_timestamp()."""
        return WALL + timedelta(microseconds=self.wall_ns() / 1000)

    def committed(self) -> None:
        """Tells whoever wants to know of each commit that changed something."""
        for told in list(self.on_commit):
            told()

    def connect(self) -> Backend:
        """A new connection."""
        backend = Backend(self)
        self.backends.append(backend)
        return backend

    def stop(self) -> None:
        """It is gone; what was not committed never was."""
        self.trouble.down = True
        for backend in list(self.backends):
            backend.close()

    def run(self, backend: Backend, query: str, arguments: tuple[Any, ...]) -> Any:
        """Carries a statement out. Raises WaitForLock when a row is not to be had now."""
        if not backend.open:
            raise asyncpg.ConnectionDoesNotExistError("connection was closed")
        match query:
            case "begin":
                backend.within = True
                return None
            case "commit" | "rollback":
                backend.end(commit=query == "commit")
                return None
        locks, writes = dict(backend.locks), len(backend.writes)
        try:
            result = statement(query)(backend, self.tables, *arguments)
        except BaseException:
            backend.locks = locks
            del backend.writes[writes:]
            if not backend.within:
                backend.end(commit=False)
            raise
        if not backend.within:
            backend.end(commit=True)
        return result


Statement = Callable[..., Any]
_STATEMENTS: Final[dict[str, Statement]] = {}
_KNOWN: Final[dict[str, Statement]] = {}


def says(*beginnings: str) -> Callable[[Statement], Statement]:
    """A statement that begins like this, white space aside."""

    def known(made: Statement) -> Statement:
        for beginning in beginnings:
            _STATEMENTS[beginning] = made
        return made

    return known


def statement(query: str) -> Statement:
    """What a statement does."""
    known = _KNOWN.get(query)
    if known is None:
        text = " ".join(query.split())
        found = [made for beginning, made in _STATEMENTS.items() if text.startswith(beginning)]
        assert len(found) == 1, f"the simulation does not know this statement: {text[:120]}"
        known = _KNOWN[query] = found[0]
    return known


def live(tables: Tables) -> Iterable[tuple[str, Row]]:
    """The owners of matches that are not over."""
    return ((match_id, row) for match_id, row in sorted(tables.owner.items()) if row["released_at"] is None)
