"""The timekeeper through outages: credits, caps, takeovers, and what is void."""

from __future__ import annotations

from typing import Any

import pytest

from engine.clock import BANK, DELAY, RESUME_FLOOR, SECOND, Effect
from services.wire import clock_messages as m
from services.wire.clock_messages import OpenCause, VoidReason
from tests.services.clock.desk import Desk, Heard, arrival, only, reply


@pytest.fixture
def desk() -> Desk:
    """A clock with one engine attached."""
    desk = Desk()
    desk.attach()
    return desk


# Gaps


@pytest.mark.parametrize(("seconds", "void"), [(29, False), (30, False), (31, True)])
def test_one_gap_over_the_limit_voids(desk: Desk, seconds: int, void: bool) -> None:
    """Scenario 16, rule R23."""
    opened = desk.opened()
    desk.say(opened)
    desk.advance(SECOND)
    gap = m.Gap(desk.now, desk.now + seconds * SECOND, "stall")
    heard = desk.say(desk.pong(gap_total_ns=gap.size_ns, gaps=(gap,)))
    if void:
        assert only(m.Void, heard).reason == VoidReason.GAP_TOO_LONG
    else:
        assert heard == []


def test_a_decision_that_opened_late_in_a_long_gap_is_not_void(desk: Desk) -> None:
    """Rule R23: what lasted too long must have lasted while it was open."""
    before = desk.now
    desk.clock_now += 25 * SECOND
    desk.say(desk.opened())
    desk.clock_now += 10 * SECOND
    gap = m.Gap(before, desk.now, "stall")
    assert desk.say(desk.pong(gap_total_ns=gap.size_ns, gaps=(gap,))) == []


def test_a_long_gap_while_no_decision_is_open_voids_nothing(desk: Desk) -> None:
    """Fault 24; a decision that opened after it neither."""
    first = desk.opened(1)
    desk.say(first)
    desk.say(arrival(first, desk.now))
    desk.say(m.Applied(first.key, "c1", 1))
    gap = m.Gap(desk.now, desk.now + 40 * SECOND, "oversleep")
    desk.advance(41 * SECOND)
    second = desk.opened(2, gap_total=gap.size_ns)
    desk.say(second)
    assert desk.say(desk.pong(gap_total_ns=gap.size_ns, gaps=(gap,))) == []


def test_all_gaps_together_over_the_limit_void(desk: Desk) -> None:
    """Invariant I13, over several decisions."""
    total = 0
    for number in range(1, 4):
        opened = desk.opened(number, gap_total=total)
        desk.say(opened)
        total += 20 * SECOND
        gap = m.Gap(desk.now, desk.now + 20 * SECOND, "stall")
        assert desk.say(desk.pong(gap_total_ns=total, gaps=(gap,))) == []
        verdict = only(m.Verdict, desk.say(arrival(opened, desk.now, gap_total=total)))
        assert verdict.credited_ns == 20 * SECOND
    opened = desk.opened(4, gap_total=total)
    desk.say(opened)
    heard = desk.say(arrival(opened, desk.now, gap_total=total + 1))
    assert only(m.Void, heard).reason == VoidReason.CREDIT_SPENT


@pytest.mark.parametrize(("held", "void"), [(59, False), (60, False), (61, True)])
def test_a_command_that_waited_too_long_for_a_clock_voids(desk: Desk, held: int, void: bool) -> None:
    """Scenario 31."""
    opened = desk.opened()
    desk.say(opened)
    heard = arrival(opened, desk.now + SECOND)
    desk.keeper.detach("s1", desk.clock_now)
    desk.advance((1 + held) * SECOND)
    answer = desk.attach("s2", attach_no=2, opened=(opened,), pending=(heard,))
    if void:
        assert only(m.Void, answer).reason == VoidReason.HOLD_TOO_LONG
    else:
        only(m.Verdict, answer)


