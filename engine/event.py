"""What has happened, in the past tense. A match is the fold of its events; these are stored, published and told.

One accepted command causes one to five of them, in the order in which they took effect. Some hold secrets (a deal,
a drawn tile): they leave the service through `engine.view.redact` and no other way.

The four that make up most of every match are named tuples, made in a third of the time of the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from engine.deal import Deal
    from engine.outcome import Outcome
    from engine.seats import BySeat, Seat
    from engine.tiles import End, Port, Tile


class Reason(StrEnum):
    """Why points moved."""

    SCORE = "score"
    """The counted ends made a multiple of five (rule 3.6)."""
    AUCTION = "auction"
    """The opening was paid for (rules 5.4, 5.5)."""
    BLOCKED = "blocked"
    """A blocked round was settled (rule 4.6)."""


@dataclass(frozen=True, slots=True)
class Started:
    """A seat pressed Start."""

    seat: Seat
    contribution: bytes = b""
    """What it added to the shuffle. Told at once: it says nothing about a deal to whoever does not know the seed, and
    whoever presses after it knows that it cannot be changed any more."""


@dataclass(frozen=True, slots=True)
class Continued:
    """A seat pressed Continue, or the continue limit did it (rule 7.2)."""

    seat: Seat
    contribution: bytes = b""
    """As with Started; empty when the limit pressed."""


@dataclass(frozen=True, slots=True)
class RoundDealt:
    """A round was dealt. Secret but for its number, the commitments and the contributions.

    A deal that was drawn (`contributions` is not None) follows from `salt`, which is then the seed that `commitment`
    was told of before the press, and from the contributions: see `engine.shuffle`. Any other one was committed to when
    it was made: see `engine.deal.commitment`.
    """

    round_no: int
    """From 1."""
    deal: Deal
    salt: bytes
    """32 random bytes that keep the commitment from being guessed."""
    commitment: str
    contributions: BySeat[bytes] | None = None
    """What the players added; None for a deal that was not drawn."""
    next_commitment: str | None = None
    """To the seed of the next round."""
    scripted: bool = False
    """Whether a test configuration said what is dealt."""


@dataclass(frozen=True, slots=True)
class Revealed:
    """On a shared device, a seat looked at its tiles; its turn begins."""

    seat: Seat
    hand: tuple[Tile, ...] | None = None
    """What it saw, sorted. None in what others are told."""


@dataclass(frozen=True, slots=True)
class BidMade:
    """A first bid or a raise now stands."""

    seat: Seat
    amount: int


@dataclass(frozen=True, slots=True)
class OpeningWon:
    """The auction is over: this seat opens with any tile. The payment is an event of its own."""

    seat: Seat
    price: int
    """What is really paid, after the discount; 0 after a decline."""
    discount: int
    """How much of the winning bid was waived: up to 15 for the jockey, else 0 (rule 5.5)."""


class PointsMoved(NamedTuple):
    """Points went from one seat to the other."""

    to: Seat
    due: int
    """Before the cap of rule 1.2; above 0."""
    moved: int
    """After it: what the balances really changed by."""
    reason: Reason


class TilePlaced(NamedTuple):
    """A tile was placed."""

    seat: Seat
    tile: Tile
    end: End | None
    """Where it was joined; None for the opening tile."""
    joined: Port | None
    """The port of the placed tile that the join used; None for the opening tile."""
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    """All counted ends added up, after this placement (rule 3.6)."""


class TileDrawn(NamedTuple):
    """A tile went from the boneyard into a hand. Secret but for the seat."""

    seat: Seat
    tile: Tile | None
    """None in what others are told, never in what is stored."""


@dataclass(frozen=True, slots=True)
class TurnPassed:
    """A seat could neither play nor draw."""

    seat: Seat


@dataclass(frozen=True, slots=True)
class RoundWentOut:
    """A seat played its last tile and is the jockey of the next round (rule 4.5)."""

    seat: Seat


@dataclass(frozen=True, slots=True)
class RoundBlocked:
    """Two passes in a row ended the round (rule 4.6)."""

    hand_totals: BySeat[int]
    """Public from now on."""
    winner: Seat | None
    """The seat with the lower total; None when they are equal."""


class TurnTimed(NamedTuple):
    """What a command cost in time; comes before the events of that command. Nanoseconds."""

    seat: Seat
    turn: int
    elapsed_ns: int
    """Used in this turn so far, up to and including this command."""
    consumed_ns: int
    """What the turn carries into its next part: all that has elapsed after a draw, 0 when the turn is over."""
    charge_ns: int
    """What the bank paid; 0 for a draw, whose time is settled with the end of the turn."""
    bank_after_ns: int


@dataclass(frozen=True, slots=True)
class MatchEnded:
    """The match is over."""

    outcome: Outcome


Event = (
    Started
    | Continued
    | RoundDealt
    | Revealed
    | BidMade
    | OpeningWon
    | PointsMoved
    | TilePlaced
    | TileDrawn
    | TurnPassed
    | RoundWentOut
    | RoundBlocked
    | TurnTimed
    | MatchEnded
)
