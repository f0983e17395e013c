"""Who listens to a room. A listener is woken and looks for itself; nothing is queued for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Final, Protocol

from services.game.story import Audience

AT_ONCE: Final = 32
"""Streams woken in one turn of the loop, of all matches of a process. To tell one takes 0.1 ms and more."""
BETWEEN_SECONDS: Final = 0.01
PROMPT: Final = 2
"""Streams of a seat that are woken at once, whatever else there is to tell: the newest, which its player looks at."""


_NORTH: Final = Audience.NORTH
_OTHERS: Final = ((Audience.DEVICE, PROMPT), (Audience.SPECTATOR, 0))
_NORTH_ACTS: Final = ((Audience.SOUTH, PROMPT), (Audience.NORTH, PROMPT), *_OTHERS)
_SOUTH_ACTS: Final = ((Audience.NORTH, PROMPT), (Audience.SOUTH, PROMPT), *_OTHERS)
"""In this order news is told, and to how many streams of an audience at once."""


class Waking(Protocol):
    """Who is woken."""

    def set(self) -> None:
        """There is news."""


class Pace:
    """Wakes the streams of all matches of a process, a few at a time.

    Told all at once, some hundred of them would keep the loop from hearing anybody for longer than is charged: whoever
    opened them could void every match of the process, move by move.
    """

    def __init__(self) -> None:
        self._waiting: dict[Waking, None] = {}
        self._left = AT_ONCE
        self._timer: asyncio.TimerHandle | None = None

    def wake(self, wakes: Iterable[Waking]) -> None:
        """Sets them soon, behind those that wait; one that waits already is set once."""
        self._waiting.update(dict.fromkeys(wakes))
        self._some()

    def forget(self, wake: Waking) -> None:
        """Nobody waits for it any more."""
        self._waiting.pop(wake, None)

    def _some(self) -> None:
        for wake in list(islice(self._waiting, self._left)):
            del self._waiting[wake]
            self._left -= 1
            wake.set()
        if self._timer is None and self._left < AT_ONCE:
            self._timer = asyncio.get_running_loop().call_later(BETWEEN_SECONDS, self._again)

    def _again(self) -> None:
        self._timer, self._left = None, AT_ONCE
        self._some()


class Listeners:
    """The streams of one match."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._wakes: dict[Audience, dict[Waking, None]] = {audience: {} for audience in Audience}
        """The oldest first."""
        self._present: Counter[Audience] = Counter()
        self.news = 0
        """Grows with everything that listeners should look at."""

    def add(self, wake: Waking, audience: Audience) -> None:
        """Sets `wake` with all news until `remove`."""
        self._wakes[audience][wake] = None
        self._present[audience] += 1

    def remove(self, wake: Waking, audience: Audience) -> None:
        """Ends `add`."""
        self._wakes[audience].pop(wake, None)
        self._present[audience] -= 1
        self._pace.forget(wake)

    def present(self, audience: Audience) -> bool:
        """Whether anybody of this audience listens now."""
        return self._present[audience] > 0

    def announce(self, to_act: Audience | None = None) -> None:
        """There is news; `to_act` is the audience that may act now.

        Players hear of it before spectators, and the other player before the one who may act: to list what that one may
        do takes the longer the more it is, and nobody else shall be able to wait for it.
        """
        self.news += 1
        later: list[Waking] = []
        for audience, at_once in _NORTH_ACTS if to_act is _NORTH else _SOUTH_ACTS:
            wakes = tuple(self._wakes[audience])
            waits = len(wakes) - at_once
            if waits > 0:
                later += wakes[:waits]
                wakes = wakes[waits:]
            for wake in wakes:
                wake.set()
        if later:
            self._pace.wake(later)
