"""asyncpg's pool and connections, as far as services.storage uses them, over the simulated network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import asyncpg

from engine.clock import SECOND
from services.storage.pool import COMMAND_TIMEOUT_SECONDS
from tests.simulation import declared, owners, statements  # noqa: F401 - they make themselves known
from tests.simulation.database import LOCK_LOOK_NS, LOCK_TIMEOUT_NS, Backend, Database, Row, WaitForLock
from tests.simulation.process import Process, jitter

POOL_SIZE: Final = 8
T = TypeVar("T")


class Connection:
    """One connection of one process."""

    def __init__(self, process: Process, database: Database) -> None:
        self._process = process
        self._database = database
        self._backend = database.connect()
        self.usable = True

    async def fetch(self, query: str, *arguments: Any) -> list[Row]:
        """All rows."""
        rows: list[Row] = await self._ask(query, arguments)
        return rows

    async def fetchrow(self, query: str, *arguments: Any) -> Row | None:
        """The first row."""
        rows = await self.fetch(query, *arguments)
        return rows[0] if rows else None

    async def fetchval(self, query: str, *arguments: Any) -> Any:
        """The first value of it."""
        row = await self.fetchrow(query, *arguments)
        return None if row is None else next(iter(row.values()))

    async def execute(self, query: str, *arguments: Any) -> None:
        """No rows."""
        await self._ask(query, arguments)

    async def executemany(self, query: str, arguments: Sequence[Sequence[Any]]) -> None:
        """All or nothing."""
        own = not self._backend.within
        if own:
            await self._ask("begin", ())
        for each in arguments:
            await self._ask(query, tuple(each))
        if own:
            await self._ask("commit", ())

    @asynccontextmanager
    async def transaction(self, **_options: Any) -> AsyncIterator[None]:
        """All or nothing."""
        await self._ask("begin", ())
        try:
            yield
        except BaseException:
            # The server notices a connection that is gone; another one is told.
            self.close()
            raise
        await self._ask("commit", ())

    def close(self) -> None:
        """Nothing more is asked here."""
        if self.usable:
            self.usable = False
            backend = self._backend
            self._database.world.after(jitter(self._database.dice, 1), backend.close)

    async def _ask(self, query: str, arguments: tuple[Any, ...]) -> Any:
        if not self.usable:
            raise asyncpg.InterfaceError("connection is closed")
        answer: asyncio.Future[Any] = self._process.loop.create_future()
        _database, world, trouble, dice = (
            self._database,
            self._process.world,
            self._database.trouble,
            self._database.dice,
        )
        luck = dice.random()
        there, back = jitter(dice, trouble.slow_ms), jitter(dice, trouble.slow_ms)
        broken = asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
        if trouble.down or luck < trouble.lost:
            world.count("db lost")
            world.after(there + back, lambda: self._answer(answer, broken))
        elif luck < trouble.lost + trouble.unheard:
            world.count("db unheard")
            world.after(there, lambda: self._carry_out(query, arguments, answer, world.now, unheard=back))
        elif luck < trouble.lost + trouble.unheard + trouble.late:
            world.count("db late")
            world.after(back, lambda: self._answer(answer, broken))
            late = dice.randrange(2 * SECOND)
            world.after(there + late, lambda: self._carry_out(query, arguments, answer, world.now, unheard=0))
        else:
            world.after(there, lambda: self._carry_out(query, arguments, answer, world.now, back=back))
        try:
            async with asyncio.timeout(COMMAND_TIMEOUT_SECONDS):
                return await answer
        except BaseException:
            self.usable = False
            world.after(dice.randrange(3 * SECOND), self._backend.close)
            raise

    def _carry_out(
        self,
        query: str,
        arguments: tuple[Any, ...],
        answer: asyncio.Future[Any],
        asked_at: int,
        *,
        back: int = 0,
        unheard: int | None = None,
    ) -> None:
        world, backend, dice = self._process.world, self._backend, self._database.dice
        result: Any
        try:
            if self._database.trouble.down:
                backend.close()
            result = self._database.run(backend, query, arguments)
        except WaitForLock:
            if world.now - asked_at < LOCK_TIMEOUT_NS:
                world.after(
                    LOCK_LOOK_NS,
                    lambda: self._carry_out(query, arguments, answer, asked_at, back=back, unheard=unheard),
                )
                return
            result = asyncpg.LockNotAvailableError("lock timeout")
            backend.close()
        except asyncpg.ConnectionDoesNotExistError as error:
            result = error
        if unheard is not None:
            result = asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
            # It was carried out; what was open in it ends with the connection.
            world.after(dice.randrange(SECOND), backend.close)
            back = unheard
        world.after(back, lambda: self._answer(answer, result))

    def _answer(self, answer: asyncio.Future[Any], result: Any) -> None:
        def arrives() -> None:
            if answer.done():
                return
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)

        self._process.reach(arrives)


class Pool:
    """The connections of one process."""

    def __init__(self, process: Process, database: Database) -> None:
        self._process = process
        self._database = database
        self._idle: list[Connection] = []
        self._made: list[Connection] = []
        self._places = asyncio.Semaphore(POOL_SIZE)

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Connection]:
        """A connection for a while."""
        async with self._places:
            connection = await self._one()
            try:
                yield connection
            finally:
                if connection.usable and connection._backend.open:
                    self._idle.append(connection)

    async def _one(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        if self._database.trouble.down:
            await asyncio.sleep(0.001)
            raise ConnectionRefusedError("the database is down")
        connection = Connection(self._process, self._database)
        self._made.append(connection)
        return connection

    def hang_up(self) -> None:
        """The process is gone; the server notices, and rolls back what was open."""
        for connection in self._made:
            connection.close()

    async def fetch(self, query: str, *arguments: Any) -> list[Row]:
        """As Connection."""
        async with self.acquire() as connection:
            return await connection.fetch(query, *arguments)

    async def fetchrow(self, query: str, *arguments: Any) -> Row | None:
        """As Connection."""
        async with self.acquire() as connection:
            return await connection.fetchrow(query, *arguments)

    async def fetchval(self, query: str, *arguments: Any) -> Any:
        """As Connection."""
        async with self.acquire() as connection:
            return await connection.fetchval(query, *arguments)

    async def execute(self, query: str, *arguments: Any) -> None:
        """As Connection."""
        async with self.acquire() as connection:
            await connection.execute(query, *arguments)

    async def executemany(self, query: str, arguments: Sequence[Sequence[Any]]) -> None:
        """As Connection."""
        async with self.acquire() as connection:
            await connection.executemany(query, arguments)


class Reader:
    """A connection that answers at once, for whoever looks at the rows from outside of the simulation."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._backend = Backend(database)

    async def fetch(self, query: str, *arguments: Any) -> list[Row]:
        """As Connection."""
        rows: list[Row] = self._database.run(self._backend, query, arguments)
        return rows

    async def fetchrow(self, query: str, *arguments: Any) -> Row | None:
        """As Connection."""
        rows = await self.fetch(query, *arguments)
        return rows[0] if rows else None

    @asynccontextmanager
    async def transaction(self, **_options: Any) -> AsyncIterator[None]:
        """There is nothing to do."""
        yield


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waits")
