"""The arithmetic of the match clock (rules 6.1 to 6.7): whole nanoseconds on one timeline, no clock is read here.

A turn has a budget of delay + bank. It may be measured in several parts (each draw ends one): `start` and `arrive`
are instants of the current part, `consumed` is what the earlier parts of the same turn have used already.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

MILLISECOND: Final = 1_000_000
"""Nanoseconds in a millisecond."""
SECOND: Final = 1_000_000_000
"""Nanoseconds in a second."""
BANK: Final = 120 * SECOND
"""What a seat has for the whole match (rule 6.1)."""
DELAY: Final = 10 * SECOND
"""What is free in every turn (rule 6.2)."""
RESUME_FLOOR: Final = 5 * SECOND
"""What a seat has at least when its turn goes on after an outage of the service."""


class Verdict(StrEnum):
    """What the clock says about one command."""

    IN_TIME = "in_time"
    TIMED_OUT = "timed_out"


class Effect(StrEnum):
    """What an accepted command does to the turn."""

    ENDS = "ends"
    """The turn is over and its time is paid for."""
    CONTINUES = "continues"
    """The turn goes on (a draw, rule 6.3): nothing is paid yet, the delay does not start again."""


class Charge(NamedTuple):
    """What one command costs. Nanoseconds."""

    elapsed: int
    """Used in this turn, earlier parts included."""
    consumed: int
    """What the next part of the turn starts with: `elapsed` when the turn continues, 0 when it ends."""
    charge: int
    """What the bank pays."""
    bank_after: int


_CONTINUES: Final = Effect.CONTINUES
_IN_TIME: Final = Verdict.IN_TIME
_TIMED_OUT: Final = Verdict.TIMED_OUT


def deadline(start: int, consumed: int, bank: int, delay: int = DELAY) -> int:
    """The first instant that is too late (rule 6.7)."""
    return start + delay + bank - consumed


def judge(start: int, arrive: int, consumed: int, bank: int, delay: int = DELAY) -> Verdict:
    """Whether a command that arrived at `arrive` is in time. At the deadline exactly it is not."""
    return _IN_TIME if arrive < deadline(start, consumed, bank, delay) else _TIMED_OUT


def settle(start: int, arrive: int, consumed: int, bank: int, delay: int, effect: Effect) -> Charge:
    """What a command in time costs. An arrival dated before `start` used nothing. ValueError when it is late."""
    if arrive >= deadline(start, consumed, bank, delay):
        raise ValueError("a command after the deadline is not settled but lost")
    elapsed = consumed + arrive - start if arrive > start else consumed
    if effect is _CONTINUES:
        return Charge(elapsed, elapsed, 0, bank)
    charge = elapsed - delay if elapsed > delay else 0
    return Charge(elapsed, 0, charge, bank - charge)


def forfeit(bank: int, delay: int = DELAY) -> Charge:
    """What a lost turn costs: the whole budget."""
    return Charge(delay + bank, 0, bank, 0)


def resume_consumed(proven: int, bank: int, delay: int = DELAY, floor: int = RESUME_FLOOR) -> int:
    """What a turn has used when it goes on after an outage.

    `proven` is what it had used while the service could provably hear the player. At least `floor` remains, or the
    whole budget where that is smaller.
    """
    return max(0, min(proven, delay + bank - floor))
