"""What a game process ("engine") and the clock say to each other, as plain values.

Times are whole nanoseconds. An instant belongs to the timeline of the engine that stamped it and is never compared
with an instant of another. Both ends use these values; `services.wire.clock` puts them on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from engine.clock import RESUME_FLOOR, SECOND, Effect
from engine.seats import Seat
from services.common.tracing import TraceContext
from services.common.values import value


class OpenCause(StrEnum):
    """Why a decision is open."""

    NEW = "new"
    """A genuinely new decision."""
    CONTINUE = "continue"
    """The same turn after a draw."""
    RESUME = "resume"
    """After a takeover: another owner, or another incarnation of the same one, under a higher fence."""
    REATTACH = "reattach"
    """The same owner on a new session, same stamps."""


class Proof(StrEnum):
    """What proves a timeout."""

    ARRIVAL = "arrival"
    """A command was stamped at or after the deadline."""
    WATERMARK = "watermark"
    """The engine listened past the deadline and had heard nothing."""


class StallCause(StrEnum):
    """Why a verdict waits for its commit."""

    COMMIT = "commit"
    HANDOFF = "handoff"


class VoidReason(StrEnum):
    """Why the clock gives a match up. Never anything a player did."""

    GAP_TOO_LONG = "gap_too_long"
    """One stretch without listening was longer than the policy allows."""
    CREDIT_SPENT = "credit_spent"
    """All stretches together were."""
    HOLD_TOO_LONG = "hold_too_long"
    """A verdict was due, or waited for its commit, for too long."""
    CONTRADICTION = "contradiction"
    """The engine's statements do not fit what the clock knows."""
    ORDER_BROKEN = "order_broken"
    """A command dated before a deadline that had been proven to pass unheard."""
    CLOCK_DISRUPTION = "clock_disruption"
    """A forfeit that rests on a clock which moved against the others while the decision was open."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Choices of policy; `version` is stored with every verdict, so change it with any of the others."""

    version: str = "v1"
    stall_threshold_ns: int = 50_000_000
    """Stretches longer than this without idling are gaps."""
    gap_max_ns: int = 30 * SECOND
    """Longest single gap before void."""
    credit_total_max_ns: int = 60 * SECOND
    """Most credit a match before void."""
    hold_max_ns: int = 60 * SECOND
    """Longest hold without a verdict before void."""
    resume_floor_ns: int = RESUME_FLOOR
    """Least time left after a resume."""


class Key(NamedTuple):
    """A decision: one turn of one match under one owner."""

    match_id: str
    fence: int
    """The owner's fencing epoch, from 1."""
    decision_no: int
    """The turn, from 1; a draw continues it."""


# What an engine says.


@value
class Open:
    """A decision is open; the count runs from `start_ns`."""

    key: Key
    cause: OpenCause
    seat: Seat
    kind: str
    """What is asked: `bid`, `answer`, `open`, `turn`; for people."""
    start_ns: int
    start_raw_ns: int
    mark_ns: int
    """The mark when this was sent."""
    gap_total_ns: int
    """All gaps of the incarnation when the count started."""
    bank_ns: int
    delay_ns: int
    consumed_ns: int = 0
    """Time of this turn used before `start_ns`."""
    credited_total_ns: int = 0
    """Everything credited to this match before this."""
    outage_hint_ns: int = 0
    """For RESUME: the outage as the database knows it."""

    def again(self, cause: OpenCause, mark_ns: int) -> Open:
        """The same for another session. With thousands open they are made in one turn of the loop: `replace` is slow."""
        key, seat, kind = self.key, self.seat, self.kind
        counted = (self.gap_total_ns, self.bank_ns, self.delay_ns, self.consumed_ns, self.credited_total_ns)
        start = (self.start_ns, self.start_raw_ns, mark_ns)
        return Open(key, cause, seat, kind, *start, *counted, self.outage_hint_ns)


@value
class Arrival:
    """A legal command of the deciding seat was heard."""

    key: Key
    command_id: str
    arrive_ns: int
    """The mark at its read: what is judged."""
    read_raw_ns: int
    gap_total_ns: int
    effect: Effect
    trace: TraceContext | None = field(default=None, compare=False)
    """The trace it belongs to. Nothing is judged by it."""