def test_a_timeout_that_could_not_be_proven_for_too_long_voids(desk: Desk) -> None:
    """Rule R23: a hold without a verdict."""
    opened = desk.opened()
    deadline = only(m.Armed, desk.say(opened)).deadline_ns
    probe = only(m.Probe, desk.advance(DELAY + BANK))
    heard = desk.say(reply(probe, deadline + 60 * SECOND + 1))
    assert only(m.Void, heard).reason == VoidReason.HOLD_TOO_LONG


@pytest.mark.parametrize("state", ["probing", "judged", "held"])
def test_an_engine_that_neither_answers_nor_commits_gets_a_void(desk: Desk, state: str) -> None:
    """Fault 11: nobody is charged meanwhile."""
    opened = desk.opened()
    desk.say(opened)
    if state == "probing":
        only(m.Probe, desk.advance(DELAY + BANK))
    else:
        effect = Effect.ENDS if state == "judged" else Effect.CONTINUES
        only(m.Verdict, desk.say(arrival(opened, desk.now, effect=effect)))
    assert desk.advance(60 * SECOND - 1) == []
    assert only(m.Void, desk.advance(1)).reason == VoidReason.HOLD_TOO_LONG


def test_a_hold_goes_on_over_a_reconnect(desk: Desk) -> None:
    opened = desk.opened()
    desk.say(opened)
    heard = arrival(opened, desk.now)
    only(m.Verdict, desk.say(heard))
    desk.advance(30 * SECOND)
    desk.keeper.detach("s1", desk.clock_now)
    desk.attach("s2", attach_no=2, opened=(opened,), pending=(heard,))
    assert desk.advance(30 * SECOND - 1) == []
    assert only(m.Void, desk.advance(1)).reason == VoidReason.HOLD_TOO_LONG


# Takeovers


def take_over(
    desk: Desk, number: int = 1, *, fence: int = 2, session: str = "s2", **opened: Any
) -> tuple[m.Open, list[Heard]]:
    """Another engine adopts the match; what it is told."""
    desk.attach(session, engine_id=f"e{fence}", incarnation=f"i{fence}")
    resumed = desk.opened(number, cause=OpenCause.RESUME, fence=fence, **opened)
    return resumed, desk.say(resumed, session)


def test_after_a_crash_only_proven_listening_is_charged(desk: Desk) -> None:
    """Rule R20, fault 9: up to the last beat."""
    opened = desk.opened()
    desk.say(opened)
    desk.advance(40 * SECOND)  # beats all the time
    proven = max(message.clock_ns for _, message in desk.told if isinstance(message, m.Ping))
    desk.keeper.detach("s1", desk.clock_now)
    desk.advance(9 * SECOND)
    resumed, heard = take_over(desk)
    armed = only(m.Armed, heard)
    used = proven - (opened.start_ns - desk.now + desk.clock_now)
    assert armed.consumed_ns == used
    assert armed.deadline_ns == resumed.start_ns + DELAY + BANK - used
    assert armed.credited_ns == desk.clock_now - proven


def test_a_stall_that_still_lasts_belongs_to_the_outage(desk: Desk) -> None:
    """Fault 14: an engine that was paused answers a ping before it has listened again; then its match is taken over."""
    opened = desk.opened()
    desk.say(opened)
    desk.clock_now += 12 * SECOND
    before = desk.now - 11 * SECOND
    desk.say(m.Pong(7, desk.now, before, True, 0))
    _, heard = take_over(desk)
    armed = only(m.Armed, heard)
    assert armed.consumed_ns == before - opened.start_ns
    assert armed.credited_ns == 11 * SECOND


