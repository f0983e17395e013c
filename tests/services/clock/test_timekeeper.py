"""The timekeeper by the numbered scenarios of its design: arithmetic, races, sessions."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from engine.clock import BANK, DELAY, MILLISECOND, SECOND, Effect
from engine.seats import NORTH, SOUTH
from services.clock.timekeeper import Hangup
from services.wire import clock_messages as m
from tests.services.clock.desk import Desk, Heard, arrival, only, reply


@pytest.fixture
def desk() -> Desk:
    """A clock with one engine attached."""
    desk = Desk()
    desk.attach()
    return desk


# Arithmetic and rules


@pytest.mark.parametrize("consumed", [0, 4 * SECOND])
@pytest.mark.parametrize("bank", [0, 1, 2 * SECOND, BANK])
@pytest.mark.parametrize(("offset", "in_time"), [(-1, True), (0, False), (1, False)])
def test_at_the_deadline_is_too_late(consumed: int, bank: int, offset: int, in_time: bool) -> None:
    """Scenario 1, rule 6.7, FC-01, FC-07."""
    desk = Desk()
    desk.attach()
    opened = desk.opened(cause=m.OpenCause.REATTACH, bank=bank, consumed=consumed)
    armed = only(m.Armed, desk.say(opened))
    assert armed.deadline_ns == opened.start_ns + DELAY + bank - consumed
    heard = desk.say(arrival(opened, armed.deadline_ns + offset))
    if in_time:
        verdict = only(m.Verdict, heard)
        assert verdict.elapsed_ns == DELAY + bank - 1
        assert verdict.bank_after_ns == min(bank, 1)
    else:
        timeout = only(m.Timeout, heard)
        assert (timeout.proof, timeout.proof_ns) == (m.Proof.ARRIVAL, armed.deadline_ns + offset)
        assert timeout.seat is NORTH


@pytest.mark.parametrize(
    ("used", "charge"),
    [(0, 0), (8 * SECOND, 0), (10 * SECOND, 0), (10 * SECOND + 1, 1), (13 * SECOND, 3 * SECOND)],
)
def test_the_bank_pays_what_exceeds_the_delay(desk: Desk, used: int, charge: int) -> None:
    """Scenario 2."""
    opened = desk.opened()
    desk.say(opened)
    verdict = only(m.Verdict, desk.say(arrival(opened, opened.start_ns + used)))
    assert (verdict.charge_ns, verdict.bank_after_ns) == (charge, BANK - charge)


def test_each_decision_has_a_fresh_delay_and_the_bank_is_never_refilled(desk: Desk) -> None:
    """Scenarios 2 and 6: the other seat has its own bank and delay; a next round keeps the bank."""
    first = desk.opened(1, seat=NORTH)
    desk.say(first)
    left = only(m.Verdict, desk.say(arrival(first, first.start_ns + 13 * SECOND))).bank_after_ns
    desk.advance(20 * SECOND)
    other = desk.opened(2, seat=SOUTH)
    armed = only(m.Armed, desk.say(other))
    assert armed.remaining_ns == DELAY + BANK
    desk.say(arrival(other, desk.now))
    desk.say(m.Applied(other.key, "c1", 1))
    desk.advance(3000 * SECOND)  # between rounds nothing counts
    third = desk.opened(3, seat=NORTH, bank=left)
    assert only(m.Armed, desk.say(third)).remaining_ns == DELAY + left


@pytest.mark.parametrize("wrong", [BANK, BANK - 3 * SECOND + 1, 0])
def test_a_bank_that_is_not_what_the_verdict_left_holds_the_match(desk: Desk, wrong: int) -> None:
    first = desk.opened(1)
    desk.say(first)
    desk.say(arrival(first, first.start_ns + 13 * SECOND))
    heard = desk.say(desk.opened(2, bank=wrong))
    assert only(m.Mismatch, heard).field == "bank_ns"
    assert only(m.Void, heard).reason == m.VoidReason.CONTRADICTION


def test_two_seconds_of_bank_allow_a_play_after_nearly_twelve(desk: Desk) -> None:
    """Scenario 3: a simple delay, not Bronstein's."""
    opened = desk.opened(bank=2 * SECOND)
    desk.say(opened)
    verdict = only(m.Verdict, desk.say(arrival(opened, opened.start_ns + 11_900 * MILLISECOND)))
    assert verdict.bank_after_ns == 100 * MILLISECOND


