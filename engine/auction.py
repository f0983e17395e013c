"""The auction for the opening (rules 5.1 to 5.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from engine.points import UNIT
from engine.refusal import Refusal

if TYPE_CHECKING:
    from engine.seats import Seat

BID_MIN: Final = 15
"""The least first bid (rule 5.2)."""
RAISE_MIN: Final = 5
"""The least raise (rule 5.3)."""
DISCOUNT: Final = 15
"""What the jockey need not pay of its own winning bid (rule 5.5)."""


class StandingBid(NamedTuple):
    """The bid that waits for an answer."""

    seat: Seat
    amount: int


class BidRange(NamedTuple):
    """The bids a seat may make now: `minimum`, then in steps of `step` up to `maximum`, both included."""

    minimum: int
    maximum: int
    step: int = UNIT


def discount(seat: Seat, jockey: Seat, amount: int) -> int:
    """How much of a winning bid is waived: the jockey's, up to 15 and never more than the bid (rule 5.5)."""
    return min(DISCOUNT, amount) if seat is jockey else 0


def bid_range(seat: Seat, jockey: Seat, standing: StandingBid | None, balance: int) -> BidRange | None:
    """The legal bids of the seat whose turn it is in the auction; None when there is none (rules 5.2 to 5.8)."""
    minimum = BID_MIN if standing is None else standing.amount + RAISE_MIN
    maximum = balance + DISCOUNT if seat is jockey else balance
    return BidRange(minimum, maximum) if minimum <= maximum else None


def bid_fault(
    amount: int, seat: Seat, jockey: Seat, standing: StandingBid | None, balance: int
) -> Refusal | None:
    """Why this bid is refused, or None. First reason first, as in `Refusal`."""
    if standing is None and balance < BID_MIN:
        return Refusal.MUST_DECLINE
    if amount % UNIT != 0:
        return Refusal.BID_NOT_A_MULTIPLE_OF_FIVE
    if standing is None:
        if amount < BID_MIN:
            return Refusal.BID_BELOW_MINIMUM
    elif amount < standing.amount + RAISE_MIN:
        return Refusal.RAISE_TOO_SMALL
    if amount - discount(seat, jockey, amount) > balance:
        return Refusal.BID_UNAFFORDABLE
    return None
