"""What one clock does with what it is told: the same again, of an older session, or in other surroundings."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from engine import clock
from engine.clock import SECOND, Effect
from engine.seats import SEATS
from services.clock.matchclock import MatchClock
from services.clock.state import State
from services.clock.timekeeper import Hangup, Said, Timekeeper
from services.wire import clock_messages as m
from tests.simulation.world import World

REPEATED = 0.3
"""How much of what a clock is told it is told twice, to see that nothing changes."""
Figures = tuple[int, int, int, int]
"""Elapsed, consumed, charge, bank after. Nanoseconds."""


class ClockWatch:
    """Invariants I15 and I18 and rule R15, on the side of the clock."""

    def __init__(self, world: World, keeper: Timekeeper) -> None:
        self._world = world
        self._keeper = keeper
        self._dice = world.dice(f"clock watch {keeper.clock_id}")
        self._real = keeper.handle
        keeper.handle = self.handle  # type: ignore[method-assign]

    def handle(self, session_name: str, message: m.EngineMessage, now: int) -> Said:
        """As Timekeeper."""
        session = session_name
        if self._superseded(session, message):
            return self._without_effect("I18", session, message, now)
        if isinstance(message, m.Arrival | m.ProbeReply) and self._dice.random() < REPEATED:
            self._out_of_date(session, message, now)
        said = self._real(session, message, now)
        if isinstance(message, m.Arrival) and self._dice.random() < REPEATED:
            self._again(session, message, now)
        return said

    def _superseded(self, session: str, message: m.EngineMessage) -> bool:
        keeper = self._keeper
        if not isinstance(message, m.Hello):
            return session not in keeper._sessions
        engine = keeper._engines.get(message.engine_id)
        if engine is None:
            return False
        if message.incarnation == engine.owner.incarnation:
            return message.attach_no <= engine.owner.attach_no
        return message.incarnation in engine.retired

    def _without_effect(self, invariant: str, session: str, message: m.EngineMessage, now: int) -> Said:
        before = self._everything()
        said = self._real(session, message, now)
        self._world.count(f"checked {invariant}")
        told = [each for _, each in said if not isinstance(each, Hangup | m.Stale)]
        if told or self._everything() != before:
            self._world.violate(invariant, f"{type(message).__name__} of {session[:8]} has an effect: {told}")
        return said

    def _out_of_date(self, session: str, message: m.Arrival | m.ProbeReply, now: int) -> None:
        """I15: what was said under an older fence, or answers an older probe."""
        key = message.key
        match_clock = self._keeper._matches.get(key.match_id)
        if match_clock is None:
            return
        older = replace(message, key=key._replace(fence=key.fence - 1))
        if isinstance(message, m.ProbeReply) and match_clock.fence == key.fence:
            # Older than what this clock asked last: the answer itself may be to another clock, with numbers of its own.
            older = m.ProbeReply(key, match_clock._probe_no - 1, message.watermark_ns + SECOND)
        self._without_effect("I15", session, older, now)

    def _again(self, session: str, message: m.Arrival, now: int) -> None:
        """R15: the first verdict stands, whatever command comes for that decision later."""
        match_clock = self._keeper._matches.get(message.key.match_id)
        if match_clock is None or match_clock.closed or match_clock.fence != message.key.fence:
            return
        if match_clock.decision_no != message.key.decision_no or match_clock.owner.session != session:
            return
        stood = match_clock._timeout if match_clock.state is State.FORFEIT else match_clock._verdict
        if stood is None or match_clock.state not in (State.JUDGED, State.HELD, State.FORFEIT):
            return
        other = replace(
            message, command_id="another", arrive_ns=message.arrive_ns + self._dice.randrange(2 * SECOND)
        )
        if match_clock.state is State.FORFEIT and other.arrive_ns < match_clock.deadline_ns:
            return
        before = state_of(match_clock)
        said = self._real(session, other, now)
        self._world.count("checked R15")
        if [each for _, each in said] != [stood] or state_of(match_clock) != before:
            self._world.violate("R15", f"{stood} was said before, and now {said}")

    def _everything(self) -> Any:
        keeper = self._keeper
        return (
            {match_id: state_of(match_clock) for match_id, match_clock in keeper._matches.items()},
            {
                name: (
                    engine.owner.incarnation,
                    engine.owner.attach_no,
                    engine.owner.session,
                    engine.owner.proven,
                )
                for name, engine in keeper._engines.items()
            },
        )


def state_of(match_clock: MatchClock) -> dict[str, Any]:
    """Everything that a match clock knows."""
    banks = match_clock._banks
    return {
        **vars(match_clock),
        "owner": (match_clock.owner.incarnation, match_clock.owner.session),
        "_banks": (dict(banks._known), set(banks._at_most)),
    }


def figures_of(opened: m.Open, consumed_ns: int, arrival: m.Arrival) -> Figures | None:
    """The rules, written down once more: what a command costs; None when it is late."""
    budget = opened.delay_ns + opened.bank_ns
    elapsed = consumed_ns + max(0, arrival.arrive_ns - opened.start_ns)
    if arrival.arrive_ns >= opened.start_ns + budget - consumed_ns:
        return None
    if arrival.effect is Effect.CONTINUES:
        return elapsed, elapsed, 0, opened.bank_ns
    charge = elapsed - opened.delay_ns if elapsed > opened.delay_ns else 0
    return elapsed, 0, charge, opened.bank_ns - charge


def elsewhere(dice: Random, opened: m.Open, consumed_ns: int, arrival: m.Arrival) -> Figures | None:
    """What a fresh clock says of the same stamps when everything else is different; None when it is late."""
    luck = dice.randrange
    key = m.Key(str(luck(10**9)), luck(1, 99), luck(1, 99))
    keeper = Timekeeper(str(luck(99)), m.Policy(), lambda: str(luck(10**9)))
    now, gaps = luck(10**15), luck(10**12)
    mark = arrival.arrive_ns + luck(SECOND)
    hello = m.Hello(
        str(luck(9)), str(luck(9)), luck(1, 9), str(luck(9)), str(luck(9)), luck(10**15), mark, "v1"
    )
    keeper.handle("session", hello, now)
    shuffled = replace(
        opened,
        key=key,
        cause=m.OpenCause.REATTACH,
        seat=dice.choice(SEATS),
        kind=str(luck(9)),
        start_raw_ns=luck(10**15),
        mark_ns=luck(10**15),
        gap_total_ns=gaps,
        consumed_ns=consumed_ns,
        credited_total_ns=luck(SECOND),
        outage_hint_ns=luck(SECOND),
    )
    keeper.handle("session", shuffled, now + luck(SECOND))
    asked = m.Arrival(key, str(luck(9)), arrival.arrive_ns, luck(10**15), gaps + luck(SECOND), arrival.effect)
    said = keeper.handle("session", asked, now + luck(SECOND, 9 * SECOND))
    verdict = next((each for _, each in said if isinstance(each, m.Verdict)), None)
    return None if verdict is None else _figures(verdict)


def foretold(dice: Random, hello: m.Hello) -> dict[m.Key, tuple[int, int, Figures | None]]:
    """I10: deadline, time used and verdict, if a command waits, that a clock without memory comes to."""
    keeper = Timekeeper("fresh", m.Policy(), lambda: "id")
    found: dict[m.Key, tuple[int, int, Figures | None]] = {}
    for _, message in keeper.handle("fresh", hello, dice.randrange(10**15)):
        match message:
            case m.Armed():
                found[message.key] = (message.deadline_ns, message.consumed_ns, None)
            case m.Verdict():
                found[message.key] = (*found[message.key][:2], _figures(message))
            case _:
                pass
    return found


def _figures(verdict: m.Verdict) -> Figures:
    return verdict.elapsed_ns, verdict.consumed_ns, verdict.charge_ns, verdict.bank_after_ns


def deadline_of(opened: m.Open, consumed_ns: int) -> int:
    """The first instant that is too late."""
    return clock.deadline(opened.start_ns, consumed_ns, opened.bank_ns, opened.delay_ns)