@pytest.mark.parametrize("commit_ns", [0, 3 * SECOND])
def test_three_draws_and_a_play_share_one_delay(desk: Desk, commit_ns: int) -> None:
    """Scenarios 4 and 5: only thinking counts, not the commits in between."""
    opened = desk.opened()
    desk.say(opened)
    consumed = 0
    for number in range(3):
        desk.advance(3 * SECOND)
        drawn = desk.say(arrival(opened, desk.now, f"draw-{number}", Effect.CONTINUES))
        verdict = only(m.Verdict, drawn)
        consumed = verdict.consumed_ns
        assert (consumed, verdict.charge_ns) == ((number + 1) * 3 * SECOND, 0)
        desk.advance(commit_ns)
        opened = desk.opened(cause=m.OpenCause.CONTINUE, consumed=consumed)
        assert only(m.Armed, desk.say(opened)).remaining_ns == DELAY + BANK - consumed
        desk.say(m.Applied(opened.key, f"draw-{number}", number))  # in either order with the Open
    desk.advance(3 * SECOND)
    verdict = only(m.Verdict, desk.say(arrival(opened, desk.now)))
    assert (verdict.elapsed_ns, verdict.charge_ns) == (12 * SECOND, 2 * SECOND)


def test_a_draw_at_the_deadline_is_lost(desk: Desk) -> None:
    """Scenario 5, FC-11."""
    opened = desk.opened()
    armed = only(m.Armed, desk.say(opened))
    only(m.Timeout, desk.say(arrival(opened, armed.deadline_ns, effect=Effect.CONTINUES)))


def test_a_turn_that_goes_on_cannot_say_that_it_used_less(desk: Desk) -> None:
    """Invariant I20."""
    opened = desk.opened()
    desk.say(opened)
    desk.say(arrival(opened, opened.start_ns + 3 * SECOND, effect=Effect.CONTINUES))
    heard = desk.say(desk.opened(cause=m.OpenCause.CONTINUE, consumed=3 * SECOND - 1))
    assert only(m.Mismatch, heard).field == "consumed_ns"


# Deadlines


def test_nothing_is_decided_by_the_timer_alone(desk: Desk) -> None:
    """Rule R13: no watermark, no forfeit."""
    opened = desk.opened()
    armed = only(m.Armed, desk.say(opened))
    assert desk.advance(DELAY + BANK - 1) == []
    probe = only(m.Probe, desk.advance(1))
    assert probe.deadline_ns == armed.deadline_ns
    assert desk.advance(10 * SECOND) == []
    timeout = only(m.Timeout, desk.say(reply(probe, armed.deadline_ns)))
    assert (timeout.proof, timeout.proof_ns) == (m.Proof.WATERMARK, armed.deadline_ns)


def test_a_timer_that_rings_early_changes_nothing(desk: Desk) -> None:
    """Scenario 26."""
    desk.say(desk.opened())
    desk.clock_now += DELAY + BANK - MILLISECOND
    desk.told.clear()
    desk.ring()
    assert not [message for _, message in desk.told if not isinstance(message, m.Ping)]
    due = desk.keeper.next_deadline()
    assert due is not None
    assert due > desk.clock_now


def test_a_smaller_watermark_asks_again_when_the_rest_has_passed(desk: Desk) -> None:
    opened = desk.opened()
    deadline = only(m.Armed, desk.say(opened)).deadline_ns
    probe = only(m.Probe, desk.advance(DELAY + BANK))
    assert desk.say(reply(probe, deadline - 700 * MILLISECOND)) == []
    assert desk.advance(700 * MILLISECOND - 1) == []
    again = only(m.Probe, desk.advance(1))
    assert again.probe_no > probe.probe_no
    assert desk.say(reply(probe, deadline + SECOND)) == []  # the answer to an earlier question proves nothing
    assert desk.say(reply(again, deadline - 1)) == []
    assert desk.advance(MILLISECOND - 1) == []  # at least a millisecond ahead
    only(m.Probe, desk.advance(1))


def test_the_timer_counts_from_the_receipt_of_a_message_that_was_under_way(desk: Desk) -> None:
    """Rule R12: never early."""
    opened = desk.opened()
    desk.clock_now += 2 * SECOND
    desk.say(opened)
    assert desk.advance(DELAY + BANK - 1) == []
    only(m.Probe, desk.advance(1))


# Races


