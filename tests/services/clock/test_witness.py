"""The witness: clocks that move against each other, whose clock it was, and forfeits that are not enforced."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.clock import BANK, DELAY, MILLISECOND, SECOND, Effect
from engine.seats import Seat
from services.clock.notices import Notice
from services.clock.timekeeper import Hangup, Timekeeper
from services.clock.witness import Culprit, Witness
from services.wire import clock_messages as m
from services.wire.clock_messages import VoidReason
from tests.services.clock.desk import arrival, only

BUDGET = DELAY + BANK
Heard = m.ClockMessage | Hangup


class Engine:
    """An engine whose kernel clock can go wrong. Live time is the kernel clock without the gaps it tells of."""

    def __init__(self, court: Court, name: str) -> None:
        self.court = court
        self.session = name
        self.match_id = f"match-{name}"
        self.jumped = 0
        self.rate = 1.0
        self.since = court.true
        self.base = 5_000_000 * SECOND
        self.gap_total = 0
        self.gaps: list[m.Gap] = []
        self.opened: m.Open | None = None

    @property
    def raw(self) -> int:
        return self.base + int((self.court.true - self.since) * self.rate) + self.jumped

    @property
    def live(self) -> int:
        return self.raw - self.gap_total

    def goes(self, rate: float) -> None:
        """The kernel clock runs at another rate from now on."""
        self.base, self.since = self.base + int((self.court.true - self.since) * self.rate), self.court.true
        self.rate = rate

    def jumps(self, ns: int, *, noticed: bool = False) -> None:
        """The kernel clock jumps; a jump ahead that the event loop noticed is a gap."""
        before = self.raw
        self.jumped += ns
        if noticed:
            self.gap_total += ns
            self.gaps.append(m.Gap(before, self.raw, "oversleep"))

    def pong(self, n: int) -> m.Pong:
        gaps, self.gaps = tuple(self.gaps), []
        return m.Pong(n, self.raw, self.live, True, self.gap_total, gaps)

    def attach(self, attach_no: int = 1) -> None:
        hello = m.Hello(
            f"engine-{self.session}",
            f"incarnation-{self.session}",
            attach_no,
            "timeline",
            "boottime",
            self.raw,
            self.live,
            "v1",
        )
        only(m.Welcome, self.say(hello))

    def open(self, number: int = 1, credited: int = 0) -> m.Armed:
        """Opens a decision now."""
        self.opened = m.Open(
            m.Key(self.match_id, 1, number),
            m.OpenCause.NEW,
            Seat.NORTH,
            "turn",
            self.live,
            self.raw,
            self.live,
            self.gap_total,
            BANK,
            DELAY,
            credited_total_ns=credited,
        )
        return only(m.Armed, self.say(self.opened))

    def moves(self) -> list[Heard]:
        """A legal command of the player arrives now."""
        assert self.opened is not None
        return self.say(arrival(self.opened, self.live, gap_total=self.gap_total))

    def say(self, message: m.EngineMessage) -> list[Heard]:
        return self.court.keep(self.court.keeper.handle(self.session, message, self.court.clock_now))


class Court:
    """One clock, several engines, and the true time that none of them knows."""

    def __init__(self, engines: int = 1) -> None:
        self.true = 1_000 * SECOND
        self.clock_lag = 0
        ids = count(1)
        self.keeper = Timekeeper("clock-1", m.Policy(), lambda: f"id-{next(ids)}")
        self.engines = {f"s{n}": Engine(self, f"s{n}") for n in range(1, engines + 1)}
        self.notices: list[Notice] = []
        for engine in self.engines.values():
            engine.attach()
            # So that the sessions are not all asked at the same instant.
            self.passes(37 * MILLISECOND)

    @property
    def clock_now(self) -> int:
        return self.true - self.clock_lag

    @property
    def one(self) -> Engine:
        return self.engines["s1"]

    def freeze_clock(self, ns: int) -> list[Heard]:
        """The clock's own kernel clock stands still, and so do its timers."""
        self.true += ns
        self.clock_lag += ns
        return []

    def passes(self, ns: int) -> list[Heard]:
        """True time passes; the alarm rings when it should, pings and probes are answered."""
        end, heard = self.true + ns, []
        while (due := self.keeper.next_deadline()) is not None and due + self.clock_lag <= end:
            self.true = max(self.true, due + self.clock_lag)
            heard += self.keep(self.keeper.expire(self.clock_now))
        self.true = end
        return heard

    def keep(self, said: list[tuple[str, Heard]]) -> list[Heard]:
        kept: list[Heard] = []
        for session, message in said:
            engine = self.engines[session]
            if isinstance(message, m.Ping):
                kept += engine.say(engine.pong(message.n))
            elif isinstance(message, m.Probe):
                kept += engine.say(m.ProbeReply(message.key, message.probe_no, engine.live))
            else:
                kept.append(message)
        self.notices += self.keeper.take_notices()
        return kept

    def incidents(self) -> list[Notice]:
        return [notice for notice in self.notices if notice.kind == "clock_disruption"]


