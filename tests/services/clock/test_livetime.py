"""Live time: stamps are the last idle instant, and time without one is a gap."""

from __future__ import annotations

import asyncio
import os
import selectors
import signal
import statistics
import subprocess
import sys
import time
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.clock import MILLISECOND, SECOND
from services.game.livetime import (
    QUIET_NS,
    SLACK_NS,
    TICK_NS,
    TICK_SECONDS,
    TURNS,
    IdleSelector,
    LiveTime,
    new_event_loop,
)
from tests.services.clock.engines import run_live
from tests.services.clock.standstill import Kernel, serving

Ready: TypeAlias = list[tuple[selectors.SelectorKey, int]]


class Waits(selectors.SelectSelector):
    """Each wait lasts as long as asked and what is said here, and finds nothing; the last one finds something."""

    def __init__(self, kernel: Kernel, *more_ns: int) -> None:
        super().__init__()
        self._kernel = kernel
        self._more_ns = list(more_ns)
        self._found = self.register(0, selectors.EVENT_READ)
        self.marks: list[int] = []
        """Of live time, as each began."""

    def select(self, timeout: float | None = None) -> Ready:
        assert timeout is not None
        if timeout == 0:
            return []
        self.marks.append(self._kernel.live.mark())
        self._kernel.now += int(timeout * SECOND) + self._more_ns.pop(0)
        return [] if self._more_ns else [(self._found, selectors.EVENT_READ)]


def test_a_stamp_is_the_last_idle_instant_not_now() -> None:
    kernel = Kernel()
    kernel.wait(4 * MILLISECOND)
    idle_at = kernel.now
    kernel.work(9 * MILLISECOND)
    assert kernel.live.heard().at_ns == idle_at
    assert kernel.live.heard().raw_ns == kernel.now
    assert kernel.live.soon() == kernel.now == kernel.live.starting().at_ns


@pytest.mark.parametrize(
    ("busy_ns", "gap_ns"),
    [
        (10 * MILLISECOND, 0),
        (49 * MILLISECOND, 0),
        (50 * MILLISECOND, 0),
        (50 * MILLISECOND + 1, 50 * MILLISECOND + 1),
        (500 * MILLISECOND, 500 * MILLISECOND),
        (29 * SECOND, 29 * SECOND),
    ],
)
def test_a_stretch_over_fifty_milliseconds_is_a_gap_as_a_whole(busy_ns: int, gap_ns: int) -> None:
    """Rule R3; scenario 16."""
    kernel = Kernel()
    kernel.wait(TICK_NS)
    before = kernel.live.mark()
    kernel.work(busy_ns)
    kernel.wait(TICK_NS)
    assert kernel.live.gap_total_ns == gap_ns
    assert kernel.live.mark() == before + busy_ns - gap_ns + TICK_NS
    gaps, seen = kernel.live.gaps_since(0)
    assert [(gap.size_ns, gap.cause) for gap in gaps] == ([(gap_ns, "stall")] if gap_ns else [])
    assert kernel.live.gaps_since(seen) == ((), seen)


def test_a_pause_in_a_wait_counts_as_waiting_only_up_to_its_bound() -> None:
    """Scenario 21 too: a suspended host is a jump of the kernel clock during a wait."""
    kernel = Kernel()
    kernel.wait(TICK_NS)
    before = kernel.live.mark()
    kernel.wait(10 * SECOND)
    assert kernel.live.mark() == before + TICK_NS + SLACK_NS
    kernel.wait(TICK_NS)
    assert kernel.live.mark() == before + TICK_NS + SLACK_NS + TICK_NS
    gaps, _ = kernel.live.gaps_since(0)
    assert [(gap.size_ns, gap.cause) for gap in gaps] == [(10 * SECOND - TICK_NS - SLACK_NS, "oversleep")]


def test_ticks_keep_live_time_going_without_waking_the_loop() -> None:
    kernel = Kernel()
    began, waits = kernel.now, Waits(kernel, *[0] * 11)
    assert IdleSelector(waits, kernel.live).select(1.0)
    assert waits.marks == [began + tick * TICK_NS for tick in range(11)]
    assert kernel.live.mark() == kernel.now == began + 11 * TICK_NS


@pytest.mark.parametrize("ticks", [0.5, 1, 3.5])
def test_a_wait_ends_when_its_time_is_up(ticks: float) -> None:
    kernel = Kernel()
    began = kernel.now
    assert IdleSelector(Waits(kernel, *[0] * 11), kernel.live).select(ticks * TICK_SECONDS) == []
    assert kernel.live.mark() == kernel.now == began + ticks * TICK_NS


