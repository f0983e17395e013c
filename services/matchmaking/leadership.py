"""One process leads: whoever holds an advisory lock of PostgreSQL on a connection of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

import asyncpg

from services.common.logs import get_logger
from services.matchmaking.metrics import LeadMetrics
from services.storage.pool import TRANSIENT
from services.storage.sessions import session_settings

# Quoted: asyncpg's classes take parameters only in their stubs.
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

LOCK_KEY: Final = 0x5B1D_0001
"""Number of the advisory lock: any, so long as every release uses the same."""
ASK_SECONDS = 0.25
"""How often a standby asks for the lock: what a takeover costs after the leader's connection has ended."""
CHECK_SECONDS = 1.0
CHECK_TIMEOUT_SECONDS = 2.0
CONNECT_TIMEOUT_SECONDS = 5.0


class Leadership:
    """Leads whenever it can. Losing the connection is losing the lead: the lock is free from then on.

    Two processes may believe in it for a moment, until the older one has noticed. Nothing rests on that not happening:
    the rows settle every race.
    """

    def __init__(self, database_url: str, metrics: LeadMetrics) -> None:
        self._url = database_url
        self._metrics = metrics

    async def hold(self, lead: Callable[[Connection], Awaitable[None]]) -> None:
        """Until cancelled: wait for the lock, then run `lead` on its connection for as long as that lives.

        `lead` is cancelled when the connection ends. What it raises itself, other than trouble of the database, ends
        this as well. When this is cancelled, the lock is given back at once.
        """
        while True:
            with suppress(*TRANSIENT):
                connection = await self._connect()
                try:
                    await self._wait_for_lock(connection)
                    await self._lead(connection, lead)
                finally:
                    await _close(connection)
            await asyncio.sleep(ASK_SECONDS)

    async def _connect(self) -> Connection:
        return await asyncpg.connect(
            self._url,
            timeout=CONNECT_TIMEOUT_SECONDS,
            server_settings={
                **session_settings("matchmaking", "matchmaking-lead"),
                # The server frees the lock of a machine that vanished without a word after about 10 s.
                "tcp_keepalives_idle": "4",
                "tcp_keepalives_interval": "2",
                "tcp_keepalives_count": "3",
            },
        )

    async def _wait_for_lock(self, connection: Connection) -> None:
        # Asked for again and again, not waited for: a waiting statement would not notice a dead connection.
        while not await self._try_lock(connection):  # noqa: ASYNC110 - the event is in the database
            await asyncio.sleep(ASK_SECONDS)

    async def _try_lock(self, connection: Connection) -> bool:
        return bool(
            await connection.fetchval(
                "select pg_try_advisory_lock($1)", LOCK_KEY, timeout=CHECK_TIMEOUT_SECONDS
            )
        )

    async def _lead(self, connection: Connection, lead: Callable[[Connection], Awaitable[None]]) -> None:
        get_logger().info("lead_taken")
        self._metrics.leading.set(1)
        leading = asyncio.ensure_future(lead(connection))
        watching = asyncio.create_task(_watch(connection))
        try:
            await asyncio.wait({leading, watching}, return_when=asyncio.FIRST_COMPLETED)
            if leading.done():
                await leading
        finally:
            self._metrics.leading.set(0)
            self._metrics.lost.inc()
            get_logger().info("lead_ended")
            for task in (leading, watching):
                task.cancel()
            await asyncio.gather(leading, watching, return_exceptions=True)


async def _watch(connection: Connection) -> None:
    """Returns or raises when the connection does not live any more."""
    ended = asyncio.Event()
    connection.add_termination_listener(lambda _: ended.set())
    while not connection.is_closed():
        with suppress(TimeoutError):
            async with asyncio.timeout(CHECK_SECONDS):
                await ended.wait()
                return
        await connection.execute("select", timeout=CHECK_TIMEOUT_SECONDS)


async def _close(connection: Connection) -> None:
    try:
        await connection.close(timeout=1)
    except TRANSIENT:
        connection.terminate()