@pytest.mark.parametrize("early_ns", [0, 1])
def test_command_and_timer_at_the_same_instant_in_every_order(early_ns: int) -> None:
    """Scenarios 10 and 11: whatever the queues do, the stamp decides."""
    for order in permutations(["ring", "command", "answer"]):
        desk = Desk()
        desk.attach()
        opened = desk.opened()
        deadline = only(m.Armed, desk.say(opened)).deadline_ns
        desk.clock_now += DELAY + BANK
        heard = []
        for step in order:
            if step == "ring":
                heard += desk.ring()
            elif step == "command":
                heard += desk.say(arrival(opened, deadline - early_ns))
            else:
                # A watermark is never above the stamp of what is read after it: one mark serves both.
                for probe in [message for message in heard if isinstance(message, m.Probe)]:
                    heard += desk.say(reply(probe, deadline - early_ns))
        desk.advance(0)
        decisive = [message for message in heard if isinstance(message, m.Verdict | m.Timeout)]
        assert isinstance(decisive[0], m.Verdict if early_ns else m.Timeout), order
        assert all(decisive[0] == repeat for repeat in decisive), order


def test_a_command_in_time_behind_a_probe_is_in_time_however_late_it_comes(desk: Desk) -> None:
    """Scenario 12."""
    opened = desk.opened()
    deadline = only(m.Armed, desk.say(opened)).deadline_ns
    probe = only(m.Probe, desk.advance(DELAY + BANK))
    desk.advance(5 * SECOND)
    only(m.Verdict, desk.say(arrival(opened, deadline - 1)))
    assert desk.say(reply(probe, deadline + 5 * SECOND)) == []


def test_a_late_command_overtakes_nothing(desk: Desk) -> None:
    """Scenario 13."""
    opened = desk.opened()
    deadline = only(m.Armed, desk.say(opened)).deadline_ns
    probe = only(m.Probe, desk.advance(DELAY + BANK))
    desk.say(reply(probe, deadline - 2 * MILLISECOND))
    assert only(m.Timeout, desk.say(arrival(opened, deadline))).proof is m.Proof.ARRIVAL


def test_the_first_verdict_stands(desk: Desk) -> None:
    """Scenario 14, rule R15: before its commit, after it, by the same command or another."""
    opened = desk.opened()
    desk.say(opened)
    desk.advance(SECOND)
    verdict = only(m.Verdict, desk.say(arrival(opened, desk.now, "first")))
    desk.advance(SECOND)
    assert desk.say(arrival(opened, desk.now, "first")) == [verdict]
    assert desk.say(arrival(opened, desk.now, "second")) == [verdict]
    desk.say(m.Applied(opened.key, "first", 1))
    assert desk.say(arrival(opened, desk.now, "first")) == [verdict]


def test_a_match_that_ends_while_it_is_asked_about_never_times_out(desk: Desk) -> None:
    """Scenario 15."""
    opened = desk.opened()
    deadline = only(m.Armed, desk.say(opened)).deadline_ns
    probe = only(m.Probe, desk.advance(DELAY + BANK))
    desk.say(m.Close("m1", 1, "resignation"))
    assert desk.say(reply(probe, deadline + 1)) == []
    assert desk.advance(3 * 3600 * SECOND) == []
    assert desk.keeper.matches == 0


def test_a_timeout_absorbs_everything_that_comes_later(desk: Desk) -> None:
    opened = desk.opened()
    deadline = only(m.Armed, desk.say(opened)).deadline_ns
    probe = only(m.Probe, desk.advance(DELAY + BANK))
    timeout = only(m.Timeout, desk.say(reply(probe, deadline)))
    assert desk.say(arrival(opened, deadline)) == [timeout]
    assert desk.say(opened) == [timeout]
    desk.say(m.Applied(opened.key, "c1", 1))
    assert desk.say(arrival(opened, deadline + SECOND)) == [timeout]


