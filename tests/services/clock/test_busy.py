"""Live time of a process that is busy all the time: it has heard what came some turns of its loop ago."""

from __future__ import annotations

import asyncio
import statistics
import sys

import pytest

from engine.clock import MILLISECOND
from services.game.livetime import HANDED_NS, TICK_NS, TURNS, LiveTime, kernel_now
from tests.services.clock.engines import run_live
from tests.services.clock.standstill import Kernel, serving


@pytest.mark.parametrize("turn_ns", [HANDED_NS // 1000, MILLISECOND, 20 * MILLISECOND, 50 * MILLISECOND])
def test_a_process_that_is_always_busy_has_heard_what_came_some_turns_ago(turn_ns: int) -> None:
    """Nobody is credited for its being busy, and nothing that came in the last turns is dated after it came."""
    kernel = Kernel()
    kernel.wait(TICK_NS)
    lag = max(TURNS * turn_ns, HANDED_NS)
    for _ in range(2 * lag // turn_ns):
        kernel.turn(turn_ns)
    before = kernel.live.mark()
    for _ in range(1000):
        kernel.turn(turn_ns)
        assert 0 < kernel.now - kernel.live.mark() - lag <= turn_ns
        assert kernel.live.soon() == kernel.live.starting().at_ns == kernel.now
        assert kernel.live.unheard_ns() <= 50 * MILLISECOND
    assert kernel.live.gap_total_ns == 0
    assert kernel.live.mark() == before + 1000 * turn_ns
    # Found with nothing to do, it has heard everything.
    kernel.wait(0)
    assert kernel.live.mark() == kernel.now
    assert kernel.live.gap_total_ns == 0


def test_few_turns_prove_nothing_however_long_ago_they_were() -> None:
    kernel = Kernel()
    kernel.wait(TICK_NS)
    before = kernel.live.mark()
    for _ in range(TURNS):
        kernel.turn(20 * MILLISECOND)
    assert kernel.live.mark() == before


@pytest.mark.parametrize("quiet", [False, True])
def test_a_stall_between_two_turns_is_a_gap_from_the_turn_before_it(quiet: bool) -> None:
    """Scenario 16, under load: what comes in the stall, or waits behind it, is dated to before it."""
    kernel = Kernel()
    kernel.wait(TICK_NS)
    for _ in range(100):
        kernel.turn(5 * MILLISECOND)
    kernel.turn(400 * MILLISECOND)
    stalled_at = kernel.now - 400 * MILLISECOND
    opened = kernel.live.starting()
    assert opened.at_ns == stalled_at
    turns = 0
    while kernel.live.gap_total_ns == 0:
        assert kernel.live.heard().at_ns <= stalled_at
        assert kernel.live.starting().at_ns == stalled_at
        assert kernel.live.unheard_ns() == kernel.now - stalled_at
        kernel.turn(5 * MILLISECOND)
        turns += 1
        if quiet and turns == 20:
            kernel.wait(TICK_NS)
    # Waited for as long as it lasted, when there was no quiet before.
    gap_ns = (400 + 5 * 20 if quiet else 2 * 400) * MILLISECOND
    (gap,), _ = kernel.live.gaps_since(0)
    assert (gap.from_raw_ns, gap.size_ns) == (stalled_at, gap_ns)
    heard = kernel.live.heard()
    # Who moves at once is credited with all of it that was after the turn was opened, and charged nothing.
    assert heard.at_ns - opened.at_ns <= TICK_NS
    assert heard.gap_total_ns - opened.gap_total_ns == gap_ns - 400 * MILLISECOND
    for _ in range(100):
        kernel.turn(5 * MILLISECOND)
    assert kernel.live.gap_total_ns == gap_ns


def test_turns_taken_while_players_could_not_reach_us_do_not_count() -> None:
    kernel = Kernel()
    kernel.wait(TICK_NS)
    before = kernel.live.mark()
    kernel.live.freeze("test")
    for _ in range(1000):
        kernel.turn(5 * MILLISECOND)
    assert kernel.live.mark() == kernel.live.soon() == before
    kernel.live.thaw()
    thawed_at = kernel.now
    for _ in range(TURNS + 1):
        kernel.turn(5 * MILLISECOND)
    (gap,), _ = kernel.live.gaps_since(0)
    assert (gap.from_raw_ns, gap.to_raw_ns, gap.cause) == (before, thawed_at, "test")


@pytest.mark.parametrize("way", ["unary", "stream"])
def test_a_server_that_is_always_busy_dates_nothing_after_it_was_sent(way: str) -> None:
    """A real gRPC server whose loop has no idle instant, with turns of 3 ms, and commands that say when they were sent."""
    live = LiveTime()

    async def main(_: LiveTime) -> tuple[list[int], int]:
        late: list[int] = []
        begun, done = asyncio.Event(), asyncio.Event()

        def hear(message: bytes) -> None:
            stamp = live.heard()
            if message == b"busy":
                begun.set()
            elif message == b"end":
                done.set()
            elif message.isdigit():
                late.append(stamp.at_ns - int(message))

        async with serving(hear) as port:
            client = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.services.clock.burst", f"127.0.0.1:{port}", f"busy-{way}", "30"
            )
            async with asyncio.timeout(30):
                await begun.wait()
                before = live.mark()
                while not done.is_set():
                    until = kernel_now() + 3 * MILLISECOND
                    while kernel_now() < until:
                        pass
                    await asyncio.sleep(0)
                assert await client.wait() == 0
        return late, live.mark() - before

    late, lived = run_live(main, live)
    assert len(late) == 30
    # Each is sent when the one before was answered: dated early, by as much as a call takes that is on its way for some
    # turns. A single turn in place of them would date all calls late.
    assert statistics.median(late) < 0
    # Meanwhile live time went on, but for stalls of the machine, which are gaps.
    assert lived + live.gap_total_ns > 30 * 2 * 3 * MILLISECOND
