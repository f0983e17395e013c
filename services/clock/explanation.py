"""Why each charge, credit, timeout and void of a match is what it is, worked out again from what is stored.

The engine's arithmetic is the judge, the stored stamps are the witnesses. Whatever cannot be reproduced is a fault of
the service and is said so; nothing is taken on trust from the figures that were stored beside the stamps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from engine import clock
from engine.clock import Effect
from engine.event import Event, TileDrawn, TurnTimed
from engine.eventjson import event_from_json
from engine.match import Cause, Match, expire, replay
from engine.seats import Seat
from services.storage.evidence import OutcomeRow, TimedRow, TimeFacts
from services.wire.clock_messages import Policy

POLICY_VERSION: Final = Policy().version


@dataclass(frozen=True, slots=True)
class Line:
    """One judged command. Nanoseconds."""

    revision: int
    turn: int
    seat: Seat
    waited_ns: int
    """From the start of this part of the turn to the arrival."""
    elapsed_ns: int
    charge_ns: int
    bank_after_ns: int
    credited_ns: int
    note: str


@dataclass(slots=True)
class Explanation:
    """The whole: what was reproduced, and what was not."""

    lines: list[Line] = field(default_factory=list)
    ending: str = ""
    credits: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """Everything that does not follow from what is stored. Empty when the match can be justified."""
    state: Match | None = None
    """The match after its whole log; None when that cannot be replayed."""


def explain(facts: TimeFacts, start: Match) -> Explanation:
    """Works a match out again. `start` is the match before its first event."""
    made = Explanation()
    state, fence = start, 0
    for number, row in enumerate(facts.log, 1):
        if row.revision != number:
            made.faults.append(f"ruling {number} is missing")
            return made
        if row.fence < fence:
            made.faults.append(f"ruling {number}: written under fence {row.fence}, after fence {fence}")
        fence = row.fence
        if row.policy_version not in (None, POLICY_VERSION):
            made.faults.append(f"ruling {number}: judged by the unknown policy {row.policy_version!r}")
        events = [event_from_json(event) for event in row.events]
        if row.start_ns is not None:
            _judged(row, events, state, facts, made)
        elif any(isinstance(event, TurnTimed) for event in events) and not _is_forfeit(
            row, events, state, facts
        ):
            made.faults.append(f"ruling {row.revision}: time was charged without stamps")
        try:
            state = replay(state, events)
        except Exception as error:  # noqa: BLE001 - whatever an altered log does to the rules
            made.faults.append(f"ruling {row.revision} does not follow from those before it: {error!r}")
            return made
    made.state = state
    _credits(facts, made)
    if facts.outcome is not None:
        _outcome(facts.outcome, state, facts, made)
    return made


def _is_forfeit(row: TimedRow, events: Sequence[Event], state: Match, facts: TimeFacts) -> bool:
    """Whether a ruling without stamps is that of the forfeit, whose stamps are in the evidence."""
    on_time = facts.outcome is not None and facts.outcome.cause == Cause.TIME
    return (
        on_time and row is facts.log[-1] and state.to_act is not None and list(events) == list(expire(state))
    )


def _judged(
    row: TimedRow, events: Sequence[Event], state: Match, facts: TimeFacts, made: Explanation
) -> None:
    seat = state.to_act
    timed = next((event for event in events if isinstance(event, TurnTimed)), None)
    if seat is None or timed is None or None in (row.arrive_ns, row.carried_ns, row.start_ns):
        made.faults.append(f"ruling {row.revision}: stamped, but no clock ran or a stamp is missing")
        return
    assert row.start_ns is not None
    assert row.arrive_ns is not None
    assert row.carried_ns is not None
    bank, effect = state.banks[seat], _effect(events)
    terms = (row.start_ns, row.arrive_ns, row.carried_ns, bank, facts.delay_ns)
    if clock.judge(*terms) is clock.Verdict.TIMED_OUT:
        made.faults.append(f"ruling {row.revision}: accepted, but it arrived at the deadline or later")
        return
    cost = clock.settle(*terms, effect)
    stored = (row.elapsed_ns, row.consumed_ns, row.charge_ns, row.bank_after_ns)
    told = (timed.elapsed_ns, timed.consumed_ns, timed.charge_ns, timed.bank_after_ns)
    if tuple(cost) != stored or tuple(cost) != told:
        made.faults.append(
            f"ruling {row.revision}: worked out {tuple(cost)}, stored {stored}, told {told}"
            " (elapsed, consumed, charge, bank after)"
        )
    note = ""
    if row.carried_ns != state.consumed_ns:
        note = f"went on after an outage with {row.carried_ns} ns used instead of {state.consumed_ns}"
        if not any(touch.kind in ("takeover", "handoff") for touch in facts.touches):
            made.faults.append(f"ruling {row.revision}: {note}, and no incident says why")
    made.lines.append(
        Line(
            row.revision,
            row.turn or 0,
            seat,
            max(0, row.arrive_ns - row.start_ns),
            cost.elapsed,
            cost.charge,
            cost.bank_after,
            row.credited_ns or 0,
            note,
        )
    )


def _effect(events: Sequence[Event]) -> Effect:
    return Effect.CONTINUES if any(isinstance(event, TileDrawn) for event in events) else Effect.ENDS


def _credits(facts: TimeFacts, made: Explanation) -> None:
    """Every credited nanosecond is covered by an incident."""
    for touch in facts.touches:
        lasted = "still lasts" if touch.ended_at is None else f"until {touch.ended_at:%H:%M:%S.%f}"
        made.credits.append(
            f"{touch.kind} noticed by {touch.noticed_by}, {touch.began_at:%Y-%m-%d %H:%M:%S.%f} {lasted}:"
            f" {touch.effect}, {touch.credited_ns} ns {touch.reason}".rstrip()
        )
    credited = sum(row.credited_ns or 0 for row in facts.log)
    covered = sum(touch.credited_ns for touch in facts.touches if touch.effect == "credited")
    if facts.outcome is not None and facts.outcome.cause == Cause.TIME:
        # The forfeited turn was credited too, and has no verdict that says how much.
        lost = (facts.outcome.evidence or {}).get("credited_ns")
        credited += lost if isinstance(lost, int) else max(0, covered - credited)
    if credited != covered:
        made.faults.append(f"{credited} ns were credited, incidents cover {covered} ns")


def _outcome(outcome: OutcomeRow, state: Match, facts: TimeFacts, made: Explanation) -> None:
    told = state.outcome
    if told is None or (told.winner, told.cause) != (outcome.winner, outcome.cause):
        made.faults.append(f"the outcome row says {outcome.winner} by {outcome.cause}, the log says {told}")
    made.ending = f"{outcome.winner or 'nobody'} by {outcome.cause} {outcome.detail}".rstrip()
    if outcome.cause not in (Cause.TIME, Cause.VOID):
        return
    evidence = outcome.evidence
    if evidence is None:
        made.faults.append(f"ended by {outcome.cause} without evidence")
        return
    if outcome.cause == Cause.TIME:
        _timeout(evidence, outcome, facts, made)
    elif evidence.get("reason") != outcome.detail:
        made.faults.append(
            f"void because of {outcome.detail!r}, the evidence says {evidence.get('reason')!r}"
        )
    else:
        made.ending += f": {evidence.get('summary', 'see the evidence')}"


def _timeout(evidence: dict[str, object], outcome: OutcomeRow, facts: TimeFacts, made: Explanation) -> None:
    try:
        start, consumed, bank, proof = (
            int(str(evidence[name])) for name in ("start_ns", "consumed_ns", "bank_ns", "proof_ns")
        )
        loser = Seat(str(evidence["seat"]))
    except (KeyError, ValueError) as error:
        made.faults.append(f"the evidence of the timeout is incomplete: {error}")
        return
    before = replay_banks(facts, made)
    if bank != before.get(loser):
        made.faults.append(f"the evidence counts a bank of {bank} ns, the log leaves {before.get(loser)} ns")
    deadline = clock.deadline(start, consumed, bank, facts.delay_ns)
    made.ending += (
        f": {loser} began at {start}, had {facts.delay_ns + bank - consumed} ns left, so {deadline} was too late;"
        f" proven by {evidence.get('proof')} at {proof}"
    )
    if proof < deadline:
        made.faults.append(f"the proof at {proof} is before the deadline {deadline}")
    if deadline != evidence.get("deadline_ns"):
        made.faults.append(f"worked out the deadline {deadline}, stored {evidence.get('deadline_ns')}")
    if outcome.winner != loser.opponent:
        made.faults.append(f"{loser} ran out of time, but {outcome.winner} is the winner")


def replay_banks(facts: TimeFacts, made: Explanation) -> dict[Seat, int]:
    """What each seat had before the forfeit, from the lines that were worked out."""
    banks = dict.fromkeys(Seat, facts.bank_ns)
    for line in made.lines:
        banks[line.seat] = line.bank_after_ns
    return banks
