"""How a match ended: the winner and the cause, kept apart (rule 7.7)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.seats import Seat


class Cause(StrEnum):
    """Why a match is over."""

    BALANCE = "balance"
    """The loser's balance reached 0 (rule 1.3)."""
    TIME = "time"
    """The loser's deadline passed (rule 6.7)."""
    RESIGNATION = "resignation"
    """The loser resigned (rule 7.3)."""
    VOID = "void"
    """A fault of the service made time undecidable (rule 6.8). Nobody wins."""
    CANCELLED = "cancelled"
    """Somebody did not press Start within the limit (rule 7.2). Nobody wins."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a match. A winner is there exactly when the cause is balance, time or resignation."""

    winner: Seat | None
    cause: Cause
    detail: str = ""
    """For a void match the reason, for a cancelled one the seats that did not show up, separated by a space."""
