"""Fuzz target for the timekeeper: a clock is told any sequence of messages, however little sense they make.

An input is one GovernRequest: its messages one after the other, 50 ms apart. What stands in a `Stalled` is how long
nothing is said before the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from google.protobuf.message import DecodeError

from engine.clock import MILLISECOND, SECOND, Effect
from engine.seats import NORTH, SOUTH
from services.clock.timekeeper import Hangup, Said, Timekeeper
from services.wire import clock as wire
from services.wire import clock_messages as m
from spectacularbid.internal.clock.v1 import clock_service_pb2 as pb
from tests.fuzz.messagemutation import mutate_message
from tests.fuzz.target import Target

STEP: Final = 50 * MILLISECOND
QUIET_MAX: Final = 200 * SECOND
BEGIN: Final = 1_000 * SECOND


class Clocked:
    """A clock, and the one link on which it is spoken to; a Hello begins a new session."""

    def __init__(self) -> None:
        self.now = BEGIN
        self._number = 0
        self._session = ""
        self._keeper = Timekeeper("clock", m.Policy(), self._new_id)

    def _new_id(self) -> str:
        self._number += 1
        return f"id-{self._number}"

    def say(self, message: m.EngineMessage) -> list[m.ClockMessage]:
        """What the clock answers, and what it did on time before that."""
        self.now += STEP
        if isinstance(message, m.Hello):
            self._session = self._new_id()
        if isinstance(message, m.Stalled):
            self.now += message.since_raw_ns % QUIET_MAX
        return self._sent(
            [*self._keeper.expire(self.now), *self._keeper.handle(self._session, message, self.now)]
        )

    def wait(self) -> None:
        """Nobody says anything any more: everything comes to its end."""
        for _ in range(20):
            self.now += 10 * SECOND
            self._sent(self._keeper.expire(self.now))
            due = self._keeper.next_deadline()
            assert due is None or due > self.now, "what is due is never done"

    def _sent(self, said: Said) -> list[m.ClockMessage]:
        self._keeper.take_notices()
        messages = [message for _, message in said if not isinstance(message, Hangup)]
        # It can be written on the wire, and read there.
        assert wire.response_from_pb(wire.response_to_pb(messages)) == messages
        return messages


def run_clock(data: bytes) -> None:
    """Whatever it is told, it stays up, does on time what is due, and what it says can be sent."""
    request = pb.GovernRequest()
    try:
        request.ParseFromString(data)
        told = wire.request_from_pb(request)
    except (DecodeError, wire.MalformedClockMessageError):
        return
    clock = Clocked()
    for message in told:
        clock.say(message)
    clock.wait()


class _Engine:
    """What an honest game process would say; kept, to be said again and changed."""

    def __init__(self) -> None:
        self.clock = Clocked()
        self.told: list[m.EngineMessage] = []
        self.heard: list[m.ClockMessage] = []

    def say(self, message: m.EngineMessage) -> None:
        """Say it, and answer what has to be answered."""
        self.told.append(message)
        for answer in self.clock.say(message):
            self.heard.append(answer)
            if isinstance(answer, m.Ping):
                self.say(m.Pong(answer.n, self.now, self.now, True, 0))
            elif isinstance(answer, m.Probe):
                self.say(m.ProbeReply(answer.key, answer.probe_no, self.now))

    @property
    def now(self) -> int:
        """When the next message is heard."""
        return self.clock.now + STEP

    def hello(self, attach_no: int, incarnation: str = "i1", *, open: tuple[m.Open, ...] = ()) -> m.Hello:  # noqa: A002
        """Attach."""
        fields = "game-1", incarnation, attach_no, f"boot/{incarnation}", "boottime", self.now, self.now, "v1"
        return m.Hello(*fields, open=open)

    def open(
        self, number: int, cause: m.OpenCause = m.OpenCause.NEW, *, fence: int = 1, gaps: int = 0
    ) -> m.Open:
        """A decision that opens now, with a second for it."""
        key, seat = m.Key("m1", fence, number), (NORTH, SOUTH)[number % 2]
        times = self.now, self.now + gaps, self.now, gaps
        return m.Open(key, cause, seat, "turn", *times, SECOND, 500 * MILLISECOND, 0, 0, 0)

    def arrival(self, opened: m.Open, effect: Effect = Effect.ENDS) -> m.Arrival:
        """A command that is heard now."""
        return m.Arrival(opened.key, f"c{opened.key.decision_no}", self.now, self.now, 0, effect)

    def turns(self, count: int) -> m.Open:
        """Attach and play so many turns; the next one is open."""
        self.say(self.hello(1))
        for number in range(1, count + 1):
            opened = self.open(number)
            self.say(opened)
            if number == 2:  # a draw: the turn goes on
                self.say(self.arrival(opened, Effect.CONTINUES))
                self.say(m.Applied(opened.key, f"c{number}", number))
                verdict = next(said for said in reversed(self.heard) if isinstance(said, m.Verdict))
                opened = replace(self.open(number, m.OpenCause.CONTINUE), consumed_ns=verdict.consumed_ns)
                self.say(opened)
            self.say(self.arrival(opened))
            self.say(m.Applied(opened.key, f"c{number}", number))
        opened = self.open(count + 1)
        self.say(opened)
        return opened

    def quiet(self, steps: int) -> None:
        """Only beats."""
        for n in range(steps):
            self.say(m.Pong(10_000 + n, self.now, self.now, True, 0))


def _timeout() -> _Engine:
    engine = _Engine()
    opened = engine.turns(3)
    engine.quiet(40)
    assert any(isinstance(message, m.Timeout) for message in engine.heard), engine.heard[-5:]
    engine.say(engine.arrival(opened))
    engine.say(m.Close("m1", 1, "over"))
    return engine


def _reattached() -> _Engine:
    engine = _Engine()
    opened = engine.turns(2)
    engine.say(engine.hello(2, open=(replace(opened, cause=m.OpenCause.REATTACH, mark_ns=engine.now),)))
    engine.say(engine.arrival(opened))
    return engine


def _taken_over() -> _Engine:
    engine = _Engine()
    engine.turns(2)
    engine.say(m.Release("m1", 1, engine.now))
    engine.say(engine.hello(1, "i2"))
    resumed = engine.open(3, m.OpenCause.RESUME, fence=2)
    engine.say(replace(resumed, outage_hint_ns=SECOND))
    engine.say(engine.arrival(resumed))
    return engine


def _stalled() -> _Engine:
    engine = _Engine()
    opened = engine.turns(1)
    gap = m.Gap(engine.now - SECOND, engine.now, "stall")
    engine.say(m.Pong(5, engine.now, engine.now - SECOND, True, SECOND, (gap,)))
    engine.say(m.Stalled(opened.key, 70 * SECOND, m.StallCause.COMMIT))
    engine.say(engine.hello(3))
    engine.say(engine.open(2, m.OpenCause.REATTACH, gaps=SECOND))
    return engine


def clock_seeds() -> Iterator[bytes]:
    """A loss on time, an attachment after another, a takeover, a process that stalls, and a contradiction."""
    engines = [_timeout(), _reattached(), _taken_over(), _stalled()]
    contradicted = _Engine()
    opened = contradicted.turns(1)
    contradicted.say(replace(opened, bank_ns=5))
    contradicted.say(replace(opened, key=opened.key._replace(decision_no=9)))
    contradicted.say(contradicted.hello(1))
    for engine in (*engines, contradicted):
        yield wire.request_to_pb(engine.told).SerializeToString()


TARGETS: Final = (
    Target(
        "clock",
        run_clock,
        lambda data, rng: mutate_message(pb.GovernRequest, data, rng),
        clock_seeds,
        (
            *("services.clock.timekeeper", "services.clock.matchclock", "services.clock.owner"),
            "services.clock.witness",
        ),
        size_max=16_384,
        weight=2,
    ),
)
