"""A command in line: what was asked, whether it was asked before, and what the rules say to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import grpc

from engine.command import Command, Continue, Resign, Reveal, Start
from engine.event import Event
from engine.match import Match, decide
from engine.refusal import Refusal
from services.common.errors import ServiceError, try_again
from services.game.course import Answer, Course
from services.game.livetime import Stamp
from services.game.story import Story
from services.wire.commands import refusal_error

_PRECEDENCE: Final = {refusal: number for number, refusal in enumerate(Refusal)}
_UNTIMED: Final = (Start, Continue, Reveal, Resign)


@dataclass(slots=True)
class Asked:
    """A command waiting for its answer."""

    command: Command
    request_id: str
    payload: bytes
    decision_id: int
    heard: Stamp
    """Taken at its read: what the clock judges."""
    answered: Callable[[Answer], None]
    """Called once with the answer, at the moment it is known: so that it travels with the news of what it did."""
    course: Course
    told: bool = False
    """Whether it has its answer."""
    settled: bool = False
    """Whether its course is over, too."""

    def tell(self, answer: Answer) -> None:
        """Gives the answer, unless there is one. Before the news is announced: both travel together."""
        if not self.told:
            self.told = True
            self.answered(answer)

    def settle(self, answer: Answer) -> None:
        """Gives the answer, unless there is one, and ends the course with it."""
        self.tell(answer)
        if not self.settled:
            self.settled = True
            self.course.end(answer)

    @property
    def untimed(self) -> bool:
        """Whether no clock judges it: it takes no turn."""
        return isinstance(self.command, _UNTIMED)


def repeated(story: Story, asked: Asked) -> Answer | None:
    """The answer to a request of this player that had its effect already (one effect for one request_id)."""
    known = story.answers.get(story.asked_as(asked.command.seat, asked.request_id))
    if known is None or known.payload == asked.payload:
        return known
    return ServiceError(
        grpc.StatusCode.INVALID_ARGUMENT,
        "REQUEST_ID_REUSED",
        "request_id: was used in this match with another payload",
    )


def rule(state: Match, asked: Asked) -> tuple[Event, ...] | Refusal:
    """What the rules say: events, or the first refusal that applies. A stale command is never taken for a new one."""
    ruling = decide(state, asked.command)
    if asked.decision_id == state.decision_id or isinstance(asked.command, Resign):
        return ruling
    # The answer to an earlier question is refused where that stands in the order of precedence.
    if isinstance(ruling, Refusal) and _PRECEDENCE[ruling] < _PRECEDENCE[Refusal.STALE_DECISION]:
        return ruling
    return Refusal.STALE_DECISION


def held_error() -> ServiceError:
    """A fault of ours stopped the match."""
    return ServiceError(
        grpc.StatusCode.FAILED_PRECONDITION, "MATCH_HELD", "the match is held because of an internal fault"
    )


def parting(story: Story, asked: Asked, *, held: bool) -> Answer:
    """The answer to a command that was not carried out before its room closed."""
    if held:
        return held_error()
    if not story.over:
        # It may have been stored in the last moment; the same request_id finds out.
        return try_again("the match is moving to another process")
    return repeated(story, asked) or refusal_error(Refusal.MATCH_OVER)
