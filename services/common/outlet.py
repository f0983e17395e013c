"""The sending side of a stream: what is written waits for its reader, but not for ever."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import grpc
from prometheus_client import Counter

from services.common.limits import Limit, LimitError
from services.common.patience import Patience

SLOW_SECONDS: Final = 1.0
"""The reader of a stream that does not take a message for so long does not keep up."""
WRITE_SECONDS: Final = 15.0
"""Nor is one waited for longer than that in all: the stream ends."""


class Outlets:
    """Those of all streams of one server."""

    def __init__(self, slow_seconds: float, write_seconds: float | None) -> None:
        """`write_seconds` None: whoever does not read is waited for as long as the connection stands."""
        self.write_seconds = write_seconds
        if write_seconds is None:
            self.slow = Patience(slow_seconds, Outlet.is_slow)
            self.dead = None
        else:
            # One after the other: nearly every message is gone before its reader is slow, and is waited for once.
            self.slow = Patience(min(slow_seconds, write_seconds), Outlet.is_slow)
            self.dead = Patience(write_seconds - self.slow.seconds, Outlet.give_up)


class Outlet:
    """That of one stream. Made in the task that writes."""

    __slots__ = ("_all", "_begun", "_context", "_given_up", "_late", "_slow", "_task")

    def __init__(self, outlets: Outlets, context: grpc.aio.ServicerContext[Any, Any], slow: Counter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._all = outlets
        self._context = context
        self._slow = slow
        self._task = task
        self._begun = False
        self._late = False
        self._given_up = False

    async def write(self, message: Any) -> None:
        """Sends a message when there is room for it. Raises LimitError when there is none for too long."""
        if not self._begun:
            # On its own: a first message that is given up would leave it in doubt whether this was sent.
            await self._context.send_initial_metadata(())
            self._begun = True
        slow = self._all.slow
        # For a reader that does not read, the write itself would wait for ever.
        slow.begin(self)
        try:
            await self._context.write(message)
        except asyncio.CancelledError:
            # Not when somebody else wants the stream to end too.
            if self._given_up and self._task.uncancel() <= 0:
                waited = f"nothing was read for {self._all.write_seconds:g} s; open the stream again"
                raise LimitError(Limit.SLOW_READER, waited, 1.0) from None
            raise
        finally:
            if self._late:
                self._taken()
            else:
                slow.end(self)

    def _taken(self) -> None:
        self._late = False
        if self._all.dead is not None:
            self._all.dead.end(self)

    def is_slow(self) -> None:
        """The reader does not keep up."""
        self._slow.inc()
        self._late = True
        if self._all.dead is not None:
            self._all.dead.begin(self)

    def give_up(self) -> None:
        """The reader is not waited for any longer."""
        self._given_up = True
        self._task.cancel()
