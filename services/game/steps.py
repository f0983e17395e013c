"""A coroutine that goes on in the very call that it waits for.

A task would go on in the next turn of the loop, through a future, a handle and a switch of tasks: some five microseconds
each time, and a room waits three times for each command. Here whoever brings what is waited for calls `go`, and the
coroutine runs until it waits again, before `go` returns. It is still the only one that runs in it: what comes while it
runs is seen before it waits.
"""

from __future__ import annotations

import asyncio
import contextvars
import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


@types.coroutine
def pause() -> Generator[None, None, None]:
    """Waits for a `go`, whatever it is for: whoever waits looks again. Inside of `Steps.run` only."""
    yield


class Steps:
    """Runs one coroutine after the other, in a context of its own."""

    def __init__(self) -> None:
        self._coroutine: Coroutine[Any, None, None] | None = None
        self._context = contextvars.copy_context()
        self._going = False
        self._over: asyncio.Future[None] | None = None

    async def run(self, coroutine: Coroutine[Any, None, None]) -> None:
        """Runs it to its end. It may wait for nothing but `pause`, `change` and `until`.

        When the task that calls this is cancelled, so is the coroutine.
        """
        self._coroutine, self._over = coroutine, asyncio.get_running_loop().create_future()
        self.go()
        try:
            await self._over
        except asyncio.CancelledError:
            if self._coroutine is not None:
                self._step(self._coroutine.throw, asyncio.CancelledError())
            raise

    def go(self, *_: object) -> None:
        """Something may have come that it waits for."""
        if self._coroutine is not None and not self._going:
            self._step(self._coroutine.send, None)

    def _step(self, step: Any, value: object) -> None:
        self._going = True
        try:
            if self._context.run(step, value) is not None and self._coroutine is not None:
                # Nobody would ever say that it has come.
                wrong = RuntimeError("a coroutine of steps waits for nothing but what they offer")
                self._context.run(self._coroutine.throw, wrong)
        except BaseException as error:  # noqa: BLE001 - whatever ends it is told to whoever runs it
            self._end(error)
        finally:
            self._going = False

    def _end(self, error: BaseException) -> None:
        self._coroutine, over = None, self._over
        if over is None or over.done():
            return
        if isinstance(error, StopIteration):
            over.set_result(None)
        else:
            over.set_exception(error)

    async def change(self, until: float | None) -> bool:
        """Waits for a `go`; False when `until`, on the loop's clock, came first."""
        if until is None:
            await pause()
            return True
        loop = asyncio.get_running_loop()
        timer = loop.call_at(until, self.go)
        try:
            await pause()
        finally:
            timer.cancel()
        return loop.time() < until

    async def until(self, done: asyncio.Future[T]) -> T:
        """What comes of a future or a task. It is cancelled with the coroutine."""
        done.add_done_callback(self.go)
        try:
            while not done.done():
                await pause()
        finally:
            done.cancel()
        return done.result()
