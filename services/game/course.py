"""The course of a command: its stages from the stamp to the news, and how it ended.

One small object a command collects them. Out of it come the canonical line of the log, the metrics and the span, so that
the three never tell different stories. No tile goes in, and no amount of a bid.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import grpc

from engine.clock import SECOND
from services.common import tracing
from services.common.errors import ServiceError
from services.common.logs import write_frequent
from services.common.redaction import quoted
from services.common.tracing import NoTracer, Span, Tracer
from services.game.answers import Answered
from services.game.livetime import Stamp, kernel_now
from services.game.metrics import CommandMetrics, Result, Stage
from services.storage.pool import TRANSIENT
from services.wire.clock_messages import Verdict
from services.wire.commands import is_harmless, is_match_id, is_request_id

MALFORMED: Final = "malformed"
"""In place of what a client calls an id and is none: it does not choose what our lines say."""

Answer = Answered | ServiceError


class Courses:
    """Where the courses of all commands are told."""

    def __init__(
        self,
        metrics: CommandMetrics,
        tracer: Tracer,
        now: Callable[[], int] = kernel_now,
        write: Callable[[str, str], None] = write_frequent,
    ) -> None:
        self.metrics = metrics
        self.tracer = None if isinstance(tracer, NoTracer) else tracer
        """None while nobody collects traces: then a command has no span."""
        self.now = now
        self.write_frequent = write
        """Takes the name and the fields of a line of the log."""

    def begin(
        self, heard: Stamp, *, match_id: str, player_id: str, request_id: str, decision_id: int, kind: str
    ) -> Course:
        """A command that was just read."""
        return Course(self, heard, match_id, player_id, request_id, decision_id, kind)


class Course:
    """One command."""

    __slots__ = (
        *("_courses", "_named", "_began_ns", "_last_ns", "_stages", "_span", "_told", "_wall_ns"),
        *("match_id", "player_id", "request_id", "decision_id", "kind", "trace"),
        *("revision", "elapsed_ns", "charged_ns"),
    )

    def __init__(
        self,
        courses: Courses,
        heard: Stamp,
        match_id: str,
        player_id: str,
        request_id: str,
        decision_id: int,
        kind: str,
    ) -> None:
        self._courses = courses
        # The last instant at which nothing was unread, by the kernel clock: a stall counts as waiting.
        self._began_ns = self._last_ns = heard.mark_ns + heard.gap_total_ns
        self._stages: dict[Stage, int] = {}
        self._told = False
        self.match_id = match_id
        self.player_id = player_id
        self.request_id = request_id
        self.decision_id = decision_id
        self.kind = kind
        self._named = tracing.named_by_caller()
        self.revision: int | None = None
        """Of the match with this command's effect."""
        self.elapsed_ns: int | None = None
        """What had passed of its turn, as both players are told."""
        self.charged_ns: int | None = None
        """What the bank paid, as both players are told."""
        self.trace = tracing.here()
        """What this command causes belongs to."""
        self._span: Span | None = None
        if courses.tracer is not None:
            self._wall_ns = time.time_ns() - courses.now()
            self._span = courses.tracer.begin(
                "command", self.trace, began_ns=self._wall_ns + self._began_ns, kind_of_command=kind
            )
            self.trace = self._span.context

    def reached(self, stage: Stage) -> None:
        """The end of a stage."""
        now = self._courses.now()
        self._stages[stage] = max(0, now - self._last_ns)
        self._last_ns = now

    def judged(self, verdict: Verdict) -> None:
        """The clock has said that it is in time, and what it costs."""
        self.reached(Stage.VERDICT)
        self.elapsed_ns, self.charged_ns = verdict.elapsed_ns, verdict.charge_ns

    def published(self, revision: int) -> None:
        """Everybody is told; the match has this revision now."""
        self.reached(Stage.PUBLISH)
        self.revision = revision

    def told(self) -> Course:
        """Around a call that answers: what it fails with is how the command ended, unless that is known already."""
        return self

    def __enter__(self) -> None:
        """See `told`."""

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: object
    ) -> None:
        # Not when the call is cancelled: its command goes on.
        if isinstance(error, Exception):
            self.end(error)

    def end(self, answer: Answer | Exception) -> None:
        """Tells how it ended. Whoever was told to try again may still see it applied: that is a line of its own."""
        result = result_of(answer)
        if self._told:
            if result is Result.APPLIED:
                self._observe()
                self._courses.write_frequent("command_late", self._line(result, answer))
            return
        self._told = True
        self._courses.metrics.results[result].inc()
        if result is Result.APPLIED:
            self._observe()
        self._courses.write_frequent("command", self._line(result, answer))
        if self._span is not None:
            self._trace(self._span, result, answer)

    @property
    def _repeated(self) -> bool:
        """Whether this command told nobody anything: if it was applied, then earlier, and it got that answer again."""
        return Stage.PUBLISH not in self._stages

    def _observe(self) -> None:
        if self._repeated:
            return
        metrics = self._courses.metrics
        metrics.seconds.observe((self._last_ns - self._began_ns) / SECOND)
        for stage, took_ns in self._stages.items():
            metrics.stages[stage].observe(took_ns / SECOND)

    def _line(self, result: Result, answer: Answer | Exception) -> str:
        line = (
            f'"match_id": {_id(self.match_id, is_match_id, is_match_id)}, "player_id": {quoted(self.player_id)}, '
            f'"request_id": {_id(self.request_id, is_request_id, is_harmless)}, "decision_no": {self.decision_id}, '
            f'"kind": "{self.kind}", "result": "{result}"'
        )
        if not isinstance(answer, Answered):
            line += f', "reason": {quoted(_reason(answer))}'
        elif self._repeated:
            line += ', "repeated": true'
        if self.revision is not None:
            line += f', "revision": {self.revision}'
        if self.elapsed_ns is not None and self.charged_ns is not None:
            line += f', "elapsed_ns": {self.elapsed_ns}, "charged_ns": {self.charged_ns}'
        for stage, took_ns in self._stages.items():
            line += f', "{stage}_ms": {took_ns // 1000 / 1000}'
        if self.trace is not None:
            line += f', "trace_id": "{self.trace.trace_id}"'
        if self._named is not None:
            line += f', "client_trace_id": "{self._named}"'
        return line

    def _trace(self, span: Span, result: Result, answer: Answer | Exception) -> None:
        tracer, at_ns = self._courses.tracer, self._wall_ns + self._began_ns
        assert tracer is not None, "it made the span"
        for stage, took_ns in self._stages.items():
            tracer.begin(stage.value, self.trace, began_ns=at_ns).end(ended_ns=at_ns + took_ns)
            at_ns += took_ns
        span.end(
            failed=result in (Result.UNAVAILABLE, Result.FAILED),
            match_id=_known(self.match_id, is_match_id),
            player_id=self.player_id,
            request_id=_known(self.request_id, is_request_id),
            result=result.value,
            reason="" if isinstance(answer, Answered) else _reason(answer),
        )


def _known(text: str, is_id: Callable[[str], bool]) -> str:
    return text if not text or is_id(text) else MALFORMED


def _id(text: str, is_id: Callable[[str], bool], is_harmless: Callable[[str], bool]) -> str:
    """In JSON. Nearly all are harmless, and these need no looking at."""
    return f'"{text}"' if is_harmless(text) else quoted(_known(text, is_id))


def result_of(answer: Answer | Exception) -> Result:
    """How a command ended that got this answer, or failed so."""
    match answer:
        case Answered():
            return Result.APPLIED
        case ServiceError(code=grpc.StatusCode.UNAVAILABLE):
            return Result.UNAVAILABLE
        case ServiceError(reason="MATCH_HELD") | ServiceError(code=grpc.StatusCode.INTERNAL):
            return Result.FAILED
        case ServiceError():
            return Result.REFUSED
        case _ if isinstance(answer, TRANSIENT):
            return Result.UNAVAILABLE
        case _:
            return Result.FAILED


def _reason(answer: ServiceError | Exception) -> str:
    return answer.reason if isinstance(answer, ServiceError) else type(answer).__name__