def test_a_command_dated_before_a_deadline_proven_to_pass_voids(desk: Desk) -> None:
    """Invariant I8, fault 23: the promise behind the watermark was broken."""
    opened = desk.opened()
    deadline = only(m.Armed, desk.say(opened)).deadline_ns
    probe = only(m.Probe, desk.advance(DELAY + BANK))
    desk.say(reply(probe, deadline))
    heard = desk.say(arrival(opened, deadline - 1))
    assert only(m.Mismatch, heard).field == "arrive_ns"
    assert only(m.Void, heard).reason == m.VoidReason.ORDER_BROKEN


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("stale arrival", "decision_no"),
        ("early open", "state"),
        ("earlier decision", "decision_no"),
        ("same decision", "decision_no"),
        ("consumed", "consumed_ns"),
        ("other delay", "delay_ns"),
        ("continue", "state"),
    ],
)
def test_a_contradiction_holds_and_voids(desk: Desk, message: str, field: str) -> None:
    """Rule R12, fault 22, scenario 9: order of decisions and continuity of banks."""
    first = desk.opened(4)
    desk.say(first)
    if message != "early open":
        desk.say(arrival(first, desk.now))
        desk.say(m.Applied(first.key, "c1", 1))
    said: dict[str, m.EngineMessage] = {
        "stale arrival": arrival(desk.opened(3), desk.now),
        "early open": desk.opened(5),
        "earlier decision": desk.opened(3),
        "same decision": desk.opened(4),
        "consumed": desk.opened(5, consumed=1),
        "other delay": desk.opened(5, delay=DELAY + 1),
        "continue": desk.opened(4, cause=m.OpenCause.CONTINUE),
    }
    heard = desk.say(said[message])
    assert only(m.Mismatch, heard).field == field
    void = only(m.Void, heard)
    assert (void.match_id, void.reason) == ("m1", m.VoidReason.CONTRADICTION)
    # It absorbs: the same answer, by the same name of the evidence.
    assert desk.say(desk.opened(6)) == [void]


def test_a_repeated_open_is_the_same_decision(desk: Desk) -> None:
    opened = desk.opened()
    armed = only(m.Armed, desk.say(opened))
    desk.advance(SECOND)
    assert desk.say(opened) == [armed]


def test_a_command_for_a_match_nobody_opened_is_a_contradiction(desk: Desk) -> None:
    heard = desk.say(arrival(desk.opened(), desk.now))
    assert [type(message) for message in heard] == [m.Mismatch]
    assert desk.keeper.matches == 0


# Sessions


def test_an_older_session_is_not_obeyed_any_more(desk: Desk) -> None:
    """Scenario 29, rule R14, invariant I18."""
    opened = desk.opened()
    deadline = only(m.Armed, desk.say(opened)).deadline_ns
    heard = desk.say(desk.hello(2, opened=(opened,)), "s2")
    assert ("s1", only(Hangup, heard)) in desk.told
    for message in (
        arrival(opened, desk.now),
        arrival(opened, deadline + 1),
        desk.opened(2),
        m.Close("m1", 1, "old"),
        desk.pong(),
    ):
        assert desk.say(message, "s1") == []
    assert [type(message) for message in desk.say(desk.hello(1, opened=(opened,)), "s3")] == [Hangup]
    only(m.Verdict, desk.say(arrival(opened, desk.now), "s2"))


def test_a_dead_incarnation_never_comes_back(desk: Desk) -> None:
    opened = desk.opened()
    desk.say(opened)
    assert desk.say(desk.hello(1, incarnation="i2"), "s2")
    late = desk.say(desk.hello(99, incarnation="i1", opened=(opened,)), "s3")
    assert [type(message) for message in late] == [Hangup]
    assert desk.keeper.sessions == 1


def test_three_pings_without_an_answer_end_the_session() -> None:
    desk = Desk()
    desk.keeper.handle("s1", desk.hello(), desk.clock_now)  # whose pings nobody answers
    said: list[tuple[str, Heard]] = []
    began = desk.clock_now
    while not any(isinstance(message, Hangup) for _, message in said):
        due = desk.keeper.next_deadline()
        assert due is not None
        desk.clock_now = due
        said += desk.keeper.expire(due)
    assert sum(isinstance(message, m.Ping) for _, message in said) == 2  # and one with the welcome
    assert desk.clock_now - began <= SECOND
    assert desk.keeper.sessions == 0


def test_without_a_session_nothing_times_out(desk: Desk) -> None:
    """Rule R18."""
    opened = desk.opened()
    deadline = only(m.Armed, desk.say(opened)).deadline_ns
    desk.keeper.detach("s1", desk.clock_now)
    assert desk.advance(DELAY + BANK + 20 * SECOND) == []
    armed = only(m.Armed, desk.attach("s2", attach_no=2, opened=(opened,)))
    assert (armed.deadline_ns, armed.remaining_ns) == (deadline, 0)
    probe = only(m.Probe, desk.advance(0))
    only(m.Timeout, desk.say(reply(probe, desk.now), "s2"))


