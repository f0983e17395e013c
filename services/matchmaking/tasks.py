"""Background work that has an owner: it survives the call that started it, and is waited for at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from services.common.logs import get_logger

T = TypeVar("T")


class Tasks:
    """A set of running tasks."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` as a task of its own: a caller that is cancelled while waiting for it does not end it.

        Await `asyncio.shield(task)`, never the task itself. An exception nobody fetches is logged.
        """
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    async def finish(self) -> None:
        """Wait until everything that runs has ended, whatever comes of it."""
        while self._running:
            await asyncio.wait(self._running)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            get_logger().debug("task_failed", error=repr(error))
