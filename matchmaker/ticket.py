"""A player who waits, which opponents she accepts, and how far away one may be after how long.

Everything that speaks for or against a pair is counted in rating points, so that it can be added and compared: the gap
between the ratings, an opponent of a few minutes ago, a beginner against an established player. Waiting is counted in
the same points: a second is worth `WINDOW_PER_SECOND` of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from matchmaker.rating import PROVISIONAL_SIGMA

SECOND: Final = 1_000_000_000
"""Nanoseconds in a second."""

WINDOW_START: Final = 150
"""Rating points that are accepted at once."""
WINDOW_PER_SECOND: Final = 50
"""Rating points by which the window widens with each second of waiting. It has no upper bound: after a minute it
spans the whole ladder, so nobody waits without end while somebody else does."""

POINT: Final = SECOND // WINDOW_PER_SECOND
"""What a rating point is worth in nanoseconds of waiting: 20 ms."""

MIXED_POINTS: Final = 100
"""What a provisional and an established player count as further apart than their ratings are."""
REPEAT_POINTS: Final = 300
"""What two recent opponents count as further apart: three seconds of waiting for somebody else."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """One open seek, as pairing sees it."""

    player_id: str
    rating: float
    """Mean of the player's rating, in rating points."""
    since: int
    """When the waiting began, in nanoseconds on the caller's timeline."""
    sigma: float = 0.0
    """Uncertainty of the rating, in rating points."""
    recent: frozenset[str] = frozenset()
    """Players met a short while ago: not again at once when others wait. It is enough that one of the two says so."""
    lowest: float | None = None
    """The lowest rating of an opponent that the player accepts, however long she waits; None for any."""
    highest: float | None = None
    """The highest rating of an opponent that the player accepts; None for any."""
    blocked: frozenset[str] = frozenset()
    """Players never to be paired with. It is enough that one of the two says so."""

    @property
    def provisional(self) -> bool:
        """Whether the rating is still too uncertain to rely on."""
        return self.sigma > PROVISIONAL_SIGMA

    def waited(self, now: int) -> int:
        """Nanoseconds waited so far; never negative."""
        return max(0, now - self.since)

    def admits(self, other: Ticket) -> bool:
        """Whether this player's own hard limits leave room for `other`. Waiting never changes the answer."""
        return (
            other.player_id not in self.blocked
            and (self.lowest is None or self.lowest <= other.rating)
            and (self.highest is None or other.rating <= self.highest)
        )


def window(waited: int) -> int:
    """The distance that is accepted after `waited` nanoseconds, in whole rating points.

    150 points at once, and 50 more for each second: 400 after 5 s, 1650 after half a minute.
    """
    return WINDOW_START + WINDOW_PER_SECOND * waited // SECOND


def distance(one: Ticket, other: Ticket) -> float:
    """How bad a match of the two would be, in rating points; the same whichever is named first.

    The gap of the ratings, `MIXED_POINTS` more when only one of them is provisional, `REPEAT_POINTS` more when they
    have met a short while ago.
    """
    apart = abs(one.rating - other.rating)
    if one.provisional is not other.provisional:
        apart += MIXED_POINTS
    if other.player_id in one.recent or one.player_id in other.recent:
        apart += REPEAT_POINTS
    return apart


def possible(one: Ticket, other: Ticket) -> bool:
    """Whether two tickets may ever be paired: two players, and the hard limits of both leave room for the other."""
    return one.player_id != other.player_id and one.admits(other) and other.admits(one)


def acceptable(one: Ticket, other: Ticket, now: int) -> bool:
    """Whether two tickets may be paired now: `possible`, and a distance inside both windows."""
    # The window only widens, so the narrower one belongs to whoever came later.
    reach = window(max(0, now - max(one.since, other.since)))
    return possible(one, other) and distance(one, other) <= reach


def worth(one: Ticket, other: Ticket, now: int) -> int:
    """What it is worth to pair the two now, in nanoseconds of waiting; meaningful for acceptable pairs only.

    What both have waited, a start of three seconds (the window's `WINDOW_START`) for each, less `POINT` for each rating
    point between them. An acceptable pair is worth at least as much as the window of the one that waited longer, so
    always more than nothing.
    """
    return (
        2 * WINDOW_START * POINT + one.waited(now) + other.waited(now) - round(distance(one, other) * POINT)
    )