def test_a_pause_in_any_tick_is_dated_to_that_tick_and_ends_the_wait() -> None:
    """Scenario 18: what waits to be read since then is read before anything counts as idle again."""
    kernel = Kernel()
    began = kernel.now
    selector = IdleSelector(Waits(kernel, 0, 0, 10 * SECOND, 0, 0), kernel.live)
    assert selector.select(1.0) == []
    assert kernel.live.mark() == began + 3 * TICK_NS + SLACK_NS
    assert selector.select(1.0)
    (gap,), _ = kernel.live.gaps_since(0)
    assert (gap.size_ns, gap.cause) == (10 * SECOND - SLACK_NS, "oversleep")


@pytest.mark.parametrize("frozen", [False, True], ids=["stalled", "frozen"])
def test_what_is_opened_behind_a_stall_begins_when_the_stall_is_over(frozen: bool) -> None:
    """Rule R23: a stall is a decision's gap only while the decision is open."""
    kernel = Kernel()
    kernel.wait(TICK_NS)
    before = kernel.live.mark()
    if frozen:
        kernel.live.freeze("test")
    kernel.work(29 * SECOND)
    opened = kernel.live.starting()
    assert opened.at_ns == opened.mark_ns == before == kernel.live.soon()
    kernel.work(400 * MILLISECOND)
    assert kernel.live.heard().at_ns == opened.at_ns
    if frozen:
        kernel.live.thaw()
    kernel.wait(TICK_NS)
    heard = kernel.live.heard()
    # The player had this tick, no more and no less, and is credited with what passed since it was opened.
    assert heard.at_ns == opened.at_ns + TICK_NS
    assert heard.gap_total_ns - opened.gap_total_ns == 400 * MILLISECOND
    assert heard.raw_ns - opened.raw_ns == TICK_NS + 400 * MILLISECOND


