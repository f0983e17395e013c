"""Those who look on: they hear what the clock finds, and cost it nothing.

To tell is to append to a list; making messages and waiting for a reader is the reader's own task. A reader that does
not keep up loses what was kept for it and is dropped, so neither memory nor a verdict ever depends on one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from services.clock.metrics import WatcherMetrics
from services.common.errors import ServiceError, SlowReaderError, limit_reached
from services.common.logs import get_logger
from services.wire.clock_news import HEARTBEAT_SECONDS, Happened, News

WATCHERS_MAX: Final = 32
KEPT_MAX: Final = 10_000
"""News that wait for one reader. All matches of a clock may time out in one turn of the loop, which is no fault of
a reader; all readers share the same values."""
AT_ONCE: Final = 200
"""News in one message."""

Write = Callable[[Sequence[News]], Awaitable[None]]


class _Watcher:
    """What one reader is still to be told."""

    def __init__(self) -> None:
        self._waiting: list[News] = []
        self._wake = asyncio.Event()
        self.missed = 0
        """How much it will never be told."""
        self.dropped = asyncio.Event()
        self.ended = False

    def tell(self, news: News) -> None:
        if self.missed or len(self._waiting) >= KEPT_MAX:
            self.missed += len(self._waiting) + 1
            self._waiting.clear()
            self.dropped.set()
        else:
            self._waiting.append(news)
        self._wake.set()

    def end(self) -> None:
        """Nothing will be told after what is waiting."""
        self.ended = True
        self._wake.set()

    async def take(self, quiet_seconds: float) -> list[News] | None:
        """What waits; nothing after a quiet while, None at the end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(quiet_seconds):
                while not self._waiting and not self.ended and not self.missed:
                    self._wake.clear()
                    await self._wake.wait()
        if self.ended and not self._waiting:
            return None
        batch, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
        return batch


class Watchers:
    """All readers of one clock."""

    def __init__(self, metrics: WatcherMetrics, heartbeat_seconds: float = HEARTBEAT_SECONDS) -> None:
        self._heartbeat_seconds = heartbeat_seconds
        self._all: set[_Watcher] = set()
        self._metrics = metrics
        metrics.here.set_function(lambda: len(self._all))

    def tell(self, engine_id: str, happened: Happened) -> None:
        """Something happened. Never waits."""
        if self._all:
            news = News(datetime.now(UTC), engine_id, happened)
            for watcher in self._all:
                watcher.tell(news)

    def end(self) -> None:
        """The clock leaves: each stream ends when what waits has been told."""
        for watcher in self._all:
            watcher.end()

    async def follow(self, write: Write) -> None:
        """Tells one reader until the clock leaves. Raises ServiceError when there are too many or it is too slow."""
        if len(self._all) >= WATCHERS_MAX:
            raise limit_reached("too many streams look on")
        watcher = _Watcher()
        self._all.add(watcher)
        try:
            batch: list[News] | None = []
            while batch is not None:
                await self._write(watcher, write, batch)
                batch = await watcher.take(self._heartbeat_seconds)
        finally:
            self._all.discard(watcher)

    async def _write(self, watcher: _Watcher, write: Write, batch: list[News]) -> None:
        """Waits for the reader, but no longer than until it is dropped."""
        writing = asyncio.ensure_future(write(batch))
        dropping = asyncio.ensure_future(watcher.dropped.wait())
        try:
            await asyncio.wait((writing, dropping), return_when=asyncio.FIRST_COMPLETED)
            if watcher.missed:
                # What is being written still comes before the status, if the reader ever reads on.
                self._metrics.dropped.inc()
                self._metrics.missed.inc(watcher.missed)
                get_logger().warning("watcher_dropped", missed=watcher.missed)
                raise _too_slow(watcher.missed)
            await writing
        finally:
            dropping.cancel()
            writing.cancel()


def _too_slow(missed: int) -> ServiceError:
    return SlowReaderError(
        f"this stream did not keep up: {missed} news were not told", 1.0, {"missed": str(missed)}
    )
