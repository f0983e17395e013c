"""The limits for pressing Start and Continue (rule 7.2)."""

from __future__ import annotations

import asyncio

from engine.clock import MILLISECOND, SECOND
from engine.command import Continue
from engine.event import Event
from engine.match import Match, Phase, cancel, decide, evolve
from engine.refusal import Refusal
from engine.seats import SEATS
from services.game.livetime import LiveTime
from services.game.resumption import RESUME_GRACE_SECONDS
from services.storage.matches import MatchRow


class Limit:
    """The limit that runs in a match now, if one does. Live time decides: while this process could not hear the players,
    they had none of it."""

    def __init__(self, livetime: LiveTime) -> None:
        self.at: float | None = None
        """When to look whether it is over, on the loop's clock; None while none runs."""
        self._livetime = livetime
        self._mark_ns = 0

    def stop(self) -> None:
        """None runs any more."""
        self.at = None

    def start(self, limit_ns: int) -> None:
        """It runs from now on."""
        self.at = asyncio.get_running_loop().time() + limit_ns / SECOND
        self._mark_ns = self._livetime.mark() + limit_ns

    def over(self) -> bool:
        """Whether the players had all of it; if not, it is looked at again."""
        missing_ns = self._mark_ns - self._livetime.mark()
        self.at = asyncio.get_running_loop().time() + max(missing_ns, MILLISECOND) / SECOND
        return missing_ns <= 0


def limit_ns(row: MatchRow, state: Match) -> int | None:
    """How long both seats have for the press that is awaited, in nanoseconds; None while none is.

    One limit for both: the first press does not prolong it for the other seat.
    """
    if state.phase is Phase.AWAITING_START:
        return row.start_limit_ns
    return row.continue_limit_ns if state.phase is Phase.SETTLED else None


def left_ns(limit_ns: int, waited_ns: int) -> int:
    """What is left of a limit after an outage, when it began `waited_ns` ago: players have time to come back at least.

    Never more than the limit, whatever the clock behind `waited_ns` did meanwhile.
    """
    return min(limit_ns, max(limit_ns - waited_ns, round(RESUME_GRACE_SECONDS * SECOND)))


def reached(state: Match) -> tuple[Event, ...]:
    """What comes of the limit: the match is cancelled, or whoever has not pressed Continue is taken to have."""
    missing = [seat for seat in SEATS if seat not in state.pressed]
    if state.phase is Phase.AWAITING_START:
        return cancel(state, missing)
    events: tuple[Event, ...] = ()
    for seat in missing:
        ruling = decide(state, Continue(seat))
        assert not isinstance(ruling, Refusal), ruling
        state = evolve(state, ruling[0])
        events += ruling
    return events