def outcome(heard: list[Heard]) -> m.Timeout | m.Void:
    """How the match ends."""
    (end,) = [message for message in heard if isinstance(message, m.Timeout | m.Void)]
    return end


def test_clocks_that_agree_leave_a_forfeit_alone() -> None:
    """Fault 18: nobody plays, nothing is wrong."""
    court = Court(3)
    court.one.goes(1.0009)
    court.one.open()
    assert isinstance(outcome(court.passes(BUDGET + SECOND)), m.Timeout)
    assert court.notices == []


def test_a_clock_that_stood_still_unseen_is_reported_and_counts_to_the_caps() -> None:
    """Scenario 22, fault 3: the player had the time for free, so nobody is charged and nobody forfeits for it."""
    court = Court()
    court.one.open()
    court.passes(SECOND)
    court.one.jumps(-10 * SECOND)
    assert court.passes(10 * SECOND) == []
    (incident,) = court.incidents()
    assert incident.detail["ahead"] is False
    assert incident.detail["culprit"] == "unknown"
    assert abs(incident.detail["size_ns"] - 10 * SECOND) < MILLISECOND
    # 10 s of credit are counted already: two long gaps that would be within the limit are not any more.
    court.one.jumps(26 * SECOND, noticed=True)
    assert court.passes(2 * SECOND) == []
    court.one.jumps(26 * SECOND, noticed=True)
    assert outcome(court.passes(2 * SECOND)).reason == VoidReason.CREDIT_SPENT  # type: ignore[union-attr]


def test_in_time_is_in_time_whatever_the_witness_says() -> None:
    """Scenario 22, rule R17."""
    court = Court()
    court.one.open()
    court.one.jumps(-10 * SECOND)
    court.passes(5 * SECOND)
    assert only(m.Verdict, court.one.moves()).charge_ns == 0


@pytest.mark.parametrize(("seconds", "void"), [(29, False), (31, True)])
def test_a_clock_that_stood_still_for_too_long_voids(seconds: int, void: bool) -> None:
    """Scenario 22, rule R23."""
    court = Court()
    court.one.open()
    court.one.jumps(-seconds * SECOND)
    heard = court.passes(3 * SECOND)
    assert [message.reason for message in heard if isinstance(message, m.Void)] == (
        [VoidReason.GAP_TOO_LONG] if void else []
    )
    touched = [notice.voided for notice in court.notices if notice.voided]
    assert touched == ([court.one.match_id] if void else [])


