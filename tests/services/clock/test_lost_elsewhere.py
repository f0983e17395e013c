"""A timeout that one clock proved and nobody stored, while the match goes on under another clock."""

from __future__ import annotations

import pytest

from engine.clock import BANK, DELAY, SECOND
from services.wire import clock_messages as m
from services.wire.clock_messages import OpenCause
from tests.services.clock.desk import Desk, arrival, only, reply


@pytest.fixture
def desk() -> Desk:
    """A clock at which the first decision was lost three seconds ago, and whose engine never heard of that."""
    desk = Desk()
    desk.attach()
    deadline = only(m.Armed, desk.say(desk.opened())).deadline_ns
    probe = only(m.Probe, desk.advance(DELAY + BANK))
    only(m.Timeout, desk.say(reply(probe, deadline)))
    desk.advance(3 * SECOND)
    return desk


def test_a_draw_that_another_clock_judged_is_not_lost_when_it_goes_away(desk: Desk) -> None:
    """The next owner's player drew and the draw is stored: the turn goes on with what it has used."""
    drawn = desk.opened(fence=2, consumed=126 * SECOND)
    heard = desk.attach("s2", engine_id="e2", incarnation="i2", opened=(drawn,))
    assert only(m.Armed, heard).consumed_ns == 126 * SECOND
    only(m.Verdict, desk.say(arrival(drawn, desk.now + SECOND), "s2"))


def test_a_draw_that_another_clock_judged_is_not_lost_in_another_takeover(desk: Desk) -> None:
    """The owner that stored the draw died as well."""
    desk.attach("s2", engine_id="e2", incarnation="i2")
    resumed = desk.opened(fence=3, cause=OpenCause.RESUME, consumed=120 * SECOND)
    assert only(m.Armed, desk.say(resumed, "s2")).consumed_ns == 120 * SECOND


def test_a_turn_in_which_nothing_was_stored_since_stays_lost(desk: Desk) -> None:
    """Rule R21, also when another clock had let it go on."""
    armed = desk.opened(fence=2)
    heard = desk.attach("s2", engine_id="e2", incarnation="i2", opened=(armed,))
    assert only(m.Timeout, heard).key == armed.key
