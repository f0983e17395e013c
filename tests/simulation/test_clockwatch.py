"""What the simulation takes for out of date must be out of date."""

from __future__ import annotations

import pytest

from engine.clock import MILLISECOND, SECOND
from engine.seats import Seat
from services.clock.timekeeper import Timekeeper
from services.wire import clock_messages as m
from tests.simulation import clockwatch
from tests.simulation.clockwatch import ClockWatch
from tests.simulation.world import World

KEY = m.Key("match", 1, 1)
OPENED = m.Open(KEY, m.OpenCause.REATTACH, Seat.NORTH, "bid", 0, 0, 0, 0, 2 * SECOND, SECOND, 0)
LATE_NS = 3 * SECOND
"""When its deadline is."""


def test_an_answer_to_another_clock_is_not_taken_for_the_one_before_this_clocks_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process still answers the second probe of its last clock, and this one has just sent its first."""
    monkeypatch.setattr(clockwatch, "REPEATED", 1.0)
    world = World(1)
    keeper = Timekeeper("clock", m.Policy(), lambda: "id")
    ClockWatch(world, keeper)
    keeper.handle("s", m.Hello("game", "game.1", 2, "t", "boottime", 0, 0, "v1", open=(OPENED,)), 0)
    asked = [said for _, said in keeper.expire(LATE_NS) if isinstance(said, m.Probe)]
    assert [probe.probe_no for probe in asked] == [1]

    said = keeper.handle("s", m.ProbeReply(KEY, 2, LATE_NS - MILLISECOND), LATE_NS)
    assert said == []
    assert not world.violations
    said = keeper.handle("s", m.ProbeReply(KEY, 1, LATE_NS), LATE_NS + MILLISECOND)
    assert [type(message) for _, message in said] == [m.Timeout]
    assert not world.violations
