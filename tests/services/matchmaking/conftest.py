"""Fixtures of the matchmaking tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from tests.services.matchmaking.house import House


@pytest.fixture
async def house(database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """A house without processes yet."""
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(asyncpg.create_pool(database_url, min_size=1, max_size=4))
        yield House(stack, database_url, tmp_path, pool)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def unchanged_house(
    new_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[House]:
    """A house with one matchmaking process, for all tests of a module that change nothing; they run on its loop."""
    url = await asyncio.to_thread(new_database)
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(asyncpg.create_pool(url, min_size=1, max_size=4))
        house = House(stack, url, tmp_path_factory.mktemp("unchanged-house"), pool)
        await house.start()
        yield house


@pytest.fixture
async def open_house(house: House) -> House:
    """A house with one matchmaking process and one game process."""
    await house.start()
    await house.game()
    return house
