"""Fixtures of the matchmaking tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg
import pytest

from tests.services.matchmaking.house import House


@pytest.fixture
async def house(database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """A house without processes yet."""
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(asyncpg.create_pool(database_url, min_size=1, max_size=4))
        yield House(stack, database_url, tmp_path, pool)


@pytest.fixture
async def open_house(house: House) -> House:
    """A house with one matchmaking process and one game process."""
    await house.start()
    await house.game()
    return house
