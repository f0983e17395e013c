"""How long somebody who did not come to a match has to wait before she may seek again.

Thirty seconds for the first time, twice as long for each further one, fifteen minutes at most; each no-show is
forgiven a day after it happened.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from matchmaker.ticket import SECOND

FIRST: Final = 30 * SECOND
"""Cooldown after a single no-show, in nanoseconds."""
LONGEST: Final = 15 * 60 * SECOND
"""The longest cooldown, in nanoseconds. It is reached with the sixth no-show of a day."""
FORGIVEN_AFTER: Final = 24 * 60 * 60 * SECOND
"""A no-show this old counts no more, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Cooldown:
    """Why a player may not seek, and until when."""

    until: int
    """The first instant at which she may seek again, in nanoseconds on the caller's timeline."""
    no_shows: int
    """How many no-shows this rests on, at least 1: those of the day that ended with the last of them."""


def cooldown(no_shows: Iterable[int], now: int) -> Cooldown | None:
    """The cooldown that holds at `now`, or None.

    `no_shows` are the instants of the player's no-shows in any order, in nanoseconds on one timeline with `now` (for
    example Unix time); older ones than a day may be left out. The end of a cooldown depends on the no-shows alone: it
    does not move while a player waits for it, and is moved only by another no-show.
    """
    moments = list(no_shows)
    if not moments:
        return None
    last = max(moments)
    counted = sum(moment > last - FORGIVEN_AFTER for moment in moments)
    until = last + duration(counted)
    return Cooldown(until, counted) if now < until else None


def duration(no_shows: int) -> int:
    """How long the cooldown after that many no-shows within a day is, in nanoseconds; 0 after none."""
    if no_shows <= 0:
        return 0
    # The exponent is capped too: a number with millions of digits helps nobody.
    return min(LONGEST, FIRST << min(no_shows - 1, 30))
