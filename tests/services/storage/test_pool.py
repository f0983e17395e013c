"""The connections of a service process."""

from __future__ import annotations

import asyncio

import pytest

from services.storage.pool import DatabaseUnavailableError, open_pool


async def test_a_database_that_takes_connections_and_never_answers_is_given_up() -> None:
    """As a stopped server does: the kernel accepts for it."""

    gone = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        gone.set()

    silent = await asyncio.start_server(listen, "127.0.0.1", 0)
    async with silent, asyncio.timeout(20):
        port = silent.sockets[0].getsockname()[1]
        with pytest.raises(DatabaseUnavailableError):
            await open_pool(
                f"postgresql://nobody@127.0.0.1:{port}/none?sslmode=disable",
                name="test",
                size=1,
                wait_seconds=0,
                connect_seconds=0.1,
            )
        await gone.wait()
