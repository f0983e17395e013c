"""Virtual time: what happens when, decided by a seed."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Final
from uuid import UUID

from engine.clock import SECOND

EPOCH: Final = 10_000 * SECOND
"""When every world begins."""
LOST_MIN: Final = 2
"""So many matches that lose players at once are many in a world as small as these."""


class World:
    """One run. Everything that happens is in one queue; luck has one die for each purpose."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now = EPOCH
        self.totals: Counter[str] = Counter()
        """What was done to it, and what came of it."""
        self.violations: list[str] = []
        self.diary: list[str] = []
        """For people: filled only when `watched`."""
        self.watched = False
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._ids = Random(f"ids {seed}")

    def dice(self, name: str) -> Random:
        """Luck of its own for one purpose, so that one use does not change another."""
        return Random(f"{name} {self.seed}")

    def new_id(self) -> UUID:
        """What uuid4 is here."""
        return UUID(int=self._ids.getrandbits(128), version=4)

    def at(self, when: int, what: Callable[[], None]) -> None:
        """Something happens then; what is due at the same time happens in the order in which it was said."""
        heapq.heappush(self._queue, (max(when, self.now), next(self._order), what))

    def after(self, ns: int, what: Callable[[], None]) -> None:
        """Something happens later."""
        self.at(self.now + ns, what)

    def run(self, until: int, over: Callable[[], bool]) -> None:
        """Lets things happen until it is over, or until then."""
        queue = self._queue
        while queue and not over() and queue[0][0] <= until:
            self.now, _, what = heapq.heappop(queue)
            what()
        if not over():
            self.now = max(self.now, until)

    def note(self, text: str) -> None:
        """Something people may want to know about this run."""
        if self.watched:
            self.diary.append(f"{(self.now - EPOCH) / SECOND:12.6f}  {text}")

    def count(self, what: str, times: int = 1) -> None:
        """Something to be counted."""
        self.totals[what] += times

    def violate(self, invariant: str, what: str) -> None:
        """A promise is broken."""
        self.violations.append(f"{invariant}: {what}")
        self.note(f"VIOLATION {invariant}: {what}")
