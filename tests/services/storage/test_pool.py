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


async def test_giving_a_connection_back_costs_no_trip(database_url: str) -> None:
    """What the pool is asked is one trip to the server."""
    said: list[str] = []
    pool = await open_pool(database_url, name="test", size=1, wait_seconds=5)
    try:
        async with pool.acquire() as connection:
            await connection.fetchval("select 1")
            connection.add_query_logger(lambda query: said.append(query.query))
        await pool.fetchval("select 1")
    finally:
        await pool.close()
    assert said == ["select 1"]


async def test_a_transaction_left_open_is_rolled_back(database_url: str) -> None:
    """Whoever takes the connection next has nothing of it."""
    pool = await open_pool(database_url, name="test", size=1, wait_seconds=5)
    try:
        async with pool.acquire() as connection:
            # Not by `transaction()`, which would end it.
            await connection.transaction().start()
            await connection.execute("insert into player (player_id, name) values ('somebody', 'Somebody')")
            before = await connection.fetchval("select pg_backend_pid()")
            asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # asyncpg says that it does so
        assert await pool.fetchval("select pg_backend_pid()") == before
        assert await pool.fetchval("select count(*) from player") == 0
    finally:
        await pool.close()