@pytest.mark.parametrize("state", ["running", "probing", "held", "judged", "forfeit"])
@pytest.mark.parametrize("clock", ["the same", "a fresh one"])
def test_a_new_session_finds_every_state_as_it_was(desk: Desk, state: str, clock: str) -> None:
    """Scenarios 27 and 28, invariants I10 and I11: whether the clock remembers cannot be seen."""
    opened = desk.opened()
    deadline = only(m.Armed, desk.say(opened)).deadline_ns
    pending: tuple[m.Arrival, ...] = ()
    before: list[object] = []
    if state in ("held", "judged"):
        desk.advance(4 * SECOND)
        pending = (arrival(opened, desk.now, effect=Effect.ENDS if state == "judged" else Effect.CONTINUES),)
        before = [only(m.Verdict, desk.say(pending[0]))]
    elif state in ("probing", "forfeit"):
        probe = only(m.Probe, desk.advance(DELAY + BANK))
        if state == "forfeit":
            desk.say(reply(probe, deadline))  # the answer never reached the engine
    if clock == "a fresh one":
        desk.crash()
    else:
        desk.keeper.detach("s1", desk.clock_now)
    desk.advance(2 * SECOND)
    heard = desk.attach("s2", attach_no=2, opened=(opened,), pending=pending)
    if state in ("held", "judged"):
        assert [message for message in heard if isinstance(message, m.Verdict)] == before
        return
    if state == "forfeit" and clock == "the same":
        assert only(m.Timeout, heard).deadline_ns == deadline
        return
    assert only(m.Armed, heard).deadline_ns == deadline
    probe = only(m.Probe, desk.advance(max(0, deadline - desk.now)))
    assert only(m.Timeout, desk.say(reply(probe, desk.now), "s2")).deadline_ns == deadline


@pytest.mark.parametrize("back_ns", [0, 300 * MILLISECOND])
def test_the_parts_of_a_turn_are_told_apart_by_the_kernel_clock(desk: Desk, back_ns: int) -> None:
    """A draw in a stall: when the gap has been taken out, the next part may start earlier in live time."""
    opened = desk.opened()
    desk.say(opened)
    drawn = arrival(opened, opened.start_ns, "draw", Effect.CONTINUES)
    only(m.Verdict, desk.say(drawn))
    desk.keeper.detach("s1", desk.clock_now)
    desk.advance(400 * MILLISECOND)
    going_on = replace(
        opened,
        cause=m.OpenCause.REATTACH,
        start_ns=opened.start_ns - back_ns,
        start_raw_ns=opened.start_raw_ns + 400 * MILLISECOND,
        gap_total_ns=400 * MILLISECOND,
    )
    played = arrival(going_on, going_on.start_ns + 7, "play")
    hello = replace(desk.hello(2), open=(going_on,), pending=(played,))
    verdict = only(m.Verdict, desk.say(hello, "s2"))
    assert (verdict.command_id, verdict.elapsed_ns) == ("play", 7)


def test_an_effect_committed_without_a_session_needs_no_telling(desk: Desk) -> None:
    """The new session knows the next decision, or none."""
    first = desk.opened(1)
    desk.say(first)
    verdict = only(m.Verdict, desk.say(arrival(first, first.start_ns + 13 * SECOND)))
    desk.keeper.detach("s1", desk.clock_now)
    second = desk.opened(2, bank=verdict.bank_after_ns)
    only(m.Armed, desk.attach("s2", attach_no=2, opened=(second,)))
    desk.say(arrival(second, desk.now), "s2")
    desk.keeper.detach("s2", desk.clock_now)
    assert desk.attach("s3", attach_no=3) == []
    assert desk.advance(200 * SECOND) == []
    only(m.Armed, desk.say(desk.opened(3, bank=verdict.bank_after_ns), "s3"))


def test_two_clocks_with_timers_for_one_match_decide_once(desk: Desk) -> None:
    """Scenario 30: the one that lost the session asks nobody."""
    other = Desk(now=desk.clock_now - 400 * SECOND)  # its own clock reads something else
    opened = desk.opened()
    deadline = only(m.Armed, desk.say(opened)).deadline_ns
    desk.keeper.detach("s1", desk.clock_now)
    again = m.Hello("e1", "i1", 2, "boot/i1", "boottime", desk.now, desk.now, "v1", (desk.opened(),), ())
    other.say(again, "s2")
    assert desk.advance(DELAY + BANK + SECOND) == []
    probe = only(m.Probe, other.advance(DELAY + BANK))
    assert only(m.Timeout, other.say(reply(probe, deadline), "s2")).deadline_ns == deadline


