"""The connection pool of a service process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import asyncpg

from services.storage.sessions import LIMITS, session_settings

# Quoted: asyncpg's classes take parameters only in their stubs.
# Generic for type checkers only.
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
Connection: TypeAlias = (
    "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
)

# Generic for type checkers only.
if TYPE_CHECKING:
    _Pool = asyncpg.Pool[asyncpg.Record]
else:
    _Pool = asyncpg.Pool

COMMAND_TIMEOUT_SECONDS = 30.0
CONNECT_TIMEOUT_SECONDS = 10.0
"""A server that takes connections and does not answer, for example a stopped one, is given up after so long."""
QUERIES_MAX = 50_000
IDLE_SECONDS_MAX = 300.0
"""A connection is given back to the server after so many queries, or when nobody used it for so long."""

TRANSIENT: Final = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    # What a connection says that the server ended while nobody used it.
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.TransactionRollbackError,
    asyncpg.LockNotAvailableError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.QueryCanceledError,
    # The database is closed for maintenance.
    asyncpg.ObjectNotInPrerequisiteStateError,
)
"""Trouble that passes: the connection, the load or the role of the server was at fault, not the statement."""


async def _as_it_is(_connection: object) -> None:
    """What is done to a connection that goes back to the pool: nothing, after asyncpg has ended a transaction that was
    left open. By default it asks the server each time to forget locks, settings and listeners of the session, a trip
    that costs more than most of our statements; whoever needs such things here takes them back by themselves."""


class MeteredPool(_Pool):
    """A pool that tells how long its connections were waited for."""

    on_acquired: Callable[[float], None] = staticmethod(lambda _seconds: None)
    """Told the seconds from asking for a connection to having one."""

    async def _acquire(self, timeout: float | None) -> Any:  # noqa: ASYNC109 - as the method it replaces
        # All ways to a connection lead through here, those of the pool's own `fetch` and `execute` included.
        asked = time.perf_counter()
        connection = await super()._acquire(timeout)  # type: ignore[misc]
        self.on_acquired(time.perf_counter() - asked)
        return connection


class DatabaseUnavailableError(Exception):
    """PostgreSQL could not be reached in time."""


async def open_pool(
    url: str,
    *,
    name: str,
    size: int,
    wait_seconds: float,
    connect_seconds: float = CONNECT_TIMEOUT_SECONDS,
    on_connect: Callable[..., Awaitable[None]] | None = None,
) -> MeteredPool:
    """A pool on the database, trying for `wait_seconds` while it cannot be reached.

    `name` is what the database shows as application_name, and the role whose limits of time hold; `on_connect` is called
    with each new connection before its first use. Raises DatabaseUnavailableError.
    """
    give_up = time.monotonic() + wait_seconds
    while True:
        try:
            return await MeteredPool(
                url,
                min_size=1,
                max_size=size,
                max_queries=QUERIES_MAX,
                max_inactive_connection_lifetime=IDLE_SECONDS_MAX,
                loop=None,
                init=on_connect,  # type: ignore[arg-type]
                reset=_as_it_is,
                connection_class=asyncpg.Connection,
                record_class=asyncpg.Record,
                timeout=connect_seconds,
                command_timeout=COMMAND_TIMEOUT_SECONDS,
                # A stuck peer must not hold locks for ever.
                server_settings=session_settings(name if name in LIMITS else "game", name),
            )
        except (
            OSError,
            TimeoutError,
            asyncpg.CannotConnectNowError,
            asyncpg.TooManyConnectionsError,
            # Its role is made, or gets its password, by somebody else.
            asyncpg.InvalidAuthorizationSpecificationError,
            asyncpg.InvalidCatalogNameError,
        ) as error:
            if time.monotonic() >= give_up:
                raise DatabaseUnavailableError(f"no connection to PostgreSQL: {error}") from error
            await asyncio.sleep(0.2)
