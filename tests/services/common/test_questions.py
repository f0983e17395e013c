"""Players' questions to the database, and what is left for the service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from services.common.limits import Limit, LimitError
from services.common.questions import SHARE, WAITING_MAX, Questions


class Counting:
    """Stands for a pool: how many have a connection."""

    def __init__(self) -> None:
        self.out = 0

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[None]:
        """One more."""
        self.out += 1
        try:
            yield
        finally:
            self.out -= 1


async def test_questions_leave_connections_for_the_service_itself() -> None:
    """However many are asked: one connection in four, some wait, more are refused, and whoever leaves makes room."""
    pool = Counting()
    questions = Questions(cast(Any, pool), 2 * SHARE)
    answered = asyncio.Event()

    async def ask() -> None:
        async with questions.acquire():
            await answered.wait()

    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(ask()) for _ in range(2 + WAITING_MAX)]
        await asyncio.sleep(0)
        assert pool.out == 2
        with pytest.raises(LimitError) as error:
            await ask()
        assert (error.value.limit, error.value.retry_after_seconds) == (Limit.QUESTIONS, 1.0)
        # Who goes away leaves the line.
        asked[-1].cancel()
        await asyncio.sleep(0)
        asked.append(group.create_task(ask()))
        await asyncio.sleep(0)
        answered.set()
    assert pool.out == 0
    assert [task for task in asked if not task.cancelled() and task.exception() is not None] == []
