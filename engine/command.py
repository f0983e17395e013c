"""What a seat may ask for. A command is in the imperative; what comes of it is an event or a refusal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from engine.seats import Seat
    from engine.tiles import End, Tile


@dataclass(frozen=True, slots=True)
class Start:
    """Be ready for the first round (rule 7.1)."""

    seat: Seat
    contribution: bytes = b""
    """What the seat adds to the shuffle of that round, at most 32 bytes; see `engine.shuffle`."""


@dataclass(frozen=True, slots=True)
class Continue:
    """Be ready for the next round (rule 7.1)."""

    seat: Seat
    contribution: bytes = b""
    """As with Start."""


@dataclass(frozen=True, slots=True)
class Reveal:
    """On a shared device: show this seat's tiles and start its clock (rules 6.5, 7.4)."""

    seat: Seat


@dataclass(frozen=True, slots=True)
class Bid:
    """Make the first bid or raise the standing one (rules 5.2, 5.3)."""

    seat: Seat
    amount: int
    """The new standing bid in points, not the difference."""


@dataclass(frozen=True, slots=True)
class Accept:
    """Let the other seat's standing bid have the opening (rule 5.3)."""

    seat: Seat


@dataclass(frozen=True, slots=True)
class Decline:
    """Bid nothing: the jockey opens free of charge (rule 5.2)."""

    seat: Seat


class Play(NamedTuple):
    """Place a tile from the hand (rule 3.1).

    By far the most frequent command, hence a named tuple: one is made in a third of the time.
    """

    seat: Seat
    tile: Tile
    end: End | None = None
    """Where it is joined; None for the opening tile and only for that."""


@dataclass(frozen=True, slots=True)
class Draw:
    """Take the next tile from the boneyard (rule 4.2)."""

    seat: Seat


@dataclass(frozen=True, slots=True)
class Pass:
    """Give up the turn when neither a play nor a draw is possible (rule 4.4)."""

    seat: Seat


@dataclass(frozen=True, slots=True)
class Resign:
    """Give up the match (rule 7.3)."""

    seat: Seat


Command = Start | Continue | Reveal | Bid | Accept | Decline | Play | Draw | Pass | Resign
