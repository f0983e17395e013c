"""What does not fit between what is known of a match and what an engine says next."""

from __future__ import annotations

from typing import NamedTuple

from engine.seats import Seat
from services.wire import clock_messages as m


class Fault(NamedTuple):
    """A field that contradicts."""

    field: str
    expected: str
    got: str


def differs(known: m.Open, message: m.Open, *names: str) -> Fault | None:
    """The first of the named fields that is not the same."""
    for name in names:
        expected, got = getattr(known, name), getattr(message, name)
        if expected != got:
            return Fault(name, str(expected), str(got))
    return None


class Banks:
    """What is known of both seats' banks."""

    def __init__(self) -> None:
        self._known: dict[Seat, int] = {}
        self._at_most: set[Seat] = set()

    def set(self, seat: Seat, bank_ns: int) -> None:
        """Known exactly, until `passed_by`."""
        self._known[seat] = bank_ns
        if self._at_most:
            self._at_most.discard(seat)

    def passed_by(self) -> None:
        """Another clock may have judged meanwhile: from now on a bank may be lower than known, but never higher."""
        self._at_most |= self._known.keys()

    def contradicted_by(self, message: m.Open) -> Fault | None:
        """Whether an engine says what cannot be."""
        known, got = self._known.get(message.seat), message.bank_ns
        if known is None or got == known or (got < known and message.seat in self._at_most):
            return None
        return Fault("bank_ns", f"<= {known}" if message.seat in self._at_most else str(known), str(got))


def of_new(last: m.Open | None, decision_no: int, banks: Banks, message: m.Open) -> Fault | None:
    """For a genuinely new decision: in order, nothing used yet, and the bank is what the last verdict left."""
    if message.key.decision_no <= decision_no:
        return Fault("decision_no", f"> {decision_no}", str(message.key.decision_no))
    if message.consumed_ns != 0:
        return Fault("consumed_ns", "0", str(message.consumed_ns))
    return of_passed_by(last, banks, message)


def of_continued(last: m.Open, verdict: m.Verdict, message: m.Open) -> Fault | None:
    """For a turn that goes on after a draw: the same turn, with exactly what it had used."""
    if message.key.decision_no != verdict.key.decision_no:
        return Fault("decision_no", str(verdict.key.decision_no), str(message.key.decision_no))
    if message.consumed_ns != verdict.consumed_ns:
        return Fault("consumed_ns", str(verdict.consumed_ns), str(message.consumed_ns))
    return differs(last, message, "seat", "bank_ns", "delay_ns")


def of_passed_by(last: m.Open | None, banks: Banks, message: m.Open) -> Fault | None:
    """For a later decision, whatever has passed before it."""
    fault = banks.contradicted_by(message)
    if fault is None and last is not None and last.delay_ns != message.delay_ns:
        fault = differs(last, message, "delay_ns")
    return fault


def of_another_part(
    opened: m.Open, asked: m.Open, verdict: m.Verdict | None, message: m.Open
) -> Fault | None:
    """For a turn re-attached in another part than the known one (a draw judged elsewhere, or not seen to be told)."""
    if message.start_raw_ns < opened.start_raw_ns:
        return Fault("start_raw_ns", f">= {opened.start_raw_ns}", str(message.start_raw_ns))
    used = opened.consumed_ns if verdict is None else verdict.consumed_ns
    if message.consumed_ns < used:
        return Fault("consumed_ns", f">= {used}", str(message.consumed_ns))
    return differs(asked, message, "seat", "bank_ns", "delay_ns")


def of_same_part(asked: m.Open, opened: m.Open, message: m.Open) -> Fault | None:
    """For a part of a turn that is re-attached. A resume is sent again with what it asked, or with what it got."""
    fault = differs(asked, message, "seat", "start_ns", "bank_ns", "delay_ns")
    if fault is None and message.consumed_ns not in (asked.consumed_ns, opened.consumed_ns):
        return Fault("consumed_ns", str(opened.consumed_ns), str(message.consumed_ns))
    return fault


def of_taken_over(opened: m.Open, decision_no: int, message: m.Open, *, over: bool) -> Fault | None:
    """For what a new owner opens of the newest known decision, which may be over."""
    if over:
        return Fault("decision_no", f"after {decision_no}", str(message.key.decision_no))
    return differs(opened, message, "seat", "bank_ns", "delay_ns")


def moved_on(asked: m.Open | None, opened: m.Open, message: m.Open) -> bool:
    """Whether a new owner opens a later part of this turn: a draw was judged by another clock, and stored.

    What the known part had used is taken as it was asked and as it was worked out, whichever is more.
    """
    known = max(opened.consumed_ns, 0 if asked is None else asked.consumed_ns)
    return message.key.decision_no == opened.key.decision_no and message.consumed_ns > known
