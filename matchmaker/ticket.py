"""A player who waits, and how far away an opponent may be after how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SECOND: Final = 1_000_000_000
"""Nanoseconds in a second."""

WINDOW_START: Final = 150
"""Rating points that are accepted at once."""
WINDOW_PER_SECOND: Final = 50
"""Rating points by which the window widens with each second of waiting. It has no upper bound: after a minute it
spans the whole ladder, so nobody waits without end while somebody else does."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """One open seek, as pairing sees it."""

    player_id: str
    rating: float
    """Mean of the player's rating, in rating points."""
    since: int
    """When the waiting began, in nanoseconds on the caller's timeline."""

    def waited(self, now: int) -> int:
        """Nanoseconds waited so far; never negative."""
        return max(0, now - self.since)


def window(waited: int) -> int:
    """The rating gap that is accepted after `waited` nanoseconds, in whole rating points.

    150 points at once, and 50 more for each second: 400 after 5 s, 1650 after half a minute.
    """
    return WINDOW_START + WINDOW_PER_SECOND * waited // SECOND


def acceptable(one: Ticket, other: Ticket, now: int) -> bool:
    """Whether two tickets may be paired: two players, and a gap inside both windows."""
    if one.player_id == other.player_id:
        return False
    gap = abs(one.rating - other.rating)
    # The window only widens, so the narrower one belongs to whoever came later.
    return gap <= window(max(0, now - max(one.since, other.since)))
