"""How late the clock's timeouts come, with many decisions open, and what judging costs, on both event loops.

`python -m tests.bench.clock [--matches N ...] [--seconds S]`. The clock is a process of its own, as in production; the
engine of the bench opens decisions whose deadlines are spread over the time, answers every probe and half of the
decisions. Late is what passes from the deadline until the engine hears of the timeout, two trips included.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import uuid4

import grpc
import uvloop
from prometheus_client import CollectorRegistry

from engine.clock import MILLISECOND, SECOND, Effect
from engine.seats import NORTH
from services.clock.metrics import ClockMetrics
from services.clock.rpc import ClockRpc
from services.clock.timekeeper import Timekeeper
from services.common import logs
from services.common.gates import SecretGate
from services.common.guard import Guard
from services.common.metrics import RpcMetrics
from services.game.clock_client import ClockLink
from services.game.livetime import LiveTime, new_event_loop
from services.wire import clock_messages as m
from spectacularbid.internal.clock.v1.clock_service_pb2_grpc import add_ClockServiceServicer_to_server
from tests.bench.report import Cell, Report
from tests.bench.usage import pinned
from tests.bench.verdicts import closed_loop, grown, new_link

LOOPS = ("asyncio", "uvloop")
SECRET = "an internal secret of a bench"
T = TypeVar("T")
CLOSED = (1, 16, 100)
CLOSED_SECONDS = 2.0
GROWN = (1_000, 10_000, 50_000)


async def serve() -> None:
    """The clock without its surroundings: no database, no settings."""
    logs.configure("error")  # nobody reads them: the pipe would fill
    # As in the host of the process.
    guard = Guard(SecretGate(SECRET), RpcMetrics(CollectorRegistry()), bytes_max=1 << 24, write_seconds=None)
    server = grpc.aio.server(interceptors=[guard], options=[("grpc.max_receive_message_length", 1 << 24)])
    keeper = Timekeeper("bench", m.Policy(), lambda: str(uuid4()))
    add_ClockServiceServicer_to_server(ClockRpc(keeper, ClockMetrics(CollectorRegistry())), server)
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until the bench is gone
    await server.stop(0)


@dataclass
class Tally:
    """What the engine of the bench saw."""

    live: LiveTime
    link: ClockLink
    left: int
    late_ns: list[int] = field(default_factory=list)
    verdict_ns: list[int] = field(default_factory=list)
    asked_at: dict[str, int] = field(default_factory=dict)
    faults: int = 0
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def over(self) -> None:
        """One decision less."""
        self.left -= 1
        if self.left == 0:
            self.done.set()

    def on_armed(self, armed: m.Armed) -> None:
        """Nothing to see."""

    def on_verdict(self, verdict: m.Verdict) -> None:
        """A command was judged."""
        self.verdict_ns.append(time.monotonic_ns() - self.asked_at[verdict.command_id])
        self.link.applied(verdict.key, verdict.command_id, 1)
        self.over()

    def on_probe(self, probe: m.Probe, watermark_ns: int) -> None:
        """The room of the bench has nothing else to do."""
        self.link.probe_reply(probe.key, probe.probe_no, watermark_ns)

    def on_timeout(self, timeout: m.Timeout) -> None:
        """A decision was lost."""
        self.late_ns.append(self.live.raw() - self.live.gap_total_ns - timeout.deadline_ns)
        self.over()

    def on_void(self, void: m.Void) -> None:
        """Must not be."""
        self.faults += 1
        self.over()

    def on_stale(self, stale: m.Stale) -> None:
        """Must not be."""
        self.faults += 1

    def on_mismatch(self, mismatch: m.Mismatch) -> None:
        """Must not be."""
        self.faults += 1


async def measure(live: LiveTime, address: str, matches: int, seconds: float) -> Tally:
    """One run against a clock."""
    link = new_link(address, live, SECRET)
    tally = Tally(live, link, matches)
    running = asyncio.create_task(link.run())
    dice = random.Random(7)
    try:
        while not link.attached:  # noqa: ASYNC110 - a bench may look
            await asyncio.sleep(0.01)
        loop = asyncio.get_running_loop()
        for number in range(matches):
            wait = dice.uniform(2, seconds)
            opened = _open(live, f"m{number}", int(wait * SECOND))
            link.open(opened, tally)
            if number % 2:
                loop.call_later(dice.uniform(0.2, wait - 0.5), _arrive, tally, opened.key)
            if number % 10 == 9:
                # A burst would keep the loop from idling: its marks, and with them the timers, would be late.
                await asyncio.sleep(0.002)
        async with asyncio.timeout(seconds + 60):
            await tally.done.wait()
    finally:
        running.cancel()
        await asyncio.wait([running])
    return tally


def _open(live: LiveTime, match_id: str, delay_ns: int) -> m.Open:
    now = live.starting()
    return m.Open(
        key=m.Key(match_id, 1, 1),
        cause=m.OpenCause.NEW,
        seat=NORTH,
        kind="turn",
        start_ns=now.at_ns,
        start_raw_ns=now.raw_ns,
        mark_ns=now.mark_ns,
        gap_total_ns=now.gap_total_ns,
        bank_ns=0,
        delay_ns=delay_ns,
    )


def _arrive(tally: Tally, key: m.Key) -> None:
    heard = tally.live.heard()
    tally.asked_at[key.match_id] = time.monotonic_ns()
    tally.link.arrive(
        m.Arrival(key, key.match_id, heard.at_ns, heard.raw_ns, heard.gap_total_ns, Effect.ENDS)
    )


@contextmanager
def clock_process(loop_name: str) -> Iterator[tuple[int, int]]:
    """A clock on this loop: its port and process."""
    command = [sys.executable, "-m", "tests.bench.clock", "--serve", loop_name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as clock:
        try:
            assert clock.stdout is not None
            yield int(clock.stdout.readline()), clock.pid
        finally:
            clock.kill()


def run_live(work: Callable[[LiveTime], Coroutine[Any, Any, T]]) -> T:
    """On a loop like that of the game process."""
    live = LiveTime()
    with asyncio.Runner(loop_factory=lambda: new_event_loop(live)) as runner:
        return runner.run(work(live))


def late(loop_name: str, matches: int, seconds: float) -> tuple[Cell, ...]:
    """A row about timeouts and verdicts with so many decisions open."""
    with clock_process(loop_name) as (port, _):
        tally = run_live(lambda live: measure(live, f"127.0.0.1:{port}", matches, seconds))
    late_ns, verdicts = tally.late_ns, tally.verdict_ns
    return (
        f"{matches:,}, {loop_name}",
        len(late_ns),
        *(_at(late_ns, share) for share in (0.5, 0.99, 1)),
        sum(1 for ns in late_ns if ns < 0),
        len(verdicts),
        *(_at(verdicts, share) for share in (0.5, 0.99)),
        tally.faults,
    )


def closed(matches: int, seconds: float) -> tuple[int, float, float, float]:
    """A row about the cost of a command; clock and link on one core."""
    with pinned((min(os.sched_getaffinity(0)),)), clock_process("uvloop") as (port, pid):
        address = f"127.0.0.1:{port}"
        return run_live(lambda live: closed_loop(live, address, SECRET, pid, matches, seconds))


def _at(values: list[int], share: float) -> float | None:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] / MILLISECOND if values else None


def main() -> None:
    """Measures and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--matches", type=int, nargs="*", default=[10_000, 50_000], help="open decisions")
    parser.add_argument(
        "--seconds", type=float, default=8.0, help="over which the deadlines are spread, for 10,000"
    )
    parser.add_argument("--rounds", type=int, default=3, help="of closed loops; the best counts")
    parser.add_argument("--serve", choices=LOOPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        factory = uvloop.new_event_loop if options.serve == "uvloop" else None
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(serve())
        return
    logs.configure("error")
    report = Report("clock")
    rows = []
    for matches in CLOSED:
        report.progress(f"closed loops of {matches} matches …")
        rounds = [closed(matches, CLOSED_SECONDS) for _ in range(options.rounds)]
        rows.append(
            (
                matches,
                *(
                    best(column)
                    for best, column in zip((max, min, min), list(zip(*rounds, strict=True))[1:], strict=True)
                ),
            )
        )
    report.table(
        "Closed loops, clock and link on one core; microseconds of processor time a command",
        ("matches", "verdicts/s", "clock", "link and table"),
        rows,
    )
    report.ratio(
        "processor time of a verdict over the fixed piece of Python",
        rows[-1][2] / report.spin_us,
        better="lower",
    )
    report.table(
        "The clock alone, from bytes to bytes: what grows with its matches",
        ("matches", "KiB a match", "us a move", "ms a gap", "ms a new session"),
        [grown(matches, os.getpid()) for matches in GROWN],
    )
    lines = []
    for matches in options.matches:
        seconds = options.seconds * max(1, matches / 10_000)
        for loop_name in LOOPS if matches == options.matches[0] else ("uvloop",):
            report.progress(f"{matches} decisions, deadlines over {seconds:g} s, {loop_name} …")
            lines.append(late(loop_name, matches, seconds))
    if lines:
        report.table(
            "Milliseconds from a deadline until its engine hears of it, and from a command until its verdict",
            (
                "open, clock on",
                "timeouts",
                "p50",
                "p99",
                "max",
                "early",
                "verdicts",
                "p50 ",
                "p99 ",
                "faults",
            ),
            lines,
        )
    report.finish()


if __name__ == "__main__":
    main()
