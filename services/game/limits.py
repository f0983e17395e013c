"""The limits for pressing Start and Continue (rule 7.2)."""

from __future__ import annotations

from engine.clock import SECOND
from engine.command import Continue
from engine.event import Event
from engine.match import Match, Phase, cancel, decide, evolve
from engine.refusal import Refusal
from engine.seats import SEATS
from services.game.resumption import RESUME_GRACE_SECONDS
from services.storage.matches import MatchRow


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
