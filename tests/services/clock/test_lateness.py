"""What keeps a loss on time from coming late: a deadline counted from the newest stamp, a probe that is heard out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest

from engine.clock import MILLISECOND, SECOND
from services.game.livetime import QUIET_NS, LiveTime
from services.wire import clock_messages as m
from tests.services.clock.desk import Desk, only
from tests.services.clock.engines import Room, new_link

BUSY = 40 * MILLISECOND
MICROSECOND = 1_000


@pytest.mark.parametrize("cause", [m.OpenCause.NEW, m.OpenCause.REATTACH])
def test_a_deadline_is_counted_from_the_newest_stamp_of_its_message(cause: m.OpenCause) -> None:
    """A process that was busy until it opened a decision has an old mark and a new start; one that attaches again has
    an old start and a new mark. The timer is set by the newer, so it is neither early nor late by the work before."""
    desk = Desk()
    desk.attach()
    opened = desk.opened(cause=cause)
    behind = "mark_ns" if cause is m.OpenCause.NEW else "start_ns"
    opened = replace(opened, **{behind: getattr(opened, behind) - BUSY})
    deadline = only(m.Armed, desk.say(opened)).deadline_ns
    assert desk.advance(deadline - desk.now - 1) == []
    assert only(m.Probe, desk.advance(1)).deadline_ns == deadline


@dataclass
class Engine:
    """A link without a loop: time passes, and what is put off is done, when the test says so."""

    now: int = 1_000 * SECOND
    later: list[tuple[int, Callable[[], None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.live = LiveTime("test", read=lambda: self.now)
        self.link = new_link("127.0.0.1:1", self.live)
        self.link.later = lambda seconds, call: self.later.append((self.now + round(seconds * SECOND), call))
        self.room = Room(self.link, self.live)
        self.marks: list[int] = []
        self.room.on_probe = self._on_probe  # type: ignore[method-assign]

    def _on_probe(self, probe: m.Probe, watermark_ns: int) -> None:
        self.marks.append(watermark_ns)

    def work(self, until: int) -> None:
        """The loop is busy, and its timers ring."""
        while self.later and self.later[0][0] <= until:
            at, call = self.later.pop(0)
            self.now = max(self.now, at)
            call()
        self.now = max(self.now, until)

    def probe(self, opened: m.Open) -> m.Probe:
        """The clock asks."""
        probe = m.Probe(opened.key, 1, opened.start_ns + opened.delay_ns + opened.bank_ns)
        self.link._hear(probe)
        return probe


def test_a_probe_is_answered_when_its_deadline_has_been_lived_through() -> None:
    """An answer with an older mark would only be asked for again, a trip and a timer later."""
    engine = Engine()
    probe = engine.probe(engine.room.open(bank_ms=0, delay_ms=30))
    engine.work(probe.deadline_ns + 3 * MILLISECOND)  # busy: its mark is still before the deadline
    assert engine.marks == []
    engine.live.idle(engine.now)
    engine.work(engine.now + MILLISECOND)
    assert engine.marks == [probe.deadline_ns + 3 * MILLISECOND]


def test_probes_behind_a_stall_leave_the_loop_quiet_enough_to_be_found_idle() -> None:
    """R3, I14: a gap ends in the first quiet moment after a stall; what waits for that must not put it off."""
    engine = Engine()
    rooms = [engine.room, *(Room(engine.link, engine.live, f"m{number}") for number in range(2, 9))]
    opened = [room.open(bank_ms=0, delay_ms=30) for room in rooms]
    engine.now += 300 * MILLISECOND  # a stall, and nothing has been idle since
    for each in opened:
        engine.probe(each)
        engine.now += 170 * MICROSECOND
    woken = set()
    for _ in range(200):
        engine.later.sort(key=lambda put_off: put_off[0])
        at, call = engine.later.pop(0)
        woken.add(at)
        engine.now = at
        call()
    assert min(after - before for before, after in pairwise(sorted(woken))) > QUIET_NS


def test_a_process_that_is_never_idle_answers_with_what_it_has() -> None:
    """The clock must not take silence for a fault of the process, and there is no forfeit in it."""
    engine = Engine()
    mark = engine.live.mark()
    engine.probe(engine.room.open(bank_ms=0, delay_ms=30))
    engine.work(engine.now + SECOND)
    assert engine.marks == [mark]


def test_a_decision_that_is_over_is_not_asked_about_any_more() -> None:
    """A command came while the probe was heard out."""
    engine = Engine()
    opened = engine.room.open(bank_ms=0, delay_ms=30)
    probe = engine.probe(opened)
    engine.room.open(2)
    engine.live.idle(probe.deadline_ns)
    engine.work(probe.deadline_ns + SECOND)
    assert engine.marks == []


def test_a_deadline_that_has_been_lived_through_is_answered_at_once() -> None:
    """Behind everything that was heard, and not a turn of the loop later."""
    engine = Engine()
    opened = engine.room.open(bank_ms=0, delay_ms=30)
    engine.now = opened.start_ns + 31 * MILLISECOND
    engine.live.idle(engine.now)
    engine.probe(opened)
    assert (engine.marks, engine.later) == ([engine.now], [])
