"""The open decision of a room: its stamps, its deadline, and what a command costs it."""

from __future__ import annotations

from engine import clock
from engine.clock import Charge, Effect
from engine.match import Match
from services.game.asked import Asked
from services.game.livetime import Stamp
from services.game.shell import Shell
from services.storage.journal import Judged
from services.wire.clock_messages import Armed, Arrival, Key, Open, OpenCause, Verdict


class OpenDecision:
    """A seat is to act and its time runs."""

    def __init__(self, opened: Open) -> None:
        self.opened = opened
        self.consumed_ns = opened.consumed_ns
        """Time of this turn used before its start; after an outage the clock may have lowered it."""

    @classmethod
    def begin(
        cls, state: Match, key: Key, cause: OpenCause, now: Stamp, credited_total_ns: int
    ) -> OpenDecision:
        """The decision that `state` asks for, opened at `now`."""
        seat = state.to_act
        assert seat is not None, "a seat is to act"
        return cls(
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
            )
        )

    @property
    def key(self) -> Key:
        """Which decision it is."""
        return self.opened.key

    @property
    def deadline_ns(self) -> int:
        """The first instant that is too late."""
        opened = self.opened
        return clock.deadline(opened.start_ns, self.consumed_ns, opened.bank_ns, opened.delay_ns)

    def armed(self, armed: Armed) -> bool:
        """Takes in what the clock counts from; whether that grants other time than was told."""
        granted = armed.consumed_ns != self.consumed_ns
        self.consumed_ns = armed.consumed_ns
        return granted

    def arrival(self, asked: Asked, effect: Effect) -> Arrival:
        """A legal command of the deciding seat, as the clock is told."""
        heard = asked.heard
        return Arrival(self.key, asked.request_id, heard.mark_ns, heard.raw_ns, heard.gap_total_ns, effect)

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