@value
class Hello:
    """Who attaches; opens a session."""

    engine_id: str
    incarnation: str
    attach_no: int
    timeline_id: str
    clock_source: str
    raw_ns: int
    mark_ns: int
    policy_version: str
    open: tuple[Open, ...] = ()
    """Every open decision."""
    pending: tuple[Arrival, ...] = ()
    """Every arrival whose effect is not committed."""
    reckons: bool = False
    """It works deadlines out itself: it need not be told of one that is counted exactly as its Open asked."""


@value
class Applied:
    """The verdict's effect is committed. An Open of the same owner that follows says so too."""

    key: Key
    command_id: str
    event_seq: int


@value
class Close:
    """The match needs no clock any more."""

    match_id: str
    fence: int
    reason: str


@value
class ProbeReply:
    """Everything that was heard before the watermark has been sent."""

    key: Key
    probe_no: int
    watermark_ns: int


@value
class Gap:
    """A stretch on the raw clock in which an engine was not provably listening."""

    from_raw_ns: int
    to_raw_ns: int
    cause: str
    """`stall`: it was busy; `oversleep`: it did not run."""

    @property
    def size_ns(self) -> int:
        """How long."""
        return self.to_raw_ns - self.from_raw_ns


@value
class Pong:
    """Answer to a ping, and the proof of listening."""

    n: int
    raw_ns: int
    mark_ns: int
    lease_ok: bool
    """Whether ownership is proven fresh; a mark without it proves no consumption."""
    gap_total_ns: int
    gaps: tuple[Gap, ...] = ()
    """Gaps since the last pong."""


@value
class Stalled:
    """A verdict cannot be committed now."""

    key: Key
    since_raw_ns: int
    cause: StallCause


@value
class Release:
    """A planned handoff of a match."""

    match_id: str
    fence: int
    at_ns: int


EngineMessage = Hello | Open | Arrival | Applied | Close | ProbeReply | Pong | Stalled | Release


# What the clock says.


@value
class Welcome:
    """The session is accepted."""

    session_id: str
    clock_id: str
    policy: Policy


@value
class Ping:
    """Liveness and witness."""

    n: int
    clock_ns: int


@value
class Armed:
    """A deadline is armed."""

    key: Key
    deadline_ns: int
    """The first instant that is too late."""
    remaining_ns: int
    """What was left when the Open was sent; never negative."""
    consumed_ns: int
    """Time of this turn used before its start: as the Open said, except after a resume."""
    credited_ns: int
    """Credit granted by this Open."""
    as_asked: bool = field(default=False, compare=False)
    """It counts exactly as its Open asked. Not on the wire: whoever reckons is not told."""


@value
class Verdict:
    """A command is in time."""

    key: Key
    command_id: str
    elapsed_ns: int
    consumed_ns: int
    """What is carried on when the turn continues, else 0."""
    charge_ns: int
    bank_after_ns: int
    credited_ns: int
    """What was not charged since the decision was last opened: gaps, and what that Open granted."""


@value
class Probe:
    """Have you heard everything that reached you before the deadline?"""

    key: Key
    probe_no: int
    deadline_ns: int


@value
class Timeout:
    """The deadline passed."""

    key: Key
    seat: Seat
    deadline_ns: int
    proof: Proof
    proof_ns: int
    """The proving stamp, at or after the deadline. After a takeover it may belong to the timeline of the last owner."""
    evidence_id: str
    start_ns: int
    """From when the deadline was counted, on the same timeline."""
    consumed_ns: int
    """Time of this turn used before that."""


@value
class Void:
    """Time can no longer be judged."""

    match_id: str
    fence: int
    reason: str
    """A VoidReason; newer clocks may know more of them."""
    evidence_id: str
    summary: str


@value
class Stale:
    """A newer owner exists: stop owning."""

    match_id: str
    fence: int
    current_fence: int


@value
class Mismatch:
    """A statement contradicts what is known: the match is held."""

    key: Key
    field: str
    expected: str
    got: str


@value
class Drain:
    """The clock stops: attach elsewhere."""

    grace_ms: int


ClockMessage = Welcome | Ping | Armed | Verdict | Probe | Timeout | Void | Stale | Mismatch | Drain