def test_a_clock_that_was_passed_by_accepts_what_another_one_judged(desk: Desk) -> None:
    """It knew decision 1 running; the engine comes back with decision 7 and less bank."""
    desk.say(desk.opened(1))
    desk.keeper.detach("s1", desk.clock_now)
    only(m.Armed, desk.attach("s2", attach_no=2, opened=(desk.opened(7, bank=BANK - SECOND),)))
    desk.keeper.detach("s2", desk.clock_now)
    richer = desk.attach("s3", attach_no=3, opened=(desk.opened(9, bank=BANK),))
    assert only(m.Mismatch, richer).field == "bank_ns"


@pytest.mark.parametrize("open_at_the_return", [True, False])
def test_a_clock_that_was_passed_by_knows_no_bank_exactly(desk: Desk, *, open_at_the_return: bool) -> None:
    """It judged both seats, then another clock charged both, then the engine comes back: with north's question open, or
    with none open and north's to come. Neither voids the match, but a bank never grows."""
    for number, seat in ((1, NORTH), (2, SOUTH)):
        opened = desk.opened(number, seat=seat)
        desk.say(opened)
        only(m.Verdict, desk.say(arrival(opened, desk.now)))
        desk.say(m.Applied(opened.key, "c1", number))
    desk.keeper.detach("s1", desk.clock_now)
    north = desk.opened(7, seat=NORTH, bank=BANK - SECOND)
    if open_at_the_return:
        only(m.Armed, desk.attach("s2", attach_no=2, opened=(north,)))
    else:
        assert desk.attach("s2", attach_no=2) == []
        only(m.Armed, desk.say(north, "s2"))
    only(m.Verdict, desk.say(arrival(north, desk.now), "s2"))
    desk.say(m.Applied(north.key, "c1", 7), "s2")
    south = desk.opened(8, seat=SOUTH, bank=BANK - 2 * SECOND)
    only(m.Armed, desk.say(south, "s2"))
    only(m.Verdict, desk.say(arrival(south, desk.now), "s2"))
    desk.say(m.Applied(south.key, "c1", 8), "s2")
    # From here on it has seen everything again.
    again = desk.opened(9, seat=SOUTH, bank=BANK - 3 * SECOND)
    assert only(m.Mismatch, desk.say(again, "s2")).field == "bank_ns"


def test_a_decision_judged_elsewhere_is_not_asked_about_any_more(desk: Desk) -> None:
    """It knew decision 1 running; the engine comes back with none open, and opens decision 2 later."""
    desk.say(desk.opened(1))
    desk.keeper.detach("s1", desk.clock_now)
    assert desk.attach("s2", attach_no=2) == []
    assert desk.advance(DELAY + BANK) == []
    only(m.Armed, desk.say(desk.opened(2), "s2"))


@pytest.mark.parametrize("state", ["running", "held"])
def test_another_part_of_a_turn_cannot_have_used_less(desk: Desk, state: str) -> None:
    """Invariant I20, over a reconnect."""
    opened = desk.opened(cause=m.OpenCause.REATTACH, consumed=5 * SECOND)
    desk.say(opened)
    desk.advance(SECOND)
    if state == "held":
        desk.say(arrival(opened, desk.now, "draw", Effect.CONTINUES))
    least = (6 if state == "held" else 5) * SECOND
    desk.keeper.detach("s1", desk.clock_now)
    heard = desk.attach("s2", attach_no=2, opened=(desk.opened(consumed=least - 1),))
    assert only(m.Mismatch, heard).field == "consumed_ns"


def test_what_is_forgotten_costs_no_memory(desk: Desk) -> None:
    for number in range(50):
        opened = desk.opened(match_id=f"m{number}")
        desk.say(opened)
        for turn in range(2, 60):
            desk.say(arrival(opened, desk.now))
            opened = desk.opened(turn, match_id=f"m{number}")
            desk.say(opened)
        desk.say(m.Close(f"m{number}", 1, "points"))
    assert len(desk.keeper._heap) < 3000  # 50 matches, 5800 changes of their times
    desk.advance(3 * 3600 * SECOND)
    assert desk.keeper.matches == 0
    desk.keeper.detach("s1", desk.clock_now)
    desk.advance(3 * 3600 * SECOND)
    assert desk.keeper._engines == {}
    assert desk.keeper.next_deadline() is None
