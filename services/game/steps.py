"""A coroutine that goes on in the very call that it waits for.

A task would go on in the next turn of the loop, through a future, a handle and a switch of tasks: some five microseconds
each time, and a room waits three times for each command. Here whoever brings what is waited for calls `go`, and the
coroutine runs until it waits again, before `go` returns. It is still the only one that runs in it: what comes while it
runs is seen before it waits.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine, Generator
from typing import Any, Final


class _Pause:
    """Not a generator: that would be one more thing to make, and to go through, each time."""

    def __await__(self) -> Generator[None, None, None]:
        return iter(_ONCE)  # type: ignore[return-value]  # nothing but its values is asked for


_ONCE: Final = (None,)
pause: Final = _Pause()
"""To be awaited, inside of `Steps.run` only: waits for a `go`, whatever it is for. Whoever waits looks again."""


class Steps:
    """Runs one coroutine after the other, in a context of its own."""

    def __init__(self) -> None:
        self._coroutine: Coroutine[Any, None, None] | None = None
        self._in_context = contextvars.copy_context().run
        self._awaited: asyncio.Future[Any] | None = None
        """The future it waits for, if it does: until that is done nothing else is for it."""
        self._going = False
        self._over: asyncio.Future[None] | None = None

    async def run(self, coroutine: Coroutine[Any, None, None]) -> None:
        """Runs it to its end. It may wait for nothing but `pause`, `change`, and futures and tasks.

        When the task that calls this is cancelled, so are the coroutine and what it waits for.
        """
        self._coroutine, self._over = coroutine, asyncio.get_running_loop().create_future()
        self.go()
        try:
            await self._over
        except asyncio.CancelledError:
            awaited, coroutine = self._awaited, self._coroutine
            if coroutine is not None:
                self._step(coroutine.throw, asyncio.CancelledError())
            if awaited is not None:
                awaited.cancel()
            raise

    def go(self, *_: object) -> None:
        """Something may have come that it waits for."""
        coroutine, awaited = self._coroutine, self._awaited
        if coroutine is not None and not self._going and (awaited is None or awaited.done()):
            self._step(coroutine.send, None)

    def _step(self, step: Any, value: object) -> None:
        self._going, self._awaited = True, None
        try:
            waits_for = self._in_context(step, value)
            if waits_for is not None:
                self._await(waits_for)
        except BaseException as error:  # noqa: BLE001 - whatever ends it is told to whoever runs it
            self._end(error)
        finally:
            self._going = False

    def _await(self, waits_for: object) -> None:
        if isinstance(waits_for, asyncio.Future):
            self._awaited = waits_for
            waits_for.add_done_callback(self.go)
        elif self._coroutine is not None:
            # Nobody would ever say that it has come.
            wrong = RuntimeError("a coroutine of steps waits for nothing but what they offer")
            self._in_context(self._coroutine.throw, wrong)

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
            await pause
            return True
        loop = asyncio.get_running_loop()
        timer = loop.call_at(until, self.go)
        try:
            await pause
        finally:
            timer.cancel()
        return loop.time() < until
