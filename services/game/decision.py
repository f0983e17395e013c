"""The open decision of a room: its stamps, its deadline, and what a command costs it."""

from __future__ import annotations

from collections.abc import Sequence

from engine import clock
from engine.clock import Charge, Effect
from engine.event import Event, MatchEnded
from engine.match import Cause, Match
from services.game.asked import Asked
from services.game.gaps import Gaps
from services.game.livetime import LiveTime, Stamp
from services.game.resumption import Resumed
from services.game.shell import Shell
from services.storage.endings import Evidence
from services.storage.entry import Judged
from services.storage.incidents import Effect as IncidentEffect
from services.storage.incidents import Touched
from services.wire.clock_messages import Armed, Arrival, Key, Open, OpenCause, Timeout, Verdict
from services.wire.tables import Left


class OpenDecision:
    """A seat is to act and its time runs."""

    def __init__(self, opened: Open) -> None:
        self.opened = opened
        self.key = opened.key
        """Which decision it is."""
        self.consumed_ns = opened.consumed_ns
        """Time of this turn used before its start; after an outage the clock may have lowered it."""
        self.granted_ns = 0
        """What the clock credited when it opened: an outage, and what was needed for the floor."""
        self.resumed: Resumed | None = None
        self._count()

    def _count(self) -> None:
        opened = self.opened
        self.deadline_ns = clock.deadline(opened.start_ns, self.consumed_ns, opened.bank_ns, opened.delay_ns)
        """The first instant that is too late."""

    @classmethod
    def begin(
        cls,
        state: Match,
        key: Key,
        cause: OpenCause,
        now: Stamp,
        *,
        credited_total_ns: int,
        resumed: Resumed | None,
    ) -> OpenDecision:
        """The decision that `state` asks for, opened at `now`."""
        seat = state.to_act
        assert seat is not None, "a seat is to act"
        decision = cls(
            Open(
                key=key,
                cause=cause,
                seat=seat,
                kind=str(state.decision_kind),
                start_ns=now.at_ns,
                start_raw_ns=now.raw_ns,
                mark_ns=now.mark_ns,
                gap_total_ns=now.gap_total_ns,
                bank_ns=state.banks[seat],
                delay_ns=state.delay_ns,
                consumed_ns=state.consumed_ns,
                credited_total_ns=credited_total_ns,
                outage_hint_ns=0 if resumed is None else resumed.gap_ns,
            )
        )
        decision.resumed = resumed
        return decision

    def armed(self, armed: Armed) -> bool:
        """Takes in what the clock counts from; whether that grants other time than was told."""
        before = (self.consumed_ns, self.granted_ns)
        self.consumed_ns, self.granted_ns = armed.consumed_ns, max(self.granted_ns, armed.credited_ns)
        self._count()
        return (self.consumed_ns, self.granted_ns) != before

    def left(self, livetime: LiveTime) -> Left:
        """What is left now, on the safe side, and what was not charged."""
        opened = self.opened
        gap_ns = livetime.gap_total_ns - opened.gap_total_ns
        # Live time that turns out not to have been listened to is taken back: never more is shown than a turn has.
        whole_ns = opened.bank_ns + opened.delay_ns
        remaining_ns = self.deadline_ns - livetime.soon()
        if remaining_ns > whole_ns:
            remaining_ns = whole_ns
        elif remaining_ns < 0:
            remaining_ns = 0
        return Left(remaining_ns, self.granted_ns + gap_ns if gap_ns > 0 else self.granted_ns)

    def touched(
        self, gaps: Gaps, credited_ns: int, gap_total_ns: int, effect: IncidentEffect
    ) -> tuple[Touched, ...]:
        """The incidents behind `credited_ns` nanoseconds that were not charged."""
        if gap_total_ns == self.opened.gap_total_ns and self.resumed is None:
            return ()
        touched = [
            Touched(incident, effect, size_ns)
            for incident, size_ns in gaps.between(self.opened.gap_total_ns, gap_total_ns)
        ]
        stalled_ns = sum(each.credited_ns for each in touched)
        if self.resumed is not None:
            touched += self.resumed.touched(max(0, credited_ns - stalled_ns), effect)
        return tuple(touched)

    def arrival(self, asked: Asked, effect: Effect) -> Arrival:
        """A legal command of the deciding seat, as the clock is told."""
        heard = asked.heard
        return Arrival(
            key=self.key,
            command_id=asked.request_id,
            arrive_ns=heard.mark_ns,
            read_raw_ns=heard.raw_ns,
            gap_total_ns=heard.gap_total_ns,
            effect=effect,
            trace=asked.course.trace,
        )

    def cost(self, arrival: Arrival) -> Charge:
        """What a command in time costs, worked out here: the clock must come to the same."""
        opened = self.opened
        return clock.settle(
            opened.start_ns,
            arrival.arrive_ns,
            self.consumed_ns,
            opened.bank_ns,
            opened.delay_ns,
            arrival.effect,
        )

    def judged(self, arrival: Arrival, cost: Charge, verdict: Verdict, shell: Shell) -> Judged:
        """The stamps and figures behind a verdict, to be stored with its effect."""
        opened = self.opened
        return Judged(
            turn=self.key.decision_no,
            start_ns=opened.start_ns,
            arrive_ns=arrival.arrive_ns,
            start_raw_ns=opened.start_raw_ns,
            read_raw_ns=arrival.read_raw_ns,
            timeline_id=shell.livetime.timeline_id,
            carried_ns=self.consumed_ns,
            elapsed_ns=cost.elapsed,
            consumed_ns=cost.consumed,
            charge_ns=cost.charge,
            bank_after_ns=cost.bank_after,
            credited_ns=verdict.credited_ns,
            clock_id=shell.clock.clock_id,
            policy_version=shell.policy.version,
        )

    def facts(self, arrival: Arrival | None = None) -> dict[str, object]:
        """Everything a verdict depends on, for evidence."""
        opened = self.opened
        facts: dict[str, object] = {
            "turn": self.key.decision_no,
            "seat": opened.seat,
            "start_ns": opened.start_ns,
            "start_raw_ns": opened.start_raw_ns,
            "consumed_ns": self.consumed_ns,
            "bank_ns": opened.bank_ns,
            "delay_ns": opened.delay_ns,
            "gap_total_ns": opened.gap_total_ns,
        }
        if arrival is not None:
            facts |= {"arrive_ns": arrival.arrive_ns, "read_raw_ns": arrival.read_raw_ns}
        return facts

    def proof(self, proven: Timeout, arrival: Arrival | None, shell: Shell) -> Evidence:
        """What the loss of this decision rests on; `arrival` if a command came too late."""
        detail = {
            **self.facts(arrival),
            # Of the part that was proven to be lost: after a takeover that is the last owner's, on its timeline.
            "start_ns": proven.start_ns,
            "consumed_ns": proven.consumed_ns,
            "deadline_ns": proven.deadline_ns,
            "proof": proven.proof,
            "proof_ns": proven.proof_ns,
            "credited_ns": self.left(shell.livetime).credited_ns,
        }
        return shell.evidence(
            "timeout", proven.evidence_id, detail, from_ns=proven.start_ns, to_ns=proven.proof_ns
        )

    def late_ns(self, proven: Timeout, livetime: LiveTime) -> int | None:
        """How long after the deadline it is now; None for a deadline of an earlier owner, on another timeline."""
        if proven.start_ns != self.opened.start_ns:
            return None
        return livetime.soon() - proven.deadline_ns


def touched_by(
    decision: OpenDecision | None,
    asked: Asked | None,
    judged: Judged | None,
    events: Sequence[Event],
    shell: Shell,
) -> tuple[Touched, ...]:
    """The incidents that a ruling on this decision rests on."""
    if decision is None:
        return ()
    if judged is not None and asked is not None:
        credited_ns, gap_total_ns = judged.credited_ns or 0, asked.heard.gap_total_ns
        return decision.touched(shell.gaps, credited_ns, gap_total_ns, IncidentEffect.CREDITED)
    last = events[-1]
    if isinstance(last, MatchEnded) and last.outcome.cause in (Cause.TIME, Cause.VOID):
        effect = IncidentEffect.VOID if last.outcome.cause is Cause.VOID else IncidentEffect.CREDITED
        left = decision.left(shell.livetime)
        return decision.touched(shell.gaps, left.credited_ns, shell.livetime.gap_total_ns, effect)
    return ()