def test_a_forfeit_by_a_clock_that_runs_too_fast_is_void() -> None:
    """Scenario 23, fault 4: the command that came too late by that clock was not too late."""
    court = Court()
    court.one.goes(1.05)
    court.one.open()
    assert court.passes(BUDGET * 97 // 100) == []
    void = outcome(court.one.moves())
    assert isinstance(void, m.Void)
    assert void.reason == VoidReason.CLOCK_DISRUPTION
    assert "arrival" in void.summary
    touched = {notice.incident_id for notice in court.notices if notice.voided == court.one.match_id}
    assert touched == {notice.incident_id for notice in court.incidents()}
    assert touched


def test_silence_under_a_clock_that_runs_too_fast_is_void() -> None:
    """Scenario 23, by watermark."""
    court = Court()
    court.one.goes(1.05)
    court.one.open()
    assert outcome(court.passes(BUDGET + SECOND)).reason == VoidReason.CLOCK_DISRUPTION  # type: ignore[union-attr]


def test_a_command_in_time_by_a_clock_that_runs_too_fast_stands() -> None:
    """Scenario 23: what the player paid too much is within what a fast clock can take; the match goes on."""
    court = Court()
    court.one.goes(1.05)
    court.one.open()
    court.passes(20 * SECOND)
    assert only(m.Verdict, court.one.moves()).elapsed_ns == 21 * SECOND


def test_a_jump_ahead_that_the_engine_did_not_count_as_listening_harms_nobody() -> None:
    """Rule R17, fault 4: it is credited, so the forfeit is just. Noticed before the answer or after it."""
    for late in (False, True):
        court = Court()
        court.one.open()
        court.passes(SECOND)
        if late:
            court.one.jumps(5 * SECOND)
            court.passes(300 * MILLISECOND)
            court.one.gap_total += 5 * SECOND
        else:
            court.one.jumps(5 * SECOND, noticed=True)
        assert isinstance(outcome(court.passes(BUDGET + SECOND)), m.Timeout)
        (incident,) = court.incidents()
        assert incident.detail["covered_ns"] >= incident.detail["size_ns"] - MILLISECOND


def test_a_jump_ahead_that_was_charged_voids_a_forfeit() -> None:
    """Fault 4."""
    court = Court()
    court.one.open()
    court.passes(SECOND)
    court.one.jumps(102 * MILLISECOND)
    assert outcome(court.passes(BUDGET + SECOND)).reason == VoidReason.CLOCK_DISRUPTION  # type: ignore[union-attr]


def test_little_doubt_is_no_doubt() -> None:
    """Rule R17: 100 ms."""
    court = Court()
    court.one.open()
    court.passes(SECOND)
    court.one.jumps(98 * MILLISECOND)
    assert isinstance(outcome(court.passes(BUDGET + SECOND)), m.Timeout)


def test_what_happened_before_the_decision_opened_concerns_it_not() -> None:
    court = Court()
    court.one.jumps(10 * SECOND)
    court.passes(2 * SECOND)
    court.one.open()
    assert isinstance(outcome(court.passes(BUDGET + SECOND)), m.Timeout)


def test_all_parts_of_a_turn_are_one_window() -> None:
    """A draw carries what was used on, so what went wrong before it still counts."""
    court = Court()
    engine = court.one
    engine.open()
    engine.jumps(SECOND)
    court.passes(2 * SECOND)
    assert engine.opened is not None
    heard = m.Arrival(engine.opened.key, "c1", engine.live, engine.raw, 0, Effect.CONTINUES)
    verdict = only(m.Verdict, engine.say(heard))
    again = m.Open(
        engine.opened.key,
        m.OpenCause.CONTINUE,
        Seat.NORTH,
        "turn",
        engine.live,
        engine.raw,
        engine.live,
        0,
        BANK,
        DELAY,
        consumed_ns=verdict.consumed_ns,
    )
    only(m.Armed, engine.say(again))
    assert outcome(court.passes(BUDGET + SECOND)).reason == VoidReason.CLOCK_DISRUPTION  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("engines", "culprit", "reason"), [(1, "unknown", VoidReason.CLOCK_DISRUPTION), (3, "clock", None)]
)
def test_the_clocks_own_standstill(engines: int, culprit: str, reason: VoidReason | None) -> None:
    """Scenario 24: no early or wrong timeout; with three engines it is known whose clock it was."""
    court = Court(engines)
    for engine in court.engines.values():
        engine.open()
    opened = court.true
    court.passes(SECOND)
    court.freeze_clock(10 * SECOND)
    ends: list[m.Timeout | m.Void] = []
    while len(ends) < engines:
        ends += [message for message in court.passes(SECOND) if isinstance(message, m.Timeout | m.Void)]
        assert not ends or court.true >= opened + BUDGET
    assert {message.reason if isinstance(message, m.Void) else None for message in ends} == {reason}
    assert {notice.detail["culprit"] for notice in court.incidents()} == {culprit}
    assert len(court.incidents()) == engines


