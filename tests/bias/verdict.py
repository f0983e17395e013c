"""When a shuffle is called biased."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.bias.counts import Figure

ALPHA: Final = 1e-6
"""How likely it is that a fair shuffle is called biased, whatever the number of statistics."""


@dataclass(frozen=True, slots=True)
class Worst:
    """The statistic that is furthest off."""

    figure: Figure
    corrected: float
    """How likely at least one of all statistics of a fair shuffle is as far off: an upper bound (Bonferroni)."""

    @property
    def biased(self) -> bool:
        """Whether that is too unlikely."""
        return self.corrected < ALPHA


def worst(figures: Sequence[Figure]) -> Worst:
    """The furthest of these."""
    furthest = min(figures, key=lambda figure: figure.chance)
    return Worst(furthest, min(1.0, furthest.chance * len(figures)))
