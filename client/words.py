"""What a fault of the service did, in words for a player: a pause that did not count, and why a match is void."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.outcome import Cause, Outcome

if TYPE_CHECKING:
    from client.match import News

PAUSE_SHOWN_MS: Final = 500
"""Shorter pauses are credited as well, but nobody at the table notices them."""

VOID: Final = {
    "gap_too_long": "the service could not hear the players for more than 30 s",
    "credit_spent": "the service could not hear the players for more than 60 s in all",
    "hold_too_long": "the service could not judge or store a move for 60 s",
    "clock_unreachable": "a move waited 60 s for the clock",
    "clock_disruption": "the service's clocks went wrong, and a loss on time would have rested on them",
    "contradiction": "two parts of the service disagreed about the time",
    "order_broken": "a move turned up that came before a deadline already passed",
    "verdict_mismatch": "two parts of the service came to different times",
    "internal_fault": "a fault of the service stopped the match",
    "log_lost": "moves that were told were lost with the database and could not be brought back",
    "operator": "the operators declared an incident",
}
"""`Outcome.detail` of a void match. A newer service may know more words."""


def why_nobody_won(outcome: Outcome) -> str:
    """Why a match has no winner, in words; empty when nothing is known."""
    if outcome.cause is Cause.VOID:
        return VOID.get(outcome.detail, outcome.detail.replace("_", " "))
    if outcome.cause is Cause.CANCELLED and outcome.detail:
        return f"{' and '.join(outcome.detail.split())} did not press Start"
    return ""


def short_reason(outcome: Outcome) -> str:
    """The same in the words of the API, for a column."""
    return f"{outcome.cause} ({outcome.detail.replace('_', ' ')})" if outcome.detail else str(outcome.cause)


class Pauses:
    """Tells of each pause once: while the decision runs, or else when its command is judged."""

    def __init__(self) -> None:
        self._turn = 0
        self._told_ms = 0

    def lines(self, news: News) -> list[str]:
        """A line for each pause these news bring to light, and for each doubt about a deal."""
        lines = [f"Do not trust this match: {doubt}." for doubt in news.doubts]
        for event in news.events:
            if event.WhichOneof("kind") == "turn_timed":
                timed = event.turn_timed
                lines += self._tell(timed.turn, timed.credited_ms)
                # After a draw the same turn goes on and counts what is credited anew.
                self._told_ms = 0
        prompt = news.table.prompt
        if news.table.outcome is None and prompt.to_act is not None:
            lines += self._tell(prompt.turn, prompt.clock.credited_ms)
        return lines

    def _tell(self, turn: int, credited_ms: int) -> list[str]:
        if turn != self._turn:
            self._turn, self._told_ms = turn, 0
        new_ms = credited_ms - self._told_ms
        if new_ms < PAUSE_SHOWN_MS:
            return []
        self._told_ms = credited_ms
        return [f"The service paused for {new_ms / 1000:.1f} s. Nobody's clock ran meanwhile."]
