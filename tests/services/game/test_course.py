"""The course of a command: one line, one count, the same stages in both, and never what was played."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import grpc
import pytest
from prometheus_client import CollectorRegistry

from engine.refusal import Refusal
from engine.seats import NORTH
from services.common import redaction, tracing
from services.common.errors import ServiceError, limit_reached, malformed, try_again
from services.common.tracing import NoTracer, TraceContext
from services.game.answers import Answered
from services.game.asked import held_error
from services.game.course import Course, Courses
from services.game.livetime import Stamp
from services.game.metrics import CommandMetrics, Result, Stage
from services.wire.clock_messages import Key, Verdict
from services.wire.commands import refusal_error

MATCH = "c1ae8cd5-2c75-49f4-830e-4c71504e98c2"
APPLIED = Answered(b"", 4, 5)
TRACE = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")


class Desk:
    """Courses on a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000_000
        self.registry = CollectorRegistry()
        self.lines: list[dict[str, Any]] = []
        """What was logged."""
        self.courses = Courses(CommandMetrics(self.registry), NoTracer(), lambda: self.now, self.write)

    def write(self, event: str, fields: str) -> None:
        self.lines.append({"event": event, **json.loads(f"{{{fields}}}")})

    def begin(self, **changed: Any) -> Course:
        # Read 30 ms after the last idle instant, behind a gap of 200 ms in the whole life of the process.
        heard = Stamp(self.now - 230_000_000, self.now, self.now - 230_000_000, 200_000_000)
        wanted = {
            "match_id": MATCH,
            "player_id": "ann",
            "request_id": "r1",
            "decision_id": 7,
            "kind": "play",
            **changed,
        }
        return self.courses.begin(heard, **wanted)

    def counted(self) -> dict[str, float]:
        """Commands by result, those at zero left out."""
        found = {
            result.value: self.value("spectacular_bid_commands_total", result=result.value)
            for result in Result
        }
        return {result: count for result, count in found.items() if count}

    def value(self, series: str, **labels: str) -> float:
        found = self.registry.get_sample_value(series, labels)
        assert found is not None, f"{series} does not exist"
        return found

    def observed(self) -> dict[str, float]:
        """Seconds by stage, and in all."""
        found = {
            stage.value: self.value("spectacular_bid_command_stage_seconds_sum", stage=stage.value)
            for stage in Stage
        }
        return found | {"all": self.value("spectacular_bid_command_seconds_sum")}


def applied(desk: Desk, course: Course, *, timed: bool = True) -> None:
    """10 ms in line, 20 for the verdict, 40 for the disk, 5 to tell."""
    desk.now += 10_000_000
    course.reached(Stage.QUEUE)
    if timed:
        desk.now += 20_000_000
        key = Key(MATCH, 1, 3)
        course.judged(Verdict(key, "r1", 1_500_000_000, 1_500_000_000, 250_000_000, 9_000_000_000, 0))
    desk.now += 40_000_000
    course.reached(Stage.COMMIT)
    desk.now += 5_000_000
    course.published(12)


def test_a_command_that_was_applied_has_one_line_with_everything() -> None:
    """From the last instant at which nothing was unread: a stall before the read counts as waiting in line."""
    desk = Desk()
    course = desk.begin()
    applied(desk, course)
    course.end(APPLIED)
    assert desk.lines == [
        {
            "event": "command",
            "match_id": MATCH,
            "player_id": "ann",
            "request_id": "r1",
            "decision_no": 7,
            "kind": "play",
            "result": "applied",
            "revision": 12,
            "elapsed_ns": 1_500_000_000,
            "charged_ns": 250_000_000,
            "queue_ms": 40.0,
            "verdict_ms": 20.0,
            "commit_ms": 40.0,
            "publish_ms": 5.0,
        }
    ]
    assert desk.counted() == {"applied": 1}
    assert desk.observed() == pytest.approx(
        {"queue": 0.04, "verdict": 0.02, "commit": 0.04, "publish": 0.005, "all": 0.105}
    )


def test_what_takes_no_turn_waits_for_no_verdict() -> None:
    desk = Desk()
    course = desk.begin(kind="start")
    applied(desk, course, timed=False)
    course.end(APPLIED)
    assert "verdict_ms" not in desk.lines[0]
    assert "charged_ns" not in desk.lines[0]
    assert desk.value("spectacular_bid_command_stage_seconds_count", stage="verdict") == 0
    assert desk.value("spectacular_bid_command_stage_seconds_count", stage="commit") == 1


