"""What one player, or one address, may use up: an allowance that fills steadily, and places that are taken and left."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

KEYS_MAX: Final = 100_000
"""Of an allowance. Whoever was quiet for longest is forgotten first, and has a full one anyway."""
DEBT_MAX: Final = 2.0
"""How many whole allowances can be owed at most, by what is charged without asking."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How much may be asked for."""

    per_second: float
    """What may be kept up."""
    at_once: float
    """What may be asked at once after a pause."""

    def times(self, factor: float) -> Rate:
        """So many times as much."""
        return Rate(factor * self.per_second, factor * self.at_once)


class Allowance:
    """What each key has left: filled steadily, spent by asking. `now` is in seconds."""

    def __init__(self, rate: Rate, now: Callable[[], float], keys_max: int = KEYS_MAX) -> None:
        self.rate = rate
        self._now = now
        self._keys_max = keys_max
        self._spent: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, key: str, cost: float = 1.0) -> float:
        """0 when so much is there, and then it is spent; else the seconds until it will be, and nothing is spent."""
        spent, now = self._owed(key)
        rate = self.rate
        short = spent + cost - rate.at_once
        if short > 0:
            self._remember(key, spent, now)
            return short / rate.per_second
        self._remember(key, spent + cost, now)
        return 0.0

    def charge(self, key: str, cost: float) -> None:
        """Spends so much, whether it is there or not; less than nothing gives back."""
        spent, now = self._owed(key)
        most = (1 + DEBT_MAX) * self.rate.at_once
        self._remember(key, min(most, max(0.0, spent + cost)), now)

    def _owed(self, key: str) -> tuple[float, float]:
        now = self._now()
        known = self._spent.pop(key, None)
        if known is None:
            return 0.0, now
        spent = known[0] - (now - known[1]) * self.rate.per_second
        return (spent if spent > 0 else 0.0), now

    def _remember(self, key: str, spent: float, now: float) -> None:
        self._spent[key] = (spent, now)
        if len(self._spent) > self._keys_max:
            self._spent.popitem(last=False)


class Places:
    """How many of something each key has at once."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        """By all keys together."""
        self._by_key: Counter[str] = Counter()

    def take(self, key: str) -> bool:
        """Whether there was one left; if so, it is taken, until `leave`."""
        if self._by_key[key] >= self.most:
            return False
        self._by_key[key] += 1
        self.taken += 1
        return True

    def leave(self, key: str) -> None:
        """Gives back one that was taken."""
        self.taken -= 1
        self._by_key[key] -= 1
        if not self._by_key[key]:
            # Nobody is remembered for what he had once.
            del self._by_key[key]
