"""Points: what is due, and what a payer with little left really pays (rules 1.1 to 1.4, 3.6, 4.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.seats import NORTH, SOUTH

if TYPE_CHECKING:
    from engine.seats import BySeat, Seat

UNIT: Final = 5
"""Every balance, bid and transfer is a multiple of this: one chip (rule 1.4)."""
START_BALANCE: Final = 150
TOTAL: Final = 300
"""Both balances together, always (rule 1.1)."""


def score(count: int) -> int:
    """The points due for a count: itself when it is a positive multiple of five, else 0 (rule 3.6)."""
    return count if count % UNIT == 0 else 0


def payable(due: int, balance: int) -> int:
    """What a payer with this balance pays of what is due (rule 1.2)."""
    return min(due, balance)


def lower_total(totals: BySeat[int]) -> Seat | None:
    """The winner of a blocked round; None between equal hand totals (rule 4.6)."""
    if totals.north == totals.south:
        return None
    return NORTH if totals.north < totals.south else SOUTH


def blocked(loser_total: int) -> int:
    """The points due for a blocked round: the loser's hand total, rounded to the nearest five (rule 4.6)."""
    return (loser_total + UNIT // 2) // UNIT * UNIT
