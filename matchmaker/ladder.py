"""The ladder as a fold: results in the order in which they ended, and what has been ruled about them, become ratings.

Whoever begins with nothing and takes every result in that order comes to the same ratings, to the last bit. That is
what makes a decision exact to take back: take all results again, without the one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from matchmaker.rating import MODEL_VERSION, NEW, Rating, model

Reason = Literal["rated", "unrated_mode", "void", "cancelled", "held", "reversed", "annulled"]
"""Why a finished match is rated or not."""


class Action(StrEnum):
    """What can be ruled about a result."""

    HOLD = "hold"
    """It does not count until a person has looked at it."""
    RELEASE = "release"
    """It counts after all, in the place where it ended."""
    REVERSE = "reverse"
    """It does not count."""
    ANNUL = "annul"
    """It never counted and never will. Only before it was rated: whoever rules sees to that."""


class Treatment(StrEnum):
    """What the rulings about a result come to."""

    COUNTS = "counts"
    HELD = "held"
    REVERSED = "reversed"
    ANNULLED = "annulled"


_RULINGS: Final[Mapping[tuple[Treatment, Action], Treatment]] = {
    (Treatment.COUNTS, Action.HOLD): Treatment.HELD,
    (Treatment.COUNTS, Action.REVERSE): Treatment.REVERSED,
    (Treatment.HELD, Action.RELEASE): Treatment.COUNTS,
    (Treatment.HELD, Action.REVERSE): Treatment.REVERSED,
    # How a reversal that was a mistake is taken back: held again, then released.
    (Treatment.REVERSED, Action.HOLD): Treatment.HELD,
    # Nothing leads out of it: whoever is not sure holds the result.
    (Treatment.COUNTS, Action.ANNUL): Treatment.ANNULLED,
    (Treatment.HELD, Action.ANNUL): Treatment.ANNULLED,
}


_SAID: Final[Mapping[Treatment, Reason]] = {
    Treatment.COUNTS: "rated",
    Treatment.HELD: "held",
    Treatment.REVERSED: "reversed",
    Treatment.ANNULLED: "annulled",
}


class NonsenseError(ValueError):
    """The ruling makes no sense after those before it; the text says why."""


def rule(treatment: Treatment, action: Action) -> Treatment:
    """What a result becomes by one more ruling. Raises NonsenseError."""
    after = _RULINGS.get((treatment, action))
    if after is None:
        now = {
            Treatment.COUNTS: "it is not held",
            Treatment.HELD: "it is held already",
            Treatment.REVERSED: "it is reversed already" if action is Action.REVERSE else "it is reversed",
            Treatment.ANNULLED: "it is annulled already" if action is Action.ANNUL else "it is annulled",
        }
        raise NonsenseError(now[treatment])
    return after


def treatment_of(actions: Iterable[Action]) -> Treatment:
    """What rulings in their order come to. Raises NonsenseError."""
    treatment = Treatment.COUNTS
    for action in actions:
        treatment = rule(treatment, action)
    return treatment


@dataclass(frozen=True, slots=True)
class Result:
    """A finished match, as far as it matters here."""

    rated: bool
    """Whether the match counts, if it was won."""
    north: str
    south: str
    winner: str | None
    """`north`, `south`, or nobody."""
    cause: str

    @property
    def players(self) -> dict[str, str]:
        """The players by their seats."""
        return {"north": self.north, "south": self.south}

    def reason(self, treatment: Treatment = Treatment.COUNTS) -> Reason:
        """Whether it is rated, and why not."""
        if not self.rated:
            return "unrated_mode"
        if self.cause == "void":
            return "void"
        if self.cause == "cancelled":
            return "cancelled"
        return _SAID[treatment]


@dataclass(frozen=True, slots=True)
class Change:
    """One player's rating before and after a match."""

    before: Rating
    after: Rating


@dataclass(frozen=True, slots=True)
class Record:
    """What results have made of a player."""

    rating: Rating = NEW
    rated_matches: int = 0
    wins: int = 0


class Ladder:
    """The records of all players, moved by one result after the other.

    A player that was never met is new.
    """

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}

    def take(
        self,
        result: Result,
        treatment: Treatment = Treatment.COUNTS,
        model_version: str = MODEL_VERSION,
    ) -> dict[str, Change] | None:
        """The changes of both seats' ratings by the next result; None, and nothing moves, when it is not rated.

        Raises UnknownWinnerError and UnknownModelError; nothing has moved then.
        """
        if result.reason(treatment) != "rated":
            return None
        records = {seat: self.records.get(player, Record()) for seat, player in result.players.items()}
        before = {seat: record.rating for seat, record in records.items()}
        after = model(model_version)(before, result.winner or "")
        for seat, player in result.players.items():
            record = records[seat]
            self.records[player] = Record(
                after[seat], record.rated_matches + 1, record.wins + (seat == result.winner)
            )
        return {seat: Change(before[seat], after[seat]) for seat in before}
