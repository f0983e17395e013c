"""The garbage collector in a process that keeps very many objects for a long time.

A full collection looks at everything that lives: with 10,000 matches a game process stands still for half a second,
which is more than players may be charged for. So what has survived one full collection is set aside (`gc.freeze`), and
the next looks only at what is new. Objects are freed all the same as soon as nothing refers to them; only a circle that
was set aside stays, until what is set aside has doubled and all of it is looked through once.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator
from typing import Final

THRESHOLDS: Final = (2_000, 5, 2)
"""A full collection about every 20,000 objects that stay: it takes a few milliseconds."""
LOOK_SECONDS: Final = 60.0
SLACK: Final = 250_000
"""Objects set aside since all were looked through, beyond doubling, that make it worth a pause."""


class Collector:
    """One a process."""

    def __init__(self) -> None:
        self.limit = 0
        """With more objects than this set aside, all of them are looked through."""

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """From now on; what exists now is set aside."""
        before = gc.get_threshold()
        gc.callbacks.append(self._collected)
        gc.set_threshold(*THRESHOLDS)
        self.look_through()
        watching = asyncio.create_task(self._watch(), name="collector")
        try:
            yield
        finally:
            watching.cancel()
            gc.callbacks.remove(self._collected)
            gc.set_threshold(*before)
            gc.unfreeze()

    async def _watch(self) -> None:
        """Now and then sees whether there is so much more that something may have been left lying."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self.overdue:
                self.look_through()

    @property
    def overdue(self) -> bool:
        """Whether there is so much more than when all was looked through."""
        return gc.get_freeze_count() > self.limit

    def look_through(self) -> None:
        """Looks at everything, and sets aside what lives."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self.limit = 2 * gc.get_freeze_count() + SLACK

    @staticmethod
    def _collected(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            gc.freeze()
