"""How likely a statistic is by chance: the chi-squared and the normal distribution, without a library."""

from __future__ import annotations

import math

_TINY = 1e-300
_STEPS_MAX = 10_000


def chi_squared(statistic: float, freedom: int) -> float:
    """How likely a fair source is as far off as this or further, to the same side, twice: too good a fit is suspicious as
    well. Between 0 and 1."""
    below, above = _gamma(freedom / 2, statistic / 2)
    return min(1.0, 2 * min(below, above))


def normal(z: float) -> float:
    """How likely a standard normal value is at least as far from 0 as this."""
    return math.erfc(abs(z) / math.sqrt(2))


def _gamma(a: float, x: float) -> tuple[float, float]:
    """The regularised incomplete gamma functions, lower and upper."""
    if x <= 0:
        return 0.0, 1.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        lower = min(1.0, scale * _series(a, x))
        return lower, 1.0 - lower
    upper = min(1.0, scale * _fraction(a, x))
    return 1.0 - upper, upper


def _series(a: float, x: float) -> float:
    term = total = 1 / a
    for step in range(1, _STEPS_MAX):
        term *= x / (a + step)
        total += term
        if term < total * 1e-15:
            break
    return total


def _fraction(a: float, x: float) -> float:
    """By Lentz's method."""
    b = x + 1 - a
    c, d = 1 / _TINY, 1 / b
    value = d
    for step in range(1, _STEPS_MAX):
        an = -step * (step - a)
        b += 2
        d = 1 / _whole(an * d + b)
        c = _whole(b + an / c)
        value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value


def _whole(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
