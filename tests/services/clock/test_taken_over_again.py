"""A turn that changes hands more than once: no time of it is both used and credited, or credited twice."""

from __future__ import annotations

import pytest

from engine.clock import SECOND
from services.wire import clock_messages as m
from services.wire.clock_messages import OpenCause
from tests.services.clock.desk import Desk, arrival, only


@pytest.fixture
def desk() -> Desk:
    """A clock with one engine attached."""
    desk = Desk()
    desk.attach()
    return desk


def resume(desk: Desk, fence: int, *, attach_no: int = 1, outage: int = 0) -> m.Armed:
    """The engine with the number of the fence goes on with the turn, and is gone before it has answered a ping."""
    session = f"s{fence}.{attach_no}"
    hello = desk.hello(attach_no, engine_id=f"e{fence}", incarnation=f"i{fence}")
    opened = desk.opened(cause=OpenCause.RESUME, fence=fence, outage=outage)
    desk.keeper.handle(session, hello, desk.clock_now)
    said = desk.keeper.handle(session, opened, desk.clock_now)
    desk.keeper.detach(session, desk.clock_now)
    return only(m.Armed, [message for _, message in said])


def counted(armed: m.Armed) -> int:
    """All time of the turn, as the clock has it."""
    return armed.consumed_ns + armed.credited_ns


def test_a_proof_from_before_its_part_of_the_turn_credits_nothing_again(desk: Desk) -> None:
    """Fault 14: the second owner was paused when it took the match up, and speaks of it long after its last beat."""
    desk.attach("s2.1", engine_id="e2", incarnation="i2")
    desk.advance(SECOND)
    desk.keeper.detach("s2.1", desk.clock_now)
    desk.say(desk.opened())
    desk.advance(4 * SECOND)
    desk.keeper.detach("s1", desk.clock_now)
    desk.advance(10 * SECOND)
    assert counted(resume(desk, 2, attach_no=2)) == 14 * SECOND
    desk.advance(5 * SECOND)
    assert counted(resume(desk, 3)) == 19 * SECOND


def test_what_was_used_until_a_command_came_is_not_credited(desk: Desk) -> None:
    """Fault 16: it came after the last beat, was judged, and its owner died before the commit."""
    opened = desk.opened()
    desk.say(opened)
    desk.advance(4 * SECOND + SECOND // 10)
    only(m.Verdict, desk.say(arrival(opened, desk.now)))
    desk.keeper.detach("s1", desk.clock_now)
    desk.advance(9 * SECOND)
    armed = resume(desk, 2)
    assert (armed.consumed_ns, armed.credited_ns) == (4 * SECOND + SECOND // 10, 9 * SECOND)


def test_an_owner_without_a_proof_was_not_away_before_it_came(desk: Desk) -> None:
    """Fault 9: its lease is older than the part of the turn that it opened."""
    desk.say(desk.opened())
    desk.advance(4 * SECOND)
    desk.keeper.detach("s1", desk.clock_now)
    desk.advance(10 * SECOND)
    assert counted(resume(desk, 2)) == 14 * SECOND
    desk.advance(3 * SECOND)
    assert counted(resume(desk, 3, outage=8 * SECOND)) == 17 * SECOND
