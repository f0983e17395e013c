"""Why the service refused a command, in a sentence a player understands, with the rule it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.refusal import Refusal

if TYPE_CHECKING:
    from client.errors import Refused

SENTENCES: Final[dict[Refusal, str]] = {
    Refusal.MATCH_OVER: "the match is over",
    Refusal.NOT_STARTED: "both seats press Start first",
    Refusal.ROUND_SETTLED: "the round is over; both seats press Continue first",
    Refusal.AWAITING_DEAL: "the next round is not dealt yet",
    Refusal.DEAL_NOT_DUE: "no deal is due",
    Refusal.START_NOT_DUE: "the match has started already",
    Refusal.CONTINUE_NOT_DUE: "the round is still being played",
    Refusal.NOT_SAME_DEVICE: "only players who share a device reveal their tiles",
    Refusal.REVEAL_NOT_DUE: "there are no tiles to reveal now",
    Refusal.ALREADY_PRESSED: "you have pressed already; the other seat has not",
    Refusal.CLOCK_EXPIRED: "it came too late, your time had run out",
    Refusal.STALE_DECISION: "it answered an earlier question; look at the table again",
    Refusal.NOT_YOUR_TURN: "it is not your turn",
    Refusal.NOT_REVEALED: "reveal your tiles first",
    Refusal.NO_AUCTION: "there is no auction now",
    Refusal.AUCTION_OPEN: "the auction comes first: bid, accept or decline",
    Refusal.BID_STANDS: "a bid stands: accept it or raise it",
    Refusal.NO_BID_STANDS: "no bid stands that could be accepted",
    Refusal.MUST_DECLINE: "with less than 15 points you can only decline",
    Refusal.BID_NOT_A_MULTIPLE_OF_FIVE: "bids are multiples of five",
    Refusal.BID_BELOW_MINIMUM: "the first bid is at least 15",
    Refusal.RAISE_TOO_SMALL: "a raise is at least 5 more than the standing bid",
    Refusal.BID_UNAFFORDABLE: "you cannot pay that",
    Refusal.MUST_OPEN: "you open the round: place a tile",
    Refusal.TILE_NOT_IN_HAND: "you do not hold this tile",
    Refusal.OPENING_TILE_FORCED: "the highest double opens this round, or without one the heaviest tile",
    Refusal.END_GIVEN_FOR_OPENING: "the opening tile is joined to nothing",
    Refusal.MUST_PLAY_DRAWN_TILE: "the drawn tile fits and must be placed now",
    Refusal.END_MISSING: "say at which end the tile is joined",
    Refusal.END_NOT_OPEN: "there is no such open end",
    Refusal.BRANCH_CLOSED: "the spinner's branches open when both its lines are filled",
    Refusal.TILE_DOES_NOT_FIT: "the tile does not show the value of that end",
    Refusal.MUST_PLAY: "one of your tiles fits: play it",
    Refusal.BONEYARD_EMPTY: "the boneyard is empty",
    Refusal.MUST_DRAW: "there are tiles to draw: pass only when there are none",
}


def why_refused(refused: Refused) -> str:
    """The sentence, and the rule in brackets. A newer service's reasons come in its own words."""
    try:
        sentence = SENTENCES[Refusal(refused.reason)]
    except (KeyError, ValueError):
        return refused.message
    return f"{sentence} (rule {refused.rule})." if refused.rule else f"{sentence}."