def test_an_outage_is_credited_once(desk: Desk) -> None:
    """The same, but the engine has listened again without its lease and has told of its pause when it loses the match."""
    opened = desk.opened()
    desk.say(opened)
    desk.advance(SECOND)
    before = desk.now
    desk.clock_now += 25 * SECOND
    pause = m.Gap(before, desk.now, "oversleep")
    desk.say(m.Pong(7, desk.now, before, False, pause.size_ns, (pause,)))
    _, heard = take_over(desk)
    armed = only(m.Armed, heard)
    assert armed.consumed_ns + armed.credited_ns == 26 * SECOND
    assert armed.consumed_ns <= SECOND


def test_a_mark_without_proven_ownership_proves_no_consumption(desk: Desk) -> None:
    """Rule R5."""
    opened = desk.opened()
    desk.say(opened)
    desk.clock_now += 20 * SECOND
    desk.say(m.Pong(7, desk.now, desk.now, False, 0))
    _, heard = take_over(desk)
    assert only(m.Armed, heard).consumed_ns < SECOND


def test_at_least_the_floor_is_left_after_a_takeover(desk: Desk) -> None:
    """Scenario 33."""
    opened = desk.opened()
    deadline = only(m.Armed, desk.say(opened)).deadline_ns
    desk.advance(DELAY + BANK - 1)
    only(m.Verdict, desk.say(arrival(opened, deadline - 40)))
    desk.keeper.detach("s1", desk.clock_now)
    desk.advance(10 * SECOND)
    _, heard = take_over(desk)
    armed = only(m.Armed, heard)
    assert armed.remaining_ns == RESUME_FLOOR
    assert armed.credited_ns >= RESUME_FLOOR - 40


def test_the_floor_is_never_more_than_the_whole_budget(desk: Desk) -> None:
    """Invariant I12."""
    opened = desk.opened(bank=0, delay=2 * SECOND)
    desk.say(opened)
    desk.advance(SECOND)
    _, heard = take_over(desk, bank=0, delay=2 * SECOND)
    armed = only(m.Armed, heard)
    assert (armed.consumed_ns, armed.remaining_ns) == (0, 2 * SECOND)


def test_a_proven_timeout_is_told_again_to_the_next_owner(desk: Desk) -> None:
    """Scenario 34, rule R21."""
    opened = desk.opened()
    deadline = only(m.Armed, desk.say(opened)).deadline_ns
    probe = only(m.Probe, desk.advance(DELAY + BANK))
    timeout = only(m.Timeout, desk.say(reply(probe, deadline)))
    resumed, heard = take_over(desk)
    again = only(m.Timeout, heard)
    assert again.key == resumed.key
    assert again.evidence_id == timeout.evidence_id
    # A command of the new owner is stamped on another timeline: it proves nothing about the order.
    assert desk.say(arrival(resumed, deadline - BANK), "s2") == [again]


def test_a_timeout_that_nobody_stored_does_not_end_a_match_that_went_on(desk: Desk) -> None:
    """Rule R21: the next owner was governed by a clock that had not heard of it, and comes here a decision later."""
    opened = desk.opened()
    deadline = only(m.Armed, desk.say(opened)).deadline_ns
    probe = only(m.Probe, desk.advance(DELAY + BANK))
    only(m.Timeout, desk.say(reply(probe, deadline)))
    desk.advance(3 * SECOND)
    later = desk.opened(2, fence=2)
    heard = desk.attach("s2", engine_id="e2", incarnation="i2", opened=(later,))
    assert only(m.Armed, heard).key == later.key
    only(m.Verdict, desk.say(arrival(later, desk.now), "s2"))


@pytest.mark.parametrize("effect", [Effect.ENDS, Effect.CONTINUES])
def test_a_verdict_without_a_commit_opens_the_decision_again(desk: Desk, effect: Effect) -> None:
    """Scenario 32, fault 16: charged up to the arrival, and the command may even be another one."""
    opened = desk.opened()
    desk.say(opened)
    desk.advance(7 * SECOND)
    only(m.Verdict, desk.say(arrival(opened, desk.now, "lost", effect)))
    desk.advance(2 * SECOND)
    resumed, heard = take_over(desk)
    assert only(m.Armed, heard).consumed_ns == 7 * SECOND
    verdict = only(m.Verdict, desk.say(arrival(resumed, desk.now + SECOND, "another"), "s2"))
    assert (verdict.command_id, verdict.elapsed_ns) == ("another", 8 * SECOND)


