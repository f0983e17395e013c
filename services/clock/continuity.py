"""What does not fit between what is known of a match and what an engine says next."""

from __future__ import annotations

from collections.abc import Mapping
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


def of_new(last: m.Open | None, decision_no: int, banks: Mapping[Seat, int], message: m.Open) -> Fault | None:
    """For a genuinely new decision: in order, nothing used yet, and the bank is what the last verdict left."""
    if message.key.decision_no <= decision_no:
        return Fault("decision_no", f"> {decision_no}", str(message.key.decision_no))
    if message.consumed_ns != 0:
        return Fault("consumed_ns", "0", str(message.consumed_ns))
    known = banks.get(message.seat)
    if known is not None and message.bank_ns != known:
        return Fault("bank_ns", str(known), str(message.bank_ns))
    return None if last is None else differs(last, message, "delay_ns")


def of_continued(last: m.Open, verdict: m.Verdict, message: m.Open) -> Fault | None:
    """For a turn that goes on after a draw: the same turn, with exactly what it had used."""
    if message.key.decision_no != verdict.key.decision_no:
        return Fault("decision_no", str(verdict.key.decision_no), str(message.key.decision_no))
    if message.consumed_ns != verdict.consumed_ns:
        return Fault("consumed_ns", str(verdict.consumed_ns), str(message.consumed_ns))
    return differs(last, message, "seat", "bank_ns", "delay_ns")


def of_passed_by(last: m.Open | None, banks: Mapping[Seat, int], message: m.Open) -> Fault | None:
    """When decisions may have passed that this clock did not see: a bank never increases."""
    known = banks.get(message.seat)
    if known is not None and message.bank_ns > known:
        return Fault("bank_ns", f"<= {known}", str(message.bank_ns))
    return None if last is None else differs(last, message, "delay_ns")


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
