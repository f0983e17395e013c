"""What a balance is worth between two rounds: the chance to win the match from there."""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.points import TOTAL

JOCKEY_POINTS: Final = 6
"""How many points it is worth to be the jockey of the next round. Measured between two strong bots, with
400 rounds each: 6.2 ± 2.3 before they played out with care, 5.4 ± 2.3 since."""


class Worth(NamedTuple):
    """The chance to win, 0 to 1, by the own balance (0 to 300)."""

    jockey: tuple[float, ...]
    """When oneself is the jockey of the next round."""
    challenger: tuple[float, ...]
    """When the other seat is."""
    nobody: tuple[float, ...]
    """When nobody is (after a blocked round)."""


def _chance(balance: int, bonus: int) -> float:
    """Points go back and forth in steps that favour nobody, so the chance is the share of all points."""
    if balance in (0, TOTAL):
        return balance / TOTAL
    return min(max((balance + bonus) / TOTAL, 1 / TOTAL), 1 - 1 / TOTAL)


def worth_with(jockey_points: int) -> Worth:
    """The table for an advantage of the jockey in points."""
    balances = range(TOTAL + 1)
    return Worth(
        tuple(_chance(balance, jockey_points) for balance in balances),
        tuple(_chance(balance, -jockey_points) for balance in balances),
        tuple(_chance(balance, 0) for balance in balances),
    )


WORTH: Final = worth_with(JOCKEY_POINTS)
