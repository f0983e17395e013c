"""Every reason for which a command changes nothing, with the rule it rests on.

The members stand in their order of precedence: when several reasons apply, the answer is the one that stands
first. "In another phase" comes before "not now", that before "not you", that before "not this". Three groups
read best together:

* The phase gates (`MATCH_OVER` to `AWAITING_DEAL`) answer every command that the phase has no use for: before
  Start everything but Start, after a round everything but Continue and Resign, while a deal is due everything but
  the deal and Resign, after the end everything. Resign passes all gates but the first two.
* `DEAL_NOT_DUE` to `ALREADY_PRESSED` are about the commands without a turn: the deal, Start, Continue, Reveal.
* From `NOT_YOUR_TURN` on, the turn is judged: whose it is, auction or table, then the command itself.

A tile that is not in the hand is `TILE_NOT_IN_HAND` wherever else it is, and that is looked at before the end and
the fit: the answer says nothing about where the tile lies.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Refusal(StrEnum):
    """Why a command changes nothing; value and name are the same text. In order of precedence."""

    MATCH_OVER = "MATCH_OVER"
    """The match has ended."""
    NOT_STARTED = "NOT_STARTED"
    """Both seats must press Start first."""
    ROUND_SETTLED = "ROUND_SETTLED"
    """The round is over; both seats must press Continue first."""
    AWAITING_DEAL = "AWAITING_DEAL"
    """The next round has not been dealt yet."""
    DEAL_NOT_DUE = "DEAL_NOT_DUE"
    """No deal is due now."""
    START_NOT_DUE = "START_NOT_DUE"
    """The match has been started already."""
    CONTINUE_NOT_DUE = "CONTINUE_NOT_DUE"
    """There is nothing to continue: a round is being played."""
    NOT_SAME_DEVICE = "NOT_SAME_DEVICE"
    """Only players who share one device reveal their tiles."""
    REVEAL_NOT_DUE = "REVEAL_NOT_DUE"
    """This seat has no tiles to reveal now."""
    ALREADY_PRESSED = "ALREADY_PRESSED"
    """This seat has pressed already; the other seat has not."""
    CLOCK_EXPIRED = "CLOCK_EXPIRED"
    """The command arrived at the deadline or after it."""
    STALE_DECISION = "STALE_DECISION"
    """The command answers an earlier question than the one on the table."""
    NOT_YOUR_TURN = "NOT_YOUR_TURN"
    """The other seat is to act."""
    NOT_REVEALED = "NOT_REVEALED"
    """The seat must reveal its tiles first."""
    NO_AUCTION = "NO_AUCTION"
    """There is no auction now: nothing to bid for, accept or decline."""
    AUCTION_OPEN = "AUCTION_OPEN"
    """The opening is still being auctioned: no tile may be played, drawn or passed."""
    BID_STANDS = "BID_STANDS"
    """A bid stands; it can be accepted or raised, not declined."""
    NO_BID_STANDS = "NO_BID_STANDS"
    """No bid stands that could be accepted."""
    MUST_DECLINE = "MUST_DECLINE"
    """A challenger with less than 15 points can only decline."""
    BID_NOT_A_MULTIPLE_OF_FIVE = "BID_NOT_A_MULTIPLE_OF_FIVE"
    """Bids are multiples of five."""
    BID_BELOW_MINIMUM = "BID_BELOW_MINIMUM"
    """The first bid is at least 15."""
    RAISE_TOO_SMALL = "RAISE_TOO_SMALL"
    """A raise is at least 5 above the standing bid."""
    BID_UNAFFORDABLE = "BID_UNAFFORDABLE"
    """The payment, after the jockey's discount, would exceed the bidder's balance."""
    MUST_OPEN = "MUST_OPEN"
    """The opening turn can only place a tile."""
    TILE_NOT_IN_HAND = "TILE_NOT_IN_HAND"
    """The seat does not hold this tile."""
    OPENING_TILE_FORCED = "OPENING_TILE_FORCED"
    """This round must be opened with the highest double, or the heaviest tile."""
    END_GIVEN_FOR_OPENING = "END_GIVEN_FOR_OPENING"
    """The opening tile is joined to nothing: no end belongs in the command."""
    MUST_PLAY_DRAWN_TILE = "MUST_PLAY_DRAWN_TILE"
    """The drawn tile fits and must be placed now; nothing else may be played, drawn or passed."""
    END_MISSING = "END_MISSING"
    """The command must say at which end the tile is joined."""
    END_NOT_OPEN = "END_NOT_OPEN"
    """There is no such open end on the table."""
    BRANCH_CLOSED = "BRANCH_CLOSED"
    """The spinner's branches open only when both of its lines are filled."""
    TILE_DOES_NOT_FIT = "TILE_DOES_NOT_FIT"
    """The tile does not show the value of that end."""
    MUST_PLAY = "MUST_PLAY"
    """A tile in the hand fits: it must be played, not drawn or passed over."""
    BONEYARD_EMPTY = "BONEYARD_EMPTY"
    """There is no tile left to draw."""
    MUST_DRAW = "MUST_DRAW"
    """A pass is legal only when no tile can be drawn."""

    @property
    def rule(self) -> str:
        """The number of the rule this rests on, for example `5.2`."""
        return _RULES[self]


_RULES: Final[dict[Refusal, str]] = {
    Refusal.MATCH_OVER: "7.7",
    Refusal.NOT_STARTED: "7.1",
    Refusal.ROUND_SETTLED: "7.1",
    Refusal.AWAITING_DEAL: "2.1",
    Refusal.DEAL_NOT_DUE: "2.1",
    Refusal.START_NOT_DUE: "7.1",
    Refusal.CONTINUE_NOT_DUE: "7.1",
    Refusal.NOT_SAME_DEVICE: "7.4",
    Refusal.REVEAL_NOT_DUE: "7.4",
    Refusal.ALREADY_PRESSED: "7.1",
    Refusal.CLOCK_EXPIRED: "6.7",
    Refusal.STALE_DECISION: "7.5",
    Refusal.NOT_YOUR_TURN: "3.7",
    Refusal.NOT_REVEALED: "7.4",
    Refusal.NO_AUCTION: "5.1",
    Refusal.AUCTION_OPEN: "5.1",
    Refusal.BID_STANDS: "5.3",
    Refusal.NO_BID_STANDS: "5.3",
    Refusal.MUST_DECLINE: "5.8",
    Refusal.BID_NOT_A_MULTIPLE_OF_FIVE: "5.2",
    Refusal.BID_BELOW_MINIMUM: "5.2",
    Refusal.RAISE_TOO_SMALL: "5.3",
    Refusal.BID_UNAFFORDABLE: "5.6",
    Refusal.MUST_OPEN: "2.2",
    Refusal.TILE_NOT_IN_HAND: "3.1",
    Refusal.OPENING_TILE_FORCED: "2.2",
    Refusal.END_GIVEN_FOR_OPENING: "3.1",
    Refusal.MUST_PLAY_DRAWN_TILE: "4.3",
    Refusal.END_MISSING: "3.1",
    Refusal.END_NOT_OPEN: "3.1",
    Refusal.BRANCH_CLOSED: "3.4",
    Refusal.TILE_DOES_NOT_FIT: "3.1",
    Refusal.MUST_PLAY: "4.1",
    Refusal.BONEYARD_EMPTY: "4.2",
    Refusal.MUST_DRAW: "4.4",
}
