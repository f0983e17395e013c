"""What clocks say of decisions, held against the rules and against what was true.

The names I2 to I20 are those of the invariants of the time model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from engine.clock import SECOND
from services.clock.timekeeper import Said
from services.wire import clock_messages as m
from tests.simulation.clockwatch import Figures, deadline_of, elsewhere, figures_of, foretold
from tests.simulation.opened import RESOLUTION_NS, Opened, Openings, slack
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.game import GameProcess

REJUDGED: Final = 0.2
"""How many verdicts are judged again in other surroundings."""
ASKED_AGAIN: Final = 0.05
"""How often a clock that knows nothing is told what a game process knows."""
PROMPT_NS: Final = 5 * SECOND
"""The longest that a decision may stay open beyond its time when all is well."""


class Verdicts:
    """Sees everything that clocks say."""

    def __init__(self, world: World, openings: Openings) -> None:
        self.world = world
        self.openings = openings
        self.severe = False
        self.calm_from = 0
        """From then on nothing is done to anybody, and what was done is over."""
        self.processes: list[GameProcess] = []
        self.on_said: list[Callable[[], None]] = []
        self.on_timeout: list[Callable[[], None]] = []
        self._dice = world.dice("verdicts")
        self._told: dict[tuple[m.Key, str], Figures] = {}
        self._timeouts: dict[tuple[str, str, int], int] = {}
        """By clock, match and decision, what the part that was lost had used before."""

    def said(self, clock_name: str, said: Said) -> None:
        """A clock has decided."""
        if any(isinstance(message, m.Verdict | m.Timeout | m.Armed | m.Probe) for _, message in said):
            tell(self.on_said)
        for _, message in said:
            match message:
                case m.Armed():
                    self._armed(clock_name, message)
                case m.Timeout():
                    self._timeout(clock_name, message)
                case m.Verdict():
                    self._verdict(clock_name, message)
                case m.Mismatch() if not self.severe:
                    self.world.violate("R16", f"{message}")
                case m.Void():
                    self.world.count(f"void said {message.reason}")
                case _:
                    pass
        if said and self.processes and self._dice.random() < ASKED_AGAIN:
            self._ask_again(self._dice.choice(self.processes[-8:]))

    # Deadlines.

    def _armed(self, clock_name: str, armed: m.Armed) -> None:
        record = self._newest_armed(armed)
        if record is None:
            return  # of an earlier part of the turn
        opened, consumed = record.opened, armed.consumed_ns
        record.consumed_ns = record.armed_by[clock_name] = consumed
        match opened.cause:
            case m.OpenCause.RESUME:
                self._resumed(record, armed)
            case m.OpenCause.CONTINUE:
                self.world.count("checked I20")
                if consumed < opened.consumed_ns:
                    self.world.violate(
                        "I20", f"{armed.key} goes on with {opened.consumed_ns - consumed} ns more"
                    )
            case _:
                if consumed != opened.consumed_ns:
                    self.world.violate(
                        "I10", f"{armed.key} began with {opened.consumed_ns} used, not {consumed}"
                    )
        if consumed > record.bound_ns + RESOLUTION_NS:
            self.world.violate(
                "I12", f"{armed.key} goes on with {consumed} ns used, at most {record.bound_ns} were"
            )

    def _newest_armed(self, armed: m.Armed) -> Opened | None:
        record = self.openings.find(armed.key)
        fits = record is not None and deadline_of(record.opened, armed.consumed_ns) == armed.deadline_ns
        return record if fits else None

    def _resumed(self, record: Opened, armed: m.Armed) -> None:
        self.world.count("resumed")
        budget = record.opened.bank_ns + record.opened.delay_ns
        floor = min(m.Policy().resume_floor_ns, budget)
        if budget - armed.consumed_ns < floor:
            self.world.violate(
                "I12", f"{armed.key} goes on with {budget - armed.consumed_ns} ns, not {floor}"
            )

    # Verdicts.

    def _verdict(self, clock_name: str, verdict: m.Verdict) -> None:
        key, world = verdict.key, self.world
        figures = (verdict.elapsed_ns, verdict.consumed_ns, verdict.charge_ns, verdict.bank_after_ns)
        world.count("checked I11")
        if self._told.setdefault((key, verdict.command_id), figures) != figures:
            world.violate(
                "I11", f"{key} cost {self._told[key, verdict.command_id]}, by another clock {figures}"
            )
        arrival = self.arrival(key, verdict.command_id)
        record = None if arrival is None else self._part_of(arrival)
        if arrival is None or record is None:
            world.violate("I2", f"{key} was judged, and nobody was asked or nothing was heard")
            return
        # Another clock, or the next one at this address, could not know; and a draw that one of them judged stands.
        lost_with = self._timeouts.get((clock_name, key.match_id, key.decision_no))
        if lost_with is not None and record.opened.consumed_ns <= lost_with:
            world.violate("R21", f"{key} is in time after it was proven to be lost")
        consumed = record.armed_by.get(clock_name, record.consumed_ns)
        expected = figures_of(record.opened, consumed, arrival)
        world.count("checked I2")
        if figures != expected:
            world.violate("I2", f"{key} cost {figures}, by the rules {expected}")
        waited = world.now - record.process.watch.heard_at[key, verdict.command_id]
        if world.now - waited > self.calm_from and waited > PROMPT_NS:
            world.violate("I21", f"the verdict on {key} took {waited / SECOND:.3f} s though all was well")
        if self._dice.random() < REJUDGED:
            self._rejudge(record.opened, consumed, arrival)

    def arrival(self, key: m.Key, command_id: str) -> m.Arrival | None:
        """What a clock was told of a command."""
        for record in self.openings.by_key.get(key, []):
            arrival = record.process.watch.arrivals.get((key, command_id))
            if arrival is not None:
                return arrival
        return None

    def _part_of(self, arrival: m.Arrival) -> Opened | None:
        parts = [
            each
            for each in self.openings.by_key.get(arrival.key, [])
            if each.opened.start_raw_ns <= arrival.read_raw_ns
        ]
        return parts[-1] if parts else None

    def _rejudge(self, opened: m.Open, consumed: int, arrival: m.Arrival) -> None:
        """I2: nothing but the stamps matters, and the deadline itself is too late."""
        deadline = deadline_of(opened, consumed)
        for stamp in (arrival.arrive_ns, deadline - 1, deadline, deadline + self._dice.randrange(SECOND)):
            asked = m.Arrival(
                arrival.key,
                arrival.command_id,
                stamp,
                arrival.read_raw_ns,
                arrival.gap_total_ns,
                arrival.effect,
            )
            here, there = figures_of(opened, consumed, asked), elsewhere(self._dice, opened, consumed, asked)
            self.world.count("checked I2 elsewhere")
            if here != there:
                self.world.violate("I2", f"{arrival.key} at {stamp} costs {here}, elsewhere {there}")

    def _ask_again(self, process: GameProcess) -> None:
        """I10: a clock that never heard of these decisions comes to the same."""
        live, link = process.live, process.clock
        now = process.kernel.read(self.world.now)
        if not process.alive or now < live._last_raw:
            return
        known = live._last_raw
        hello = link._hello()
        live._last_raw = known
        found = foretold(self._dice, hello)
        for governed in link._matches.values():
            opened, arrival = governed.opened, governed.arrival
            if opened is None or opened.cause is m.OpenCause.RESUME:
                continue
            if arrival is not None and _beyond_caps(opened, arrival, hello.raw_ns):
                continue
            expected: object = (deadline_of(opened, opened.consumed_ns), opened.consumed_ns, None)
            if arrival is not None:
                expected = (*expected[:2], figures_of(opened, opened.consumed_ns, arrival))  # type: ignore[index]
            self.world.count("checked I10")
            if found.get(opened.key) != expected:
                self.world.violate(
                    "I10",
                    f"a clock without memory makes {found.get(opened.key)} of {opened.key}, not {expected}",
                )

    # Timeouts.

    def _timeout(self, clock_name: str, timeout: m.Timeout) -> None:
        key = timeout.key
        tell(self.on_timeout)
        again = (clock_name, key.match_id, key.decision_no) in self._timeouts
        self._timeouts[clock_name, key.match_id, key.decision_no] = timeout.consumed_ns
        if timeout.proof_ns < timeout.deadline_ns:
            self.world.violate("I7", f"{key} timed out at {timeout.proof_ns}, before {timeout.deadline_ns}")
        if again:
            return
        record = self.openings.find(key, timeout.deadline_ns)
        self.world.count("checked I5")
        if record is None:
            self.world.violate("I10", f"{key} timed out at {timeout.deadline_ns}, a deadline that nobody has")
            return
        record.process.watch.lost(timeout)
        self._prompt(record, timeout)
        self._nothing_heard(record, timeout)

    def _prompt(self, record: Opened, timeout: m.Timeout) -> None:
        """I21: when all is well, what is lost is told soon."""
        stood_still = record.process.true_gap - record.true_gap
        due_at = record.at + timeout.deadline_ns - record.opened.start_ns + stood_still
        if record.at > self.calm_from:
            self.world.count("checked I21")
            if self.world.now > due_at + PROMPT_NS:
                late = (self.world.now - due_at) / SECOND
                self.world.violate("I21", f"{timeout.key} was lost {late:.3f} s before that was told")

    def _nothing_heard(self, record: Opened, timeout: m.Timeout) -> None:
        key, opened = timeout.key, record.opened
        budget = timeout.deadline_ns - opened.start_ns
        for heard in record.process.commands_heard:
            if (heard.match_id, heard.decision_id, heard.fence) != (
                key.match_id,
                record.decision_id,
                key.fence,
            ):
                continue
            if not heard.timed or not heard.legal or heard.command.seat is not opened.seat:
                continue
            took = heard.true_mark - record.true_mark
            if took + slack(record.stalls, heard.stalls) < budget:
                self.world.violate(
                    "I5", f"{key} timed out, but a legal command came {(budget - took) / SECOND:.6f} s before"
                )
                return


def _beyond_caps(opened: m.Open, arrival: m.Arrival, raw_ns: int) -> bool:
    """Whether a clock would void rather than judge."""
    policy = m.Policy()
    credit = max(0, arrival.gap_total_ns - opened.gap_total_ns) + opened.credited_total_ns
    return raw_ns - arrival.read_raw_ns > policy.hold_max_ns or credit > policy.credit_total_max_ns


def tell(told: list[Callable[[], None]]) -> None:
    """Each of them, even if they change the list."""
    for each in list(told):
        each()