@pytest.mark.parametrize(("outage", "void"), [(9, False), (30, False), (31, True)])
def test_a_clock_without_memory_takes_the_outage_from_the_database(outage: int, void: bool) -> None:
    """Scenario 38, rule R22: engine and clock died together."""
    desk = Desk()
    _, heard = take_over(desk, consumed=6 * SECOND, outage=outage * SECOND)
    if void:
        assert only(m.Void, heard).reason == VoidReason.GAP_TOO_LONG
    else:
        armed = only(m.Armed, heard)
        assert (armed.consumed_ns, armed.credited_ns) == (6 * SECOND, outage * SECOND)


def test_crash_after_crash_carries_what_was_used_and_ends_in_a_void(desk: Desk) -> None:
    """Scenario 35: no endless renewal."""
    desk.say(desk.opened())
    consumed = 0
    session = "s1"
    for fence in range(2, 10):
        desk.advance(4 * SECOND)
        desk.keeper.detach(session, desk.clock_now)
        desk.advance(13 * SECOND)
        session = f"s{fence}"
        _, heard = take_over(desk, fence=fence, session=session)
        voids = [message for message in heard if isinstance(message, m.Void)]
        if voids:
            assert voids[0].reason == VoidReason.CREDIT_SPENT
            assert fence == 6  # four gaps of 13 s are less than 60 s, five are more
            return
        armed = only(m.Armed, heard)
        assert armed.consumed_ns >= consumed
        consumed = armed.consumed_ns
    pytest.fail("renewed without end")


def test_the_old_owner_is_told_that_it_is_none(desk: Desk) -> None:
    """Scenarios 36 and 37, faults 14 and 15: at once, and whatever it says."""
    opened = desk.opened()
    desk.say(opened)
    desk.advance(SECOND)
    resumed, heard = take_over(desk)
    assert only(m.Stale, heard) == m.Stale("m1", 1, 2)
    assert ("s1", m.Stale("m1", 1, 2)) in desk.told
    stale = [m.Stale("m1", 1, 2)]
    assert desk.say(arrival(opened, desk.now), "s1") == stale
    assert desk.say(desk.opened(2), "s1") == stale
    assert desk.say(m.Close("m1", 1, "left"), "s1") == stale
    only(m.Verdict, desk.say(arrival(resumed, desk.now), "s2"))


def test_a_restarted_engine_needs_a_higher_fence(desk: Desk) -> None:
    """Two processes under one fence could both write: that is no takeover but a contradiction."""
    desk.say(desk.opened())
    desk.attach("s2", incarnation="i2")
    heard = desk.say(desk.opened(cause=OpenCause.RESUME), "s2")
    assert only(m.Mismatch, heard).field == "incarnation"
    only(m.Void, heard)


def test_an_owner_that_left_in_order_is_charged_until_it_left(desk: Desk) -> None:
    """Scenario 39: Close while a decision is open, then the same engine, restarted."""
    opened = desk.opened()
    desk.say(opened)
    desk.advance(5 * SECOND)
    desk.say(m.Release("m1", 1, opened.start_ns + 5 * SECOND))
    desk.keeper.detach("s1", desk.clock_now)
    desk.advance(3 * SECOND)
    _, heard = take_over(desk)
    armed = only(m.Armed, heard)
    assert (armed.consumed_ns, armed.credited_ns) == (5 * SECOND, 3 * SECOND)