def test_the_clocks_own_jump_ahead_counts_against_no_engine() -> None:
    """Scenario 24, the other way round: with three engines it is known that none of them stood still for 31 s."""
    court = Court(3)
    for engine in court.engines.values():
        engine.open()
    court.passes(SECOND)
    court.clock_lag -= 31 * SECOND
    assert court.passes(5 * SECOND) == []
    assert {notice.detail["culprit"] for notice in court.incidents()} == {"clock"}
    assert only(m.Verdict, court.one.moves()).charge_ns == 0


@pytest.mark.parametrize(("seconds", "void"), [(2, True), (-2, False)])
def test_one_engine_among_three_is_found_out(seconds: int, void: bool) -> None:
    """Rule R17: ahead it may have charged too much; behind, its players had more time than they should."""
    court = Court(3)
    court.one.open()
    court.passes(SECOND)
    court.one.jumps(seconds * SECOND)
    end = outcome(court.passes(BUDGET + 5 * SECOND))
    assert isinstance(end, m.Void) == void
    (incident,) = court.incidents()
    assert incident.engine_id == "engine-s1"
    assert incident.detail["culprit"] == "engine"


def test_before_all_have_answered_nobody_is_blamed() -> None:
    """A forfeit in the very moment: its doubt is not cleared yet, and the report says so."""
    court = Court(3)
    court.one.open()
    court.passes(BUDGET - 200 * MILLISECOND)
    court.one.jumps(-150 * MILLISECOND)
    end = outcome(court.passes(SECOND))
    assert isinstance(end, m.Void)
    (incident,) = court.incidents()
    assert incident.detail["culprit"] == "unknown"


def test_a_lost_session_is_an_incident_when_the_engine_is_back() -> None:
    court = Court()
    court.keeper.detach("s1", court.clock_now)
    court.passes(3 * SECOND)
    court.one.attach(attach_no=2)
    (notice,) = [notice for notice in court.notices if notice.kind == "clock_lost"]
    assert (notice.lasted_ns, notice.engine_id) == (3 * SECOND, "engine-s1")
    # A session that takes over from another at once is none.
    court.one.attach(attach_no=3)
    court.passes(SECOND)
    assert len(court.notices) == 1


def test_the_witness_remembers_over_a_reconnect() -> None:
    """A host that stood still loses its session too: the comparison goes on from before."""
    court = Court()
    court.one.open()
    court.passes(SECOND)
    court.keeper.detach("s1", court.clock_now)
    court.true += 10 * SECOND
    court.one.jumps(-10 * SECOND)
    court.one.attach(attach_no=2)
    court.passes(3 * SECOND)
    (incident,) = court.incidents()
    # 1000 ppm of ten seconds are uncertain.
    assert 9_980 * MILLISECOND < incident.detail["size_ns"] <= 10 * SECOND


def test_a_clock_that_keeps_going_wrong_is_not_reported_at_every_ping() -> None:
    court = Court()
    court.one.goes(1.05)
    court.passes(60 * SECOND)
    assert 3 <= len(court.incidents()) <= 7
    assert sum(notice.detail["size_ns"] for notice in court.incidents()) > 2 * SECOND


