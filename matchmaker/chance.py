"""How likely so many or more of something are, if nothing but chance is at work."""

from __future__ import annotations

import math
from collections.abc import Iterable


def at_least(wanted: int, *, drawn: int, marked: int, among: int) -> float:
    """The chance that `drawn` of `among` matches contain `wanted` or more of the `marked` ones (Fisher's exact test)."""
    if wanted <= 0:
        return 1.0
    whole = _log_choose(among, drawn)
    first = max(wanted, drawn + marked - among)
    chances = (
        math.exp(_log_choose(marked, hit) + _log_choose(among - marked, drawn - hit) - whole)
        for hit in range(first, min(drawn, marked) + 1)
    )
    return min(1.0, math.fsum(chances))


def _log_choose(of: int, some: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(some + 1) - math.lgamma(of - some + 1)


def at_least_of(wanted: int, chances: Iterable[float]) -> float:
    """The chance of `wanted` or more successes, where each try has a chance of its own (Poisson binomial)."""
    exactly = [1.0]
    for chance in chances:
        exactly = [
            (exactly[hits] * (1 - chance) if hits < len(exactly) else 0.0)
            + (exactly[hits - 1] * chance if hits else 0.0)
            for hits in range(len(exactly) + 1)
        ]
    return min(1.0, math.fsum(exactly[max(0, wanted) :]))
