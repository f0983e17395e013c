"""What a verdict costs the clock and the link to it, and how that grows with the matches of a clock.

Two ways to look: closed loops of so many matches that open, ask and go on at once, against a clock process behind its guard
(the batch that travels together is about as large as there are matches); and the clock's own work alone, in this process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from uuid import uuid4

from prometheus_client import CollectorRegistry

from engine.clock import BANK, DELAY, Effect
from engine.seats import NORTH
from services.clock.timekeeper import Timekeeper
from services.game.clock_client import ClockLink
from services.game.livetime import LiveTime
from services.game.metrics import LinkMetrics
from services.wire import clock as wire
from services.wire import clock_messages as m
from spectacularbid.internal.clock.v1 import clock_service_pb2 as pb
from tests.bench.report import Cell
from tests.bench.usage import processor_seconds, resident_megabytes

WARMUP_SECONDS = 1.0
TOGETHER = 16
"""Messages that travel together when the clock is measured alone: what 100 matches on one core come to."""


def new_link(address: str, live: LiveTime, secret: str) -> ClockLink:
    """A link as the game process makes it."""
    return ClockLink(
        address,
        secret,
        "bench",
        live.incarnation,
        live,
        lease_ok=lambda: True,
        metrics=LinkMetrics(CollectorRegistry()),
    )


class _Table:
    """A match in which a command follows each decision at once."""

    verdicts = 0

    def __init__(self, live: LiveTime, link: ClockLink) -> None:
        self._live = live
        self._link = link
        self._key = m.Key(str(uuid4()), 1, 0)
        self._command_id = ""

    def go_on(self) -> None:
        """The next decision, and its answer in the next turn of the loop."""
        self._key = self._key._replace(decision_no=self._key.decision_no + 1)
        now = self._live.starting()
        stamps = (now.at_ns, now.raw_ns, now.mark_ns, now.gap_total_ns)
        self._link.open(m.Open(self._key, m.OpenCause.NEW, NORTH, "turn", *stamps, BANK, DELAY), self)
        asyncio.get_running_loop().call_soon(self._arrive)

    def _arrive(self) -> None:
        heard = self._live.heard()
        self._command_id = uuid4().hex
        stamps = (heard.at_ns, heard.raw_ns, heard.gap_total_ns)
        self._link.arrive(m.Arrival(self._key, self._command_id, *stamps, Effect.ENDS))

    def on_verdict(self, verdict: m.Verdict) -> None:
        """Committed at once."""
        _Table.verdicts += 1
        self._link.applied(verdict.key, verdict.command_id, 1)
        self.go_on()

    def on_probe(self, probe: m.Probe, watermark_ns: int) -> None:
        """Only a machine that stands still comes here."""
        self._link.probe_reply(probe.key, probe.probe_no, watermark_ns)

    def on_armed(self, armed: m.Armed) -> None:
        """As it was asked."""

    def _must_not_be(self, message: object) -> None:
        raise SystemExit(f"the clock said {message}")

    on_timeout = on_void = on_stale = on_mismatch = _must_not_be


async def closed_loop(
    live: LiveTime, address: str, secret: str, pid: int, matches: int, seconds: float
) -> tuple[int, float, float, float]:
    """Matches, verdicts a second, and microseconds of processor time a command: of the clock, and of link and table."""
    link = new_link(address, live, secret)
    running = asyncio.create_task(link.run())
    try:
        while not link.attached:  # noqa: ASYNC110 - a bench may look
            await asyncio.sleep(0.01)
        for _ in range(matches):
            _Table(live, link).go_on()
        await asyncio.sleep(WARMUP_SECONDS)
        began, first = time.perf_counter(), _Table.verdicts
        clock, here = processor_seconds(pid), time.process_time()
        await asyncio.sleep(seconds)
        clock, here = processor_seconds(pid) - clock, time.process_time() - here
        count = max(1, _Table.verdicts - first)
        return matches, count / (time.perf_counter() - began), clock / count * 1e6, here / count * 1e6
    finally:
        running.cancel()
        await asyncio.wait([running])


class _Alone:
    """A timekeeper without a stream."""

    def __init__(self, matches: int, pid: int) -> None:
        self.now = time.monotonic_ns()
        self.keeper = Timekeeper("bench", m.Policy(), lambda: str(uuid4()))
        self.keeper.handle("s", self._hello(1), self.now)
        before = resident_megabytes(pid)
        opened = [self._open(number) for number in range(matches)]
        self.heard(opened)
        self.kib = (resident_megabytes(pid) - before) * 1024 / matches
        self.opened = opened

    def _hello(self, attach_no: int, opened: Sequence[m.Open] = ()) -> m.Hello:
        stamps = (self.now, self.now, "v1")
        return m.Hello("bench", "i", attach_no, "timeline", "boottime", *stamps, open=tuple(opened))

    def _open(self, number: int) -> m.Open:
        at = self.now + number
        key = m.Key(str(uuid4()), 1, 1)
        return m.Open(key, m.OpenCause.NEW, NORTH, "turn", at, at, at, 0, BANK, DELAY)

    def heard(
        self, messages: Sequence[m.EngineMessage], session: str = "s", together: int = TOGETHER
    ) -> None:
        """From the bytes of a request to those of its answer."""
        for first in range(0, len(messages), together):
            sent = wire.request_to_pb(messages[first : first + together]).SerializeToString()
            said = []
            for message in wire.request_from_pb(pb.GovernRequest.FromString(sent)):
                said += self.keeper.handle(session, message, self.now)
            told = [one for _, one in said if isinstance(one, m.Verdict)]
            wire.response_to_pb(told).SerializeToString()
            self.keeper.next_deadline()

    def moves(self) -> None:
        """One in each match: the command, then the next decision."""
        self.heard(
            [
                m.Arrival(each.key, uuid4().hex, each.start_ns + 1, each.start_ns + 1, 0, Effect.ENDS)
                for each in self.opened
            ]
        )
        self.opened = [
            m.Open(
                each.key._replace(decision_no=each.key.decision_no + 1),
                m.OpenCause.NEW,
                NORTH,
                "turn",
                *((each.start_ns + 2,) * 3),
                0,
                BANK,
                DELAY,
            )
            for each in self.opened
        ]
        self.heard(self.opened)

    def gap(self) -> None:
        """The engine tells of one."""
        size = 60_000_000
        gap = m.Gap(self.now, self.now + size, "stall")
        self.keeper.handle("s", m.Pong(1, self.now, self.now, True, size, (gap,)), self.now)

    def attach(self) -> None:
        """A new session says all that is open, in one message."""
        self.keeper.detach("s", self.now)
        again = [each.again(m.OpenCause.REATTACH, self.now) for each in self.opened]
        self.heard([self._hello(2, again)], "s2")


def grown(matches: int, pid: int) -> tuple[Cell, ...]:
    """Matches, KiB each with its Open on both sides, microseconds a move, milliseconds of a gap and of a new session."""
    alone = _Alone(matches, pid)
    return (
        matches,
        alone.kib,
        _took(alone.moves) / matches * 1e6,
        _took(alone.gap) * 1e3,
        _took(alone.attach) * 1e3,
    )


def _took(work: Callable[[], None]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