@pytest.mark.parametrize(
    ("answer", "result", "reason"),
    [
        (refusal_error(Refusal.NOT_YOUR_TURN), "refused", "NOT_YOUR_TURN"),
        (malformed("request_id: no"), "refused", "MALFORMED"),
        (limit_reached("too many"), "refused", "LIMIT_REACHED"),
        (try_again("later"), "unavailable", "TRY_AGAIN"),
        (OSError("connection lost"), "unavailable", "OSError"),
        (held_error(), "failed", "MATCH_HELD"),
        (ServiceError(grpc.StatusCode.INTERNAL, "INTERNAL", "x"), "failed", "INTERNAL"),
        (KeyError("a bug"), "failed", "KeyError"),
    ],
)
def test_a_command_without_effect_says_why(answer: Any, result: str, reason: str) -> None:
    desk = Desk()
    desk.begin().end(answer)
    assert [(line["result"], line["reason"]) for line in desk.lines] == [(result, reason)]
    assert desk.counted() == {result: 1}
    assert desk.observed()["all"] == 0


def test_a_repeated_request_is_applied_and_waited_for_nothing() -> None:
    desk = Desk()
    course = desk.begin()
    course.reached(Stage.QUEUE)
    course.end(APPLIED)
    assert [(line["result"], line["repeated"]) for line in desk.lines] == [("applied", True)]
    assert desk.counted() == {"applied": 1}
    assert desk.observed()["all"] == 0


def test_a_command_whose_answer_came_too_late_is_counted_once_and_says_later_that_it_was_applied() -> None:
    desk = Desk()
    course = desk.begin()
    with pytest.raises(ServiceError), course.told():
        raise try_again("the answer takes long")
    applied(desk, course)
    course.end(APPLIED)
    assert [(line["event"], line["result"]) for line in desk.lines] == [
        ("command", "unavailable"),
        ("command_late", "applied"),
    ]
    assert desk.lines[1]["revision"] == 12
    assert desk.counted() == {"unavailable": 1}
    assert desk.value("spectacular_bid_command_seconds_count") == 1


def test_a_client_that_goes_away_ends_nothing() -> None:
    """Its command goes on, and is told when it has ended."""
    desk = Desk()
    course = desk.begin()
    with pytest.raises(asyncio.CancelledError), course.told():
        raise asyncio.CancelledError
    assert desk.lines == []
    applied(desk, course)
    course.end(APPLIED)
    assert [line["result"] for line in desk.lines] == ["applied"]


def test_an_answer_that_is_known_is_told_once() -> None:
    desk = Desk()
    refused = refusal_error(Refusal.NOT_YOUR_TURN)
    course = desk.begin()
    course.end(refused)
    with pytest.raises(ServiceError), course.told():
        raise refused
    assert len(desk.lines) == 1
    assert desk.counted() == {"refused": 1}


@pytest.mark.parametrize("text", ["x" * 100_000, "x" * 65, "a b", "\x1b]0;x", "\u202e", "é", "6|6\n"])
def test_a_line_names_the_trace_of_its_call_and_no_id_that_is_none(text: str) -> None:
    """What a client calls an id does not get into the log unless it has the form of one."""
    desk = Desk()
    with tracing.within(TRACE):
        course = desk.begin(match_id=text, request_id=text)
        course.end(malformed("match_id: must be a lower-case UUID"))
    assert course.trace == TRACE
    assert desk.lines[0]["trace_id"] == TRACE.trace_id
    assert (desk.lines[0]["match_id"], desk.lines[0]["request_id"]) == ("malformed", "malformed")
    assert NORTH.value not in desk.lines[0].values()


@pytest.mark.parametrize(
    "secret",
    [
        "6|6",
        f"eyJ{'a' * 40}.b",
        "0123456789abcdef" * 4,
        "Bearer abc",
        "a secret of ours!",
        "x" * 20_000,
    ],
)
def test_what_looks_like_a_secret_is_in_no_line_whoever_chose_it(secret: str) -> None:
    """A client may choose what it calls a request, and an issuer what it calls a player."""
    desk = Desk()
    before = set(redaction._secrets)
    redaction.hide(["a secret of ours!"])
    desk.begin(request_id=secret.replace(" ", "_"), player_id=secret).end(OSError())
    shown, request_id = redaction.clean(secret), redaction.clean(secret.replace(" ", "_"))
    redaction._secrets.intersection_update(before)
    assert shown != secret
    assert secret not in json.dumps(desk.lines)
    assert desk.lines[0]["player_id"] == shown
    assert desk.lines[0]["request_id"] in ("malformed", request_id)
