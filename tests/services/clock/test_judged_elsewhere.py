"""A verdict that nobody is known to have stored, while the match goes on under another clock that judged otherwise."""

from __future__ import annotations

import pytest

from engine.clock import BANK, DELAY, SECOND
from services.wire import clock_messages as m
from services.wire.clock_messages import OpenCause
from tests.services.clock.desk import Desk, arrival, only

SPENT = 7 * SECOND


@pytest.fixture
def desk() -> Desk:
    """A clock that has judged the first decision, which took some of the bank, and has heard nothing of a commit."""
    desk = Desk()
    desk.attach()
    opened = desk.opened()
    desk.say(opened)
    desk.advance(DELAY + SPENT)
    verdict = only(m.Verdict, desk.say(arrival(opened, desk.now)))
    assert verdict.bank_after_ns == BANK - SPENT
    return desk


@pytest.mark.parametrize("bank", [BANK, BANK - SPENT + 1, BANK - SPENT, BANK - 2 * SPENT])
@pytest.mark.parametrize("cause", [OpenCause.RESUME, OpenCause.NEW])
def test_the_next_owner_says_what_was_stored(desk: Desk, cause: OpenCause, bank: int) -> None:
    """The first owner had lost the match already: the turn cost what another clock said to the second."""
    desk.say(m.Close("m1", 1, "not played here"))
    desk.attach("s2", engine_id="e2", incarnation="i2")
    only(m.Armed, desk.say(desk.opened(3, fence=3, cause=cause, bank=bank), "s2"))


@pytest.mark.parametrize("bank", [BANK, BANK - SPENT, BANK - 2 * SPENT])
def test_the_same_owner_says_what_another_clock_said(desk: Desk, bank: int) -> None:
    """It did not get the verdict, was judged elsewhere, and is back in the middle of a later decision or between two."""
    desk.attach("s2", attach_no=2)
    only(m.Armed, desk.say(desk.opened(3, bank=bank), "s2"))


@pytest.mark.parametrize("bank", [BANK, BANK - SPENT, BANK - 2 * SPENT])
def test_the_same_owner_is_back_in_a_later_decision(desk: Desk, bank: int) -> None:
    """The same, with the decision in what it says first."""
    only(m.Armed, desk.attach("s2", attach_no=2, opened=(desk.opened(3, bank=bank),)))


def test_a_bank_that_grew_is_a_contradiction_for_all_that(desk: Desk) -> None:
    """Whoever judged, nobody has more than the turn began with."""
    desk.attach("s2", engine_id="e2", incarnation="i2")
    heard = desk.say(desk.opened(3, fence=3, cause=OpenCause.RESUME, bank=BANK + 1), "s2")
    assert only(m.Mismatch, heard).field == "bank_ns"


def test_the_owner_that_goes_on_without_a_break_has_stored_it(desk: Desk) -> None:
    """Nobody else can have judged."""
    assert only(m.Mismatch, desk.say(desk.opened(3, bank=BANK))).field == "bank_ns"


def test_what_a_verdict_credited_counts_if_it_was_stored(desk: Desk) -> None:
    """Credit of a verdict that nobody stored is nobody's."""
    desk.attach("s2", engine_id="e2", incarnation="i2")
    resumed = desk.opened(2, fence=2, cause=OpenCause.RESUME, bank=BANK - SPENT, outage=25 * SECOND)
    desk.say(resumed, "s2")
    only(m.Verdict, desk.say(arrival(resumed, desk.now), "s2"))
    desk.attach("s3", engine_id="e3", incarnation="i3")
    later = desk.opened(
        3, fence=4, cause=OpenCause.RESUME, bank=BANK - SPENT, credited=20 * SECOND, outage=25 * SECOND
    )
    only(m.Armed, desk.say(later, "s3"))
    assert desk.keeper._matches["m1"].credited_ns == 20 * SECOND