# The arithmetic alone.

DELAYS = st.integers(0, 300 * MILLISECOND)


def sample(witness: Witness, sent: int, out: int, back: int, raw_at: int) -> None:
    witness.pong(sent, sent + out + back, raw_at, 0)


@example(delays=[(0, 298_278_217), (0, 0)], ppm=990, offset=0)
@given(
    delays=st.lists(st.tuples(DELAYS, DELAYS), min_size=2, max_size=30),
    ppm=st.integers(-990, 990),
    offset=st.integers(-(10**18), 10**18),
)
def test_two_sound_clocks_never_disagree(delays: list[tuple[int, int]], ppm: int, offset: int) -> None:
    """Whatever the answers take, and drifting as far as clocks may."""
    witness = Witness(list, lambda: "id")
    now = 0
    for out, back in delays:
        at = now + out
        sample(witness, now, out, back, offset + at + at * ppm // 1_000_000)
        now += out + back + 250 * MILLISECOND
    assert list(witness.disruptions) == []


@given(
    before=st.lists(st.tuples(DELAYS, DELAYS), min_size=1, max_size=8),
    after=st.tuples(DELAYS, DELAYS),
    jump=st.integers(-20 * SECOND, 20 * SECOND),
)
def test_a_jump_is_found_as_far_as_the_answers_allow(
    before: list[tuple[int, int]], after: tuple[int, int], jump: int
) -> None:
    """Never more than it was, never in the wrong direction, and not less than the uncertainty explains."""
    witness = Witness(lambda: [witness], lambda: "id")
    now = 0
    for out, back in before:
        sample(witness, now, out, back, now + out)
        now += out + back + 250 * MILLISECOND
    out, back = after
    sample(witness, now, out, back, now + out + jump)
    # While an answer is under way, the drift is allowed for twice.
    unsure = min(out + back for out, back in before) + out + back + 2 * (now + out + back) // 1000 + 1
    found = list(witness.disruptions)
    if abs(jump) > unsure:
        (disruption,) = found
        assert disruption.ahead == (jump > 0)
        assert abs(jump) - unsure <= disruption.size_ns <= abs(jump)
        assert disruption.culprit is None
        assert witness.settle(now + 10 * SECOND) == found
        assert disruption.culprit is Culprit.UNKNOWN
    elif found:
        assert found[0].ahead == (jump > 0)
        assert found[0].size_ns <= abs(jump)


def test_how_exactly_an_offset_is_known_narrows_to_the_quickest_answer_and_drifts_apart_again() -> None:
    """What the metric shows: the worst of all that are attached; one that is gone counts no more."""
    first = Witness(list, lambda: "id")
    assert first.width_ns == 0
    first.pong(0, 8 * MILLISECOND, 100 * SECOND, 0)
    assert first.width_ns == 8 * MILLISECOND
    first.pong(SECOND, SECOND + MILLISECOND, 101 * SECOND, 0)
    assert first.width_ns == MILLISECOND
    # A slow answer a second later tells less than what is known, which has drifted by 1000 ppm each way.
    first.pong(2 * SECOND, 2 * SECOND + 50 * MILLISECOND, 102 * SECOND + 25 * MILLISECOND, 0)
    assert MILLISECOND < first.width_ns <= 4 * MILLISECOND
    court = Court(engines=2)
    for name, width in (("s1", 5 * MILLISECOND), ("s2", 3 * MILLISECOND)):
        witness = court.keeper._sessions[name].owner.witness = Witness(list, lambda: "id")
        witness.pong(0, width, 100 * SECOND, 0)
    assert court.keeper.offset_width_ns == 5 * MILLISECOND
    for name in court.engines:
        court.keeper.detach(name, court.clock_now)
    assert court.keeper.offset_width_ns == 0
