"""How long a player will probably wait, and what that guess rests on: waits that just ended with a match."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from matchmaker.ticket import SECOND

RECENT: Final = 10 * 60 * SECOND
"""A wait that ended longer ago than this says nothing about now, in nanoseconds."""
SIMILAR_POINTS: Final = 200.0
"""Ratings that are at most this far away wait about equally long."""
BASIS_MIN: Final = 5
"""With fewer waits than this there is no estimate: better none than one made of chance."""
BASIS_MAX: Final = 50
"""The latest waits that are looked at. More would describe an earlier hour of the evening."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait that ended with a match."""

    rating: float
    """Mean of the player's rating, in rating points."""
    waited: int
    """How long it was, in nanoseconds."""
    ended: int
    """When it ended, in nanoseconds on the caller's timeline."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What others waited."""

    median: int
    """Half of them waited at most so long from beginning to end, in nanoseconds."""
    most: int
    """Nine of ten waited at most so long, in nanoseconds."""
    basis: int
    """How many waits this rests on, `BASIS_MIN` to `BASIS_MAX`."""
    similar: bool
    """Whether they are waits of players of similar rating alone, not of the whole pool."""


def estimate(waits: Iterable[Wait], rating: float, now: int) -> Estimate | None:
    """The whole wait of a player with this rating, from its beginning; None when too little is known.

    Rests on the latest waits of players of similar rating; when there are too few of these, on the latest of the pool.
    Those who gave up are not among them, so in a pool where many give up the guess is too short.
    """
    known = sorted(
        (wait for wait in waits if now - wait.ended <= RECENT),
        key=lambda wait: (wait.ended, wait.waited, wait.rating),
        reverse=True,
    )
    near = [wait for wait in known if abs(wait.rating - rating) <= SIMILAR_POINTS]
    similar = len(near) >= BASIS_MIN
    basis = sorted(wait.waited for wait in (near if similar else known)[:BASIS_MAX])
    if len(basis) < BASIS_MIN:
        return None
    return Estimate(_share(basis, 50), _share(basis, 90), len(basis), similar)


def _share(ordered: list[int], percent: int) -> int:
    """The smallest value that `percent` of a hundred do not exceed."""
    return ordered[-(-len(ordered) * percent // 100) - 1]
