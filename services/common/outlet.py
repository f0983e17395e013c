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
"""Nor is one waited for longer than that: the stream ends."""


class Outlets:
    """Those of all streams of one server."""

    def __init__(self, slow_seconds: float, write_seconds: float | None) -> None:
        """`write_seconds` None: whoever does not read is waited for as long as the connection stands."""
        self.slow = Patience(slow_seconds, Outlet.is_slow)
        self.dead = None if write_seconds is None else Patience(write_seconds, Outlet.give_up)


class Outlet:
    """That of one stream. Made in the task that writes."""

    __slots__ = ("_all", "_begun", "_context", "_given_up", "_slow", "_task")

    def __init__(self, outlets: Outlets, context: grpc.aio.ServicerContext[Any, Any], slow: Counter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._all = outlets
        self._context = context
        self._slow = slow
        self._task = task
        self._begun = False
        self._given_up = False

    async def write(self, message: Any) -> None:
        """Sends a message when there is room for it. Raises LimitError when there is none for too long."""
        if not self._begun:
            # On its own: a first message that is given up would leave it in doubt whether this was sent.
            await self._context.send_initial_metadata(())
            self._begun = True
        slow, dead = self._all.slow, self._all.dead
        # For a reader that does not read, the write itself would wait for ever.
        slow.begin(self)
        if dead is not None:
            dead.begin(self)
        try:
            await self._context.write(message)
        except asyncio.CancelledError:
            # Not when somebody else wants the stream to end too.
            if dead is not None and self._given_up and self._task.uncancel() <= 0:
                raise LimitError(
                    Limit.SLOW_READER, f"nothing was read for {dead.seconds:g} s; open the stream again", 1.0
                ) from None
            raise
        finally:
            slow.end(self)
            if dead is not None:
                dead.end(self)

    def is_slow(self) -> None:
        """The reader does not keep up."""
        self._slow.inc()

    def give_up(self) -> None:
        """The reader is not waited for any longer."""
        self._given_up = True
        self._task.cancel()
