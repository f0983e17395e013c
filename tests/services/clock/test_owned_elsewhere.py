"""A turn whose owner is followed by another, while the clock that remembers the first one governs nobody."""

from __future__ import annotations

import pytest

from engine.clock import SECOND
from services.wire import clock_messages as m
from services.wire.clock_messages import OpenCause, VoidReason
from tests.services.clock.desk import Desk, arrival, only

USED = 3 * SECOND


@pytest.fixture
def desk() -> Desk:
    """A clock that has heard an owner listen to the first decision for three seconds, and then no more for ten."""
    desk = Desk()
    desk.attach()
    desk.say(desk.opened())
    desk.advance(USED)
    desk.say(desk.pong())
    desk.keeper.detach("s1", desk.clock_now)
    desk.clock_now += 10 * SECOND
    return desk


def test_what_an_owner_between_listened_is_no_outage(desk: Desk) -> None:
    """It was governed by another clock for 25 seconds, and died as well."""
    desk.clock_now += (25 + 12) * SECOND
    desk.attach("s3", engine_id="e3", incarnation="i3")
    armed = only(m.Armed, desk.say(_resumed(desk, fence=3, outage=12 * SECOND), "s3"))
    # What it listened was proven to the other clock only, and is charged to nobody.
    assert (armed.consumed_ns, armed.credited_ns) == (USED, 12 * SECOND)


def test_an_outage_between_is_no_longer_than_since_the_owner_that_is_remembered(desk: Desk) -> None:
    """The lease was renewed a while before the last sign of listening."""
    desk.attach("s3", engine_id="e3", incarnation="i3")
    armed = only(m.Armed, desk.say(_resumed(desk, fence=3, outage=12 * SECOND), "s3"))
    assert armed.credited_ns == 10 * SECOND


def test_an_outage_that_was_too_long_voids_whoever_was_between(desk: Desk) -> None:
    """Rule R23."""
    desk.clock_now += 40 * SECOND
    desk.attach("s3", engine_id="e3", incarnation="i3")
    heard = desk.say(_resumed(desk, fence=3, outage=31 * SECOND), "s3")
    assert only(m.Void, heard).reason == VoidReason.GAP_TOO_LONG


def test_the_owner_that_follows_at_once_is_credited_with_all_since(desk: Desk) -> None:
    """Whatever the database says: this clock knows better."""
    desk.attach("s2", engine_id="e2", incarnation="i2")
    armed = only(m.Armed, desk.say(_resumed(desk, fence=2, outage=8 * SECOND), "s2"))
    assert (armed.consumed_ns, armed.credited_ns) == (USED, 10 * SECOND)


@pytest.mark.parametrize("consumed", [0, USED, 2 * USED])
@pytest.mark.parametrize("fence", [2, 3])
def test_what_another_clock_worked_out_for_the_next_owner_stands(
    desk: Desk, fence: int, consumed: int
) -> None:
    """Its player was told what is left, and then it listened for 25 seconds: they are no outage, and are charged."""
    opened = desk.opened(fence=fence, consumed=consumed)
    desk.clock_now += 25 * SECOND
    armed = only(m.Armed, desk.attach("s2", engine_id="e2", incarnation="i2", opened=(opened,)))
    assert (armed.consumed_ns, armed.credited_ns) == (consumed, 0)
    verdict = only(m.Verdict, desk.say(arrival(opened, desk.now), "s2"))
    assert verdict.elapsed_ns == consumed + 25 * SECOND


def _resumed(desk: Desk, *, fence: int, outage: int) -> m.Open:
    return desk.opened(fence=fence, cause=OpenCause.RESUME, outage=outage)
