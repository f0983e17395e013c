"""The end of a match as it is stored."""

from __future__ import annotations

from collections.abc import Sequence

from engine.event import Event, MatchEnded
from engine.match import Cause, Outcome, replay
from engine.seats import Seat
from services.common.logs import Logger
from services.game.story import Story
from services.storage.endings import Ending, Evidence


def ending_of(story: Story, events: Sequence[Event], evidence: Evidence | None) -> Ending | None:
    """The outcome that a ruling brings; None when the match goes on."""
    last = events[-1]
    if not isinstance(last, MatchEnded):
        return None
    outcome = last.outcome
    row = story.row
    balances = replay(story.state, events).balances
    absent = outcome.detail.split() if outcome.cause is Cause.CANCELLED else ()
    return Ending(
        winner=None if outcome.winner is None else outcome.winner.value,
        cause=outcome.cause.value,
        detail=outcome.detail,
        north_balance=balances.north,
        south_balance=balances.south,
        evidence=evidence,
        # Nobody has to show up for a match that somebody else proposed.
        no_shows=tuple(
            (row.north if seat == Seat.NORTH else row.south).player_id
            for seat in absent
            if row.mode in ("rated", "casual")
        ),
    )


def log_end(log: Logger, outcome: Outcome, late_ns: int | None) -> None:
    """One line for each match; `late_ns` nanoseconds after the deadline if it was lost on time."""
    late = {} if late_ns is None else {"late_ns": late_ns}
    winner = None if outcome.winner is None else outcome.winner.value
    log.info("match_over", cause=outcome.cause.value, winner=winner, detail=outcome.detail, **late)
