"""The clock of one match, as a state machine that is told what an engine says and what time it is.

`services.clock.state` has the picture.

`now` is the clock's own monotonic time and only says when to look again; what is decided depends on the engine's
stamps alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from engine import clock
from engine.clock import Effect
from services.clock import continuity
from services.clock.continuity import Fault, moved_on
from services.clock.outage import before
from services.clock.owner import Beat, Owner
from services.clock.state import CLOSED_MEMORY_NS, LIVE, MEMORY_NS, REARM_NS_MIN, State
from services.clock.witness import DISRUPTION_MAX_NS, Disruption
from services.wire import clock_messages as m
from services.wire.clock_messages import OpenCause, VoidReason

Said = list[m.ClockMessage]


class MatchClock:
    """The clock of one match. Every method returns what to tell the engine."""

    def __init__(self, match_id: str, owner: Owner, policy: m.Policy, new_id: Callable[[], str]) -> None:
        self.match_id = match_id
        self.fence = 0
        self.owner = owner
        self.state = State.IDLE
        self.closed = False
        self.due: int | None = None
        """When to look again, on the clock's own time."""
        self.scheduled: int | None = None
        """The newest `due` that the timekeeper has in its heap."""
        self.decision_no = 0
        """The newest decision heard of."""
        self.deadline_ns = 0
        self._banks = continuity.Banks()
        self.credited_ns = 0
        """Everything credited to this match in decisions that are over."""
        self._frozen_ns = 0  # what its owners' clocks stood still unseen by themselves: credited by nature
        self.since = 0
        """When the open decision began for this clock, on its own time."""
        self.doubted = False
        """Void because of what the witness says, which is still to be reported."""
        self._policy = policy
        self._new_id = new_id
        self._asked: m.Open | None = None  # as the engine said it
        self._opened: m.Open | None = None  # as it counts: a resume works out another `consumed_ns`
        self._granted_ns = 0
        self._verdict: m.Verdict | None = None
        self._timeout: m.Timeout | None = None
        self._void: m.Void | None = None
        self._proven_here = False  # the stamps of the timeout are on the timeline of this owner
        self._hold_since = 0
        self._probe_no = 0
        self._let_go = False  # the owner does not speak of the open decision any more
        self._left: Beat | None = None  # the owner's last, when it has left

    # What an engine says.

    def open(self, message: m.Open, owner: Owner, now: int) -> Said:
        """A decision is open. Its fence is not below the known one."""
        if message.key.fence > self.fence and self.fence > 0:
            return self._take_over(message, owner, now)
        if self.fence == 0:
            self.fence, self.owner = message.key.fence, owner
            return self._first(message, now)
        if owner is not self.owner:
            fault = Fault("incarnation", self.owner.incarnation, owner.incarnation)
            return self._contradicts(message.key, fault, now)
        if self.closed:
            return self._contradicts(message.key, Fault("state", "closed", "open"), now)
        if self.state is State.VOID:
            return self._void_again()
        if self.state is State.FORFEIT:
            return self._after_forfeit(message, now)
        match message.cause:
            case OpenCause.NEW:
                return self._new(message, now)
            case OpenCause.CONTINUE:
                return self._continue(message, now)
            case OpenCause.RESUME | OpenCause.REATTACH:
                return self._reattach(message, now)

    def arrive(self, message: m.Arrival, now: int, *, hold_ns: int = 0) -> Said:
        """A legal command of the deciding seat was heard, `hold_ns` ago if it had to wait for a session."""
        if self.closed or self.state is State.VOID:
            return [] if self.closed else self._void_again()
        opened = self._opened
        if opened is None or message.key.decision_no != self.decision_no:
            fault = Fault("decision_no", str(self.decision_no), str(message.key.decision_no))
            return self._contradicts(message.key, fault, now)
        if self.state is State.FORFEIT:
            if self._proven_here and message.arrive_ns < self.deadline_ns:
                fault = Fault("arrive_ns", f">= {self.deadline_ns}", str(message.arrive_ns))
                return self._contradicts(message.key, fault, now, VoidReason.ORDER_BROKEN)
            return self._timeout_again(message.key)
        if self._verdict is not None:
            # The first one stands: repeats, by whatever command, get it again.
            return [self._verdict]
        if self.state is State.IDLE:
            return self._contradicts(message.key, Fault("state", "open", "idle"), now)
        return self._judge(opened, message, now, hold_ns)

    def probe_reply(self, message: m.ProbeReply, now: int) -> Said:
        """The engine had heard everything before its watermark when it answered."""
        if (
            self.closed
            or self.state is not State.PROBING
            or message.probe_no != self._probe_no
            or message.key.decision_no != self.decision_no
        ):
            return []
        late_ns = message.watermark_ns - self.deadline_ns
        if late_ns < 0:
            self.state = State.RUNNING
            self.due = now + max(REARM_NS_MIN, -late_ns)
            return []
        if late_ns > self._policy.hold_max_ns:
            return self._give_up(
                VoidReason.HOLD_TOO_LONG, f"no verdict for {late_ns} ns after the deadline", now
            )
        return self._forfeit(m.Proof.WATERMARK, message.watermark_ns, now)

    def applied(self, message: m.Applied, now: int) -> None:
        """The effect of the verdict is committed."""
        verdict = self._verdict
        if (
            self.state is State.JUDGED
            and verdict is not None
            and verdict.key == message.key
            and verdict.command_id == message.command_id
        ):
            self._finish(now)

    def close(self, fence: int, now: int) -> None:
        """The owner is done with the match: what it hears from now on, it does not hear for this one."""
        self.fence = fence
        self.closed = True
        self._left = self._left or self.owner.proven
        self.due = now + CLOSED_MEMORY_NS

    def release(self, at_ns: int, now: int) -> None:
        """The owner hands the match over: it listened up to `at_ns`."""
        self.close(self.fence, now)
        self._left = Beat(at_ns, self.owner.gap_total_ns, now)

    def stalled(self, gaps: tuple[m.Gap, ...], gap_total_ns: int, now: int) -> Said:
        """The engine tells of gaps: too long ones, or too many, void a match whose decision was open in them."""
        opened = self._counting()
        if opened is None:
            return []
        for gap in gaps:
            size_ns = min(gap.size_ns, gap.to_raw_ns - opened.start_raw_ns)  # the part in which it was open
            if size_ns > self._policy.gap_max_ns:
                why = f"not listening for {size_ns} ns ({gap.cause})"
                return self._give_up(VoidReason.GAP_TOO_LONG, why, now)
        return self._over_credit(self._credit(gap_total_ns, opened), now)

    def disrupted(self, disruption: Disruption, now: int) -> Said:
        """The owner's clock stood still: its player had the time for free, and that counts like other credit."""
        opened = self._counting()
        if opened is None or disruption.at_ns <= self.since:
            return []
        self._frozen_ns += disruption.size_ns
        if disruption.size_ns > self._policy.gap_max_ns:
            self.doubted = True
            still = f"the clock of the engine stood still for {disruption.size_ns} ns"
            return self._give_up(VoidReason.GAP_TOO_LONG, still, now)
        told = self._over_credit(self._credit(self.owner.gap_total_ns, opened), now)
        self.doubted = bool(told)
        return told

    def _counting(self) -> m.Open | None:
        """The decision whose time runs."""
        counts = not self.closed and self.state in (State.RUNNING, State.PROBING)
        return self._opened if counts else None

    # What the timer and the session do.

    def expire(self, now: int) -> Said:
        """It is due: ask the engine, or give up what nobody answers. Nothing is decided by the time alone."""
        self.due = None
        if self.state is State.RUNNING and self._opened is not None:
            self.state = State.PROBING
            self._probe_no += 1
            self._hold_since = now
            self.due = now + self._policy.hold_max_ns
            return [m.Probe(self._opened.key, self._probe_no, self.deadline_ns)]
        if self.state in LIVE:
            waited = f"{self.state.name.lower()} for {now - self._hold_since} ns"
            return self._give_up(VoidReason.HOLD_TOO_LONG, waited, now)
        return []

    def lost(self, now: int) -> None:
        """The session is gone: no timeouts, only memory."""
        if not self.closed:
            self.due = now + MEMORY_NS

    def unmentioned(self, now: int) -> None:
        """A new session of the owner does not know of an open decision.

        Either its effect was committed meanwhile, or the owner has let the match go because another took it up. Nothing
        times out, and whoever opens next shows which of the two it was.
        """
        self._banks.passed_by()
        if self.state in LIVE and not self.closed:
            self._let_go = True
            # What the owner hears from now on, it does not hear for this match.
            self._left = self.owner.proven
            self.due = now + MEMORY_NS

    @property
    def timed(self) -> bool:
        """Whether being due means more than being forgotten."""
        return self.state in LIVE and not self.closed and not self._let_go

    # Opening.

    def _first(self, message: m.Open, now: int) -> Said:
        """Of a match that this clock does not know: it believes what it is told."""
        if message.cause is OpenCause.CONTINUE:
            return self._contradicts(message.key, Fault("cause", "any other", message.cause), now)
        self.credited_ns = message.credited_total_ns
        if message.cause is OpenCause.RESUME:
            return self._resume(message, message.consumed_ns, message.outage_hint_ns, 0, now)
        if message.cause is OpenCause.NEW and message.consumed_ns != 0:
            fault = Fault("consumed_ns", "0", str(message.consumed_ns))
            return self._contradicts(message.key, fault, now)
        return self._run(message, message.consumed_ns, 0, now)

    def _new(self, message: m.Open, now: int) -> Said:
        if self._let_go:
            self._finish(now, stored=False)
        if message.key.decision_no == self.decision_no and message == self._asked and self.state in LIVE:
            return self._armed_again(message)
        if self.state is not State.IDLE and self.state is not State.JUDGED:
            return self._contradicts(message.key, Fault("state", "idle", self.state.name.lower()), now)
        self._finish(now)
        self.credited_ns = max(self.credited_ns, message.credited_total_ns)
        fault = continuity.of_new(self._opened, self.decision_no, self._banks, message)
        return self._run(message, 0, 0, now) if fault is None else self._contradicts(message.key, fault, now)

    def _continue(self, message: m.Open, now: int) -> Said:
        if message == self._asked and self.state in LIVE:
            return self._armed_again(message)
        if self.state is not State.HELD or self._opened is None or self._verdict is None:
            fault: Fault | None = Fault("state", "held", self.state.name.lower())
        else:
            fault = continuity.of_continued(self._opened, self._verdict, message)
        if fault is not None:
            return self._contradicts(message.key, fault, now)
        self._credit_verdict()
        return self._run(message, message.consumed_ns, 0, now)

    def _reattach(self, message: m.Open, now: int) -> Said:
        """The same owner on a new session. It may have been governed by another clock in between."""
        asked, opened, number = self._asked, self._opened, message.key.decision_no
        if asked is None or opened is None or number > self.decision_no:
            return self._pass_by(message, now)
        if number < self.decision_no or self.state not in LIVE:
            over = self.decision_no - (self.state in LIVE)
            return self._contradicts(message.key, Fault("decision_no", f"> {over}", str(number)), now)
        # The raw clock tells the parts of a turn apart: live time may be the same in two, or even less, after a gap.
        if message.start_raw_ns != opened.start_raw_ns:
            fault = continuity.of_another_part(opened, asked, self._verdict, message)
            if fault is not None:
                return self._contradicts(message.key, fault, now)
            self._credit_verdict()
            return self._run(message, message.consumed_ns, 0, now)
        self._let_go, self._left = False, None
        fault = continuity.of_same_part(asked, opened, message)
        if fault is not None:
            return self._contradicts(message.key, fault, now)
        if self._verdict is None:
            self.state = State.RUNNING
            self.due = now + max(0, self.deadline_ns - message.mark_ns)
        else:
            self.due = self._hold_since + self._policy.hold_max_ns
        return self._armed_again(message)

    def _pass_by(self, message: m.Open, now: int) -> Said:
        """A later decision than the known one, when those between may have been judged elsewhere."""
        self._finish(now, stored=False)
        self._banks.passed_by()
        fault = continuity.of_passed_by(self._opened, self._banks, message)
        if fault is not None:
            return self._contradicts(message.key, fault, now)
        self.credited_ns = max(self.credited_ns, message.credited_total_ns)
        if message.cause is OpenCause.RESUME:
            return self._resume(message, message.consumed_ns, message.outage_hint_ns, 0, now)
        return self._run(message, message.consumed_ns, 0, now)

    def _take_over(self, message: m.Open, owner: Owner, now: int) -> Said:
        """A new owner under a higher fence."""
        beat, opened, lost = self._left or self.owner.proven, self._opened, self.state is State.FORFEIT
        number, followed = message.key.decision_no, message.key.fence == self.fence + 1
        self.fence, self.owner, self.closed, self._left = message.key.fence, owner, False, None
        if self.state is State.VOID:
            return self._void_again()
        if number > self.decision_no or opened is None or (lost and moved_on(self._asked, opened, message)):
            return self._pass_by(message, now)  # even a proven timeout, if the match has gone on without it
        if lost:
            self._proven_here = False
            return self._after_forfeit(message, now)
        over = number < self.decision_no or self.state not in LIVE
        fault = continuity.of_taken_over(opened, self.decision_no, message, over=over)
        if fault is not None:
            return self._contradicts(message.key, fault, now)
        self.credited_ns = max(self.credited_ns, message.credited_total_ns)
        if message.cause is OpenCause.REATTACH:  # another clock resumed it: the player was told the result
            return self._run(message, message.consumed_ns, 0, now)
        part = (opened, self._verdict, self._granted_ns, beat)
        proven, earlier, gap = before(*part, message.outage_hint_ns, self.since, now, followed=followed)
        return self._resume(message, max(proven, message.consumed_ns), gap, earlier, now)

    def _resume(self, message: m.Open, proven_ns: int, gap_ns: int, earlier_ns: int, now: int) -> Said:
        """The turn goes on after an outage, which is credited as far as the policy allows; `earlier_ns` was before."""
        self._asked, self.decision_no = message, message.key.decision_no
        if gap_ns > self._policy.gap_max_ns:
            return self._give_up(VoidReason.GAP_TOO_LONG, f"an outage of {gap_ns} ns", now)
        floor = self._policy.resume_floor_ns
        consumed = clock.resume_consumed(proven_ns, message.bank_ns, message.delay_ns, floor)
        granted = earlier_ns + gap_ns + proven_ns - consumed
        return self._over_credit(granted, now) or self._run(message, consumed, granted, now)

    def _run(self, message: m.Open, consumed_ns: int, granted_ns: int, now: int) -> Said:
        self.state = State.RUNNING
        self._let_go, self._left = False, None
        same_owner = message.cause in (OpenCause.CONTINUE, OpenCause.REATTACH)
        if not same_owner or message.key.decision_no != self.decision_no:
            self.since = now
        self.decision_no = message.key.decision_no
        self._banks.set(message.seat, message.bank_ns)
        self._asked = message
        as_asked = message.consumed_ns == consumed_ns
        self._opened = message if as_asked else replace(message, consumed_ns=consumed_ns)
        self._granted_ns = granted_ns
        self._verdict = None
        self.deadline_ns = clock.deadline(message.start_ns, consumed_ns, message.bank_ns, message.delay_ns)
        # Counted from the receipt, so never early: the message was under way for some time. A start is newer than the
        # mark of a busy process, and no mark reaches the deadline sooner than counted from it.
        self.due = now + max(0, self.deadline_ns - max(message.mark_ns, message.start_ns))
        return self._armed_again(message)

    def _armed_again(self, message: m.Open) -> Said:
        assert self._opened is not None
        remaining = max(0, self.deadline_ns - message.mark_ns)
        consumed, granted = self._opened.consumed_ns, self._granted_ns
        # A resume is a question: it has an answer, even one that grants nothing.
        as_asked = message.cause is not OpenCause.RESUME and (message.consumed_ns, 0) == (consumed, granted)
        return [m.Armed(message.key, self.deadline_ns, remaining, consumed, granted, as_asked)]

    # Deciding.

    def _judge(self, opened: m.Open, message: m.Arrival, now: int, hold_ns: int) -> Said:
        part = (opened.start_ns, message.arrive_ns, opened.consumed_ns, opened.bank_ns, opened.delay_ns)
        if hold_ns > self._policy.hold_max_ns:
            return self._give_up(VoidReason.HOLD_TOO_LONG, f"a command waited for {hold_ns} ns", now)
        if message.arrive_ns >= self.deadline_ns:
            return self._forfeit(m.Proof.ARRIVAL, message.arrive_ns, now)
        credit = self._credit(message.gap_total_ns, opened)
        if spent := self._over_credit(credit, now):
            return spent
        cost = clock.settle(*part, message.effect)
        self._verdict = m.Verdict(message.key, message.command_id, *cost, credit)
        self.state = State.JUDGED if message.effect is Effect.ENDS else State.HELD
        self._hold_since = now
        self.due = now + self._policy.hold_max_ns
        return [self._verdict]

    def _forfeit(self, proof: m.Proof, proof_ns: int, now: int) -> Said:
        opened = self._opened
        assert opened is not None
        assert proof_ns >= self.deadline_ns, "no forfeit without proof"
        doubt_ns = self.owner.witness.doubt_ns(self.since)
        if doubt_ns > DISRUPTION_MAX_NS:
            self.doubted = True
            proven = f"{proof.value} at {proof_ns}, deadline {self.deadline_ns}"
            return self._give_up(VoidReason.CLOCK_DISRUPTION, f"{doubt_ns} ns in doubt; {proven}", now)
        self.state = State.FORFEIT
        self.due = now + MEMORY_NS
        self._proven_here = True
        told = (opened.key, opened.seat, self.deadline_ns, proof, proof_ns, self._new_id(), opened.start_ns)
        self._timeout = m.Timeout(*told, opened.consumed_ns)
        return [self._timeout]

    def _give_up(self, reason: VoidReason, summary: str, now: int) -> Said:
        """Void the match: its time cannot be judged."""
        self.state = State.VOID
        self.due = now + MEMORY_NS
        self._void = m.Void(self.match_id, self.fence, reason.value, self._new_id(), summary)
        return [self._void]

    def _credit(self, gap_total_ns: int, opened: m.Open) -> int:
        gaps_ns = gap_total_ns - opened.gap_total_ns
        return gaps_ns + self._granted_ns if gaps_ns > 0 else self._granted_ns

    def _over_credit(self, credit_ns: int, now: int) -> Said:
        total = self.credited_ns + self._frozen_ns + credit_ns
        if total <= self._policy.credit_total_max_ns:
            return []
        return self._give_up(VoidReason.CREDIT_SPENT, f"{total} ns credited in all", now)

    def _finish(self, now: int, *, stored: bool = True) -> None:
        """The open decision is over. Its verdict counts if it was `stored`, not if it may be that of another clock."""
        verdict, opened = self._verdict, self._opened
        if stored and self.state is State.JUDGED and verdict is not None and opened is not None:
            self._banks.set(opened.seat, verdict.bank_after_ns)
            self._credit_verdict()
        self.state = State.IDLE
        self._let_go = False
        self.due = now + MEMORY_NS

    def _credit_verdict(self) -> None:
        if self._verdict is not None:
            self.credited_ns += self._verdict.credited_ns

    # Saying it again.

    def _after_forfeit(self, message: m.Open, now: int) -> Said:
        if message.key.decision_no == self.decision_no:
            return self._timeout_again(message.key)
        fault = Fault("decision_no", str(self.decision_no), str(message.key.decision_no))
        return self._contradicts(message.key, fault, now)

    def _timeout_again(self, key: m.Key) -> Said:
        assert self._timeout is not None
        self._timeout = replace(self._timeout, key=key)
        return [self._timeout]

    def _void_again(self) -> Said:
        assert self._void is not None
        self._void = replace(self._void, fence=self.fence)
        return [self._void]

    def _contradicts(
        self, key: m.Key, fault: Fault, now: int, reason: VoidReason = VoidReason.CONTRADICTION
    ) -> Said:
        said: Said = [m.Mismatch(key, *fault)]
        if self.closed:
            return said  # it has ended already
        return said + self._give_up(reason, f"{fault.field}: expected {fault.expected}, got {fault.got}", now)