def test_an_owner_that_lost_a_match_is_not_heard_for_it(desk: Desk) -> None:
    """It was paused, found the match taken up and beats on; the next owner speaks only ten seconds later."""
    opened = desk.opened()
    desk.say(opened)
    desk.advance(5 * SECOND + SECOND // 10)
    desk.say(m.Close("m1", 1, "not played here"))
    desk.advance(SECOND)
    desk.say(
        m.Close("m1", 2, "not played here")
    )  # it was given the match back, and lost it before it spoke of it
    desk.advance(9 * SECOND)
    _, heard = take_over(desk, fence=3)
    armed = only(m.Armed, heard)
    assert (armed.consumed_ns, armed.credited_ns) == (5 * SECOND, 10 * SECOND + SECOND // 10)


def test_a_resume_sent_twice_is_worked_out_once(desk: Desk) -> None:
    """The session broke before its answer came, or after."""
    opened = desk.opened()
    desk.say(opened)
    desk.advance(6 * SECOND)
    desk.keeper.detach("s1", desk.clock_now)
    desk.advance(3 * SECOND)
    resumed, heard = take_over(desk)
    armed = only(m.Armed, heard)
    desk.advance(2 * SECOND)
    assert only(m.Armed, desk.say(resumed, "s2")) == armed
    desk.keeper.detach("s2", desk.clock_now)
    worked_out = desk.opened(consumed=armed.consumed_ns, fence=2, start=resumed.start_ns)
    again = only(
        m.Armed,
        desk.attach("s3", attach_no=2, engine_id="e2", incarnation="i2", opened=(worked_out,)),
    )
    assert (again.deadline_ns, again.consumed_ns) == (armed.deadline_ns, armed.consumed_ns)


def test_an_owner_that_comes_back_without_the_match_has_let_it_go(desk: Desk) -> None:
    """Faults 14, 15: a paused owner wakes, finds itself fenced and attaches again before the new owner has opened.

    Its silence about the open decision is no sign that it is over, and what it hears from then on is not charged.
    """
    desk.say(desk.opened())
    desk.advance(3 * SECOND)
    beaten = desk.clock_now
    desk.keeper.detach("s1", desk.clock_now)
    desk.clock_now += 6 * SECOND
    desk.attach("s1 again", attach_no=2)
    desk.advance(4 * SECOND)
    _, heard = take_over(desk)
    armed = only(m.Armed, heard)
    assert armed.consumed_ns <= 3 * SECOND
    assert armed.credited_ns >= desk.clock_now - beaten


def test_a_decision_that_was_let_go_does_not_time_out(desk: Desk) -> None:
    """Nobody listens for it any more."""
    desk.say(desk.opened())
    desk.keeper.detach("s1", desk.clock_now)
    desk.attach("s1 again", attach_no=2)
    assert not [
        message for message in desk.advance(BANK + DELAY + SECOND) if not isinstance(message, m.Armed)
    ]


def test_what_was_proven_is_remembered_beyond_the_deadline(desk: Desk) -> None:
    """Without a session nothing times out, and nothing is forgotten either."""
    desk.say(desk.opened())
    desk.advance(DELAY + BANK - SECOND)
    desk.keeper.detach("s1", desk.clock_now)
    desk.advance(10 * SECOND)
    _, heard = take_over(desk)
    assert only(m.Armed, heard).remaining_ns == RESUME_FLOOR


def test_a_match_that_nobody_takes_over_is_forgotten_at_last(desk: Desk) -> None:
    desk.say(desk.opened())
    desk.keeper.detach("s1", desk.clock_now)
    assert desk.advance(2 * 3600 * SECOND) == []
    assert desk.keeper.matches == 0


def test_the_end_of_the_old_owner_does_not_touch_the_match_any_more(desk: Desk) -> None:
    desk.say(desk.opened())
    resumed, heard = take_over(desk)
    armed = only(m.Armed, heard)
    desk.keeper.detach("s1", desk.clock_now)
    assert only(m.Probe, desk.advance(armed.remaining_ns)).key == resumed.key