def test_a_backlog_is_dated_to_the_start_of_the_stall_behind_which_it_waited() -> None:
    """Scenario 17: between two messages that had both arrived long ago the loop waits for a few microseconds."""
    kernel = Kernel()
    kernel.wait(TICK_NS)
    before = kernel.live.mark()
    kernel.work(400 * MILLISECOND)
    for _ in range(200):
        assert kernel.live.heard().at_ns == before
        kernel.wait(QUIET_NS // 10)
        kernel.work(QUIET_NS // 2)
    kernel.wait(TICK_NS)
    assert kernel.live.mark() == before + TICK_NS
    kernel.wait(QUIET_NS // 10)
    assert kernel.live.mark() == before + TICK_NS + QUIET_NS // 10


def test_load_without_end_behind_a_stall_cannot_stop_live_time() -> None:
    """Scenario 45: a flood that leaves no quiet is waited for as long as the stall took, not longer."""
    kernel = Kernel()
    kernel.work(100 * MILLISECOND)
    before = kernel.live.mark()
    for _ in range(5000):
        kernel.wait(QUIET_NS // 10)
        kernel.work(QUIET_NS // 2)
    assert kernel.live.gap_total_ns <= 201 * MILLISECOND
    assert kernel.live.mark() > before + SECOND


def test_a_throttled_processor_costs_nobody_and_is_worth_no_credit() -> None:
    """Scenario 19: many stalls of 40 ms. Each is below the threshold, and what comes in one is dated to its start: a
    command that reached the process in time is in time, and nothing is credited."""
    kernel = Kernel()
    for _ in range(500):
        kernel.wait(3 * MILLISECOND)
        arrived = kernel.now
        kernel.work(40 * MILLISECOND)
        # Read at the end of the stall in which it came.
        assert kernel.live.heard().at_ns <= arrived
    assert kernel.live.gap_total_ns == 0
    # Between two stalls live time has kept up: nobody plays on for free either.
    kernel.wait(3 * MILLISECOND)
    assert kernel.live.mark() == kernel.now


def test_a_flood_alone_is_no_stall() -> None:
    kernel = Kernel()
    for _ in range(2000):
        kernel.wait(QUIET_NS // 100)
        kernel.work(40 * MILLISECOND)
    assert kernel.live.gap_total_ns == 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["work", "wait", "turn", "turns"]),
            st.one_of(st.integers(0, 2 * MILLISECOND), st.integers(0, SECOND)),
        ),
        max_size=60,
    )
)
def test_live_time_never_goes_back_never_outruns_the_kernel_and_stands_in_gaps(
    steps: list[tuple[str, int]],
) -> None:
    """Invariant I9."""
    kernel = Kernel()
    began = last = kernel.live.mark()
    for what, ns in steps:
        if what == "work":
            kernel.work(ns)
        elif what == "turn":
            kernel.turn(ns)
        elif what == "turns":
            for _ in range(TURNS + 2):
                kernel.turn(ns // TURNS)
        else:
            kernel.wait(ns)
        mark = kernel.live.mark()
        assert last <= mark <= kernel.live.soon()
        assert mark <= kernel.now - kernel.live.gap_total_ns
        last = mark
    gaps, _ = kernel.live.gaps_since(0)
    assert sum(gap.size_ns for gap in gaps) == kernel.live.gap_total_ns
    assert last - began <= kernel.now - 1_000 * SECOND - kernel.live.gap_total_ns


def test_a_kernel_clock_that_goes_back_is_reported_at_once() -> None:
    times = iter([5, 7, 6])
    regressions: list[tuple[int, int]] = []
    live = LiveTime(read=lambda: next(times), on_regression=lambda was, now: regressions.append((was, now)))
    assert live.raw() == 7
    live.raw()
    assert regressions == [(7, 6)]


def test_a_kernel_clock_that_goes_back_ends_the_process() -> None:
    """Scenario 25, rule R1: nobody can catch it."""
    program = (
        "from services.game.livetime import LiveTime\n"
        "times = iter([7, 6])\n"
        "live = LiveTime(read=lambda: next(times))\n"
        "try:\n    live.raw()\nexcept BaseException:\n    pass\nprint('went on')"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (70, "")
    assert "went back" in ended.stderr


def test_the_name_of_the_timeline_is_new_with_each_incarnation() -> None:
    first, second = LiveTime(), LiveTime()
    assert first.timeline_id != second.timeline_id
    assert first.timeline_id.endswith(first.incarnation)


def test_an_idle_loop_keeps_live_time_going_without_any_timer() -> None:
    async def main(live: LiveTime) -> None:
        await asyncio.sleep(0)
        began, raw = live.mark(), live.raw()
        await asyncio.get_running_loop().run_in_executor(None, time.sleep, 0.3)
        assert live.raw() - raw >= 300 * MILLISECOND
        passed = live.mark() - began + live.gap_total_ns
        assert passed >= live.raw() - raw - 100 * MILLISECOND

    run_live(main)


def test_timers_and_callbacks_come_as_on_any_loop() -> None:
    async def main(_: LiveTime) -> None:
        loop = asyncio.get_running_loop()
        order: list[str] = []
        loop.call_later(0.02, order.append, "timer")
        loop.call_soon(order.append, "soon")
        began = loop.time()
        await asyncio.sleep(0.05)
        assert loop.time() - began >= 0.049
        assert order == ["soon", "timer"]

    run_live(main)


@pytest.mark.parametrize("way", ["unary", "stream"])
def test_commands_sent_while_the_loop_stands_still_are_stamped_at_its_start(way: str) -> None:
    """Rule R3, FC-05 (b): a real gRPC server, blocked for 300 ms, with commands from another process meanwhile."""
    live = LiveTime()

    async def main(_: LiveTime) -> tuple[int, list[int]]:
        stalled_at: list[int] = []
        stamps: list[int] = []
        done = asyncio.Event()

        def hear(message: bytes) -> None:
            stamp = live.heard()
            if message == b"stall":
                stalled_at.append(stamp.raw_ns)
                time.sleep(0.3)
            elif message == b"end":
                done.set()
            elif message.isdigit():
                stamps.append(stamp.at_ns)

        async with serving(hear) as port:
            client = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.services.clock.burst", f"127.0.0.1:{port}", way, "60"
            )
            async with asyncio.timeout(30):
                await done.wait()
                assert await client.wait() == 0
        return stalled_at[0], stamps

    stalled_at, stamps = run_live(main, live)
    assert len(stamps) == 60
    late = [stamp - stalled_at for stamp in stamps]
    # A naive "now" would be 200 to 300 ms late for every one of them. On a busy machine the thread that hands the
    # messages over may be held up itself, and looks like the end of the backlog.
    assert statistics.median(late) < 50 * MILLISECOND
    assert max(late) < 100 * MILLISECOND


STOPPED = """
import asyncio, sys
from services.game.livetime import LiveTime, new_event_loop
live = LiveTime()
async def main():
    print("running", flush=True)
    while live.gap_total_ns < 300_000_000:
        await asyncio.sleep(0.01)
    gaps, _ = live.gaps_since(0)
    largest = max(gaps, key=lambda gap: gap.size_ns)
    print(largest.size_ns, largest.cause, flush=True)
with asyncio.Runner(loop_factory=lambda: new_event_loop(live)) as runner:
    runner.run(main())
"""


def test_a_stopped_process_finds_the_gap_when_it_goes_on() -> None:
    """Scenario 18: SIGSTOP in the middle of a wait."""
    with subprocess.Popen([sys.executable, "-c", STOPPED], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "running\n"
            time.sleep(0.1)
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            time.sleep(0.5)
            process.send_signal(signal.SIGCONT)
            size, cause = process.stdout.readline().split()
            assert 400 * MILLISECOND < int(size) < 5 * SECOND
            assert cause == "oversleep"
        finally:
            process.kill()


def test_the_loop_closes_cleanly() -> None:
    loop = new_event_loop(LiveTime())
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
    assert loop.is_closed()
