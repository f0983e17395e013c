"""The decisions that processes opened, and when that was in truth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from engine.clock import MILLISECOND, SECOND
from services.game.livetime import SLACK_NS
from services.wire import clock_messages as m
from tests.simulation.clockwatch import deadline_of
from tests.simulation.process import TICK_NS

if TYPE_CHECKING:
    from tests.simulation.game import GameProcess

RESOLUTION_NS: Final = TICK_NS + SLACK_NS
"""What a stamp may be off, and once more for each stall."""
PROOF_AGE_NS: Final = 16 * SECOND
"""How old the last proof of life can be when a turn opens: so long a process listens without a lease."""


@dataclass
class Opened:
    """A decision as a process opened it, and when that was in truth."""

    process: GameProcess
    opened: m.Open
    decision_id: int
    at: int
    true_mark: int
    true_gap: int
    stalls: int
    consumed_ns: int
    """As the clock said it at last."""
    bound_ns: int
    """The most that can have been used when this part began."""
    credit_bound_ns: int
    """The most that can have been credited when this part began: what passed since the turn was opened first."""
    armed_by: dict[str, int] = field(default_factory=dict)
    """Time used as each clock said it."""

    def listened(self) -> int:
        """How long its process has listened since, at most."""
        process, key = self.process, self.opened.key
        until = process.mark_at_end if process.mark_at_end is not None else process.true_mark
        until = min(until, process.watch.left_at.get((key.match_id, key.fence), until))
        return max(0, until - self.true_mark) + slack(self.stalls, process.stalls)


def slack(stalls_before: int, stalls_after: int) -> int:
    """What stamps may be off together."""
    return RESOLUTION_NS * (1 + stalls_after - stalls_before) + 2 * MILLISECOND


class Openings:
    """All of them."""

    def __init__(self) -> None:
        self.by_key: dict[m.Key, list[Opened]] = {}
        self.newest: dict[tuple[str, int], dict[int, Opened]] = {}
        """By match and turn, and then by fence."""
        self.asked_at: dict[tuple[str, int], int] = {}
        """By match and turn: when the turn began."""
        self.last: Opened | None = None

    def add(self, process: GameProcess, opened: m.Open, decision_id: int, now: int, asked_at: int) -> Opened:
        """One more; `asked_at` is when the question was stored, in the time of the world like `now`."""
        key = opened.key
        turn = key.match_id, key.decision_no
        self.asked_at.setdefault(turn, asked_at)
        parts = self.newest.setdefault(turn, {})
        # Who was overtaken while taking the match up may open it later than its owner. Whoever owns it next
        # goes on from the owner's part.
        before = parts.get(max((fence for fence in parts if fence <= key.fence), default=0))
        bound, credit_bound = opened.consumed_ns, 0
        if opened.cause is m.OpenCause.RESUME:
            # However often it changed hands: no time passes twice.
            credit_bound = now - self.asked_at[turn] + PROOF_AGE_NS
        if before is not None and opened.cause is m.OpenCause.RESUME:
            bound = max(bound, before.bound_ns + before.listened())
        elif before is not None and opened.cause is m.OpenCause.CONTINUE:
            bound = before.bound_ns + before.listened()
        record = Opened(
            process,
            opened,
            decision_id,
            now,
            process.true_mark,
            process.true_gap,
            process.stalls,
            opened.consumed_ns,
            bound,
            credit_bound,
        )
        self.by_key.setdefault(key, []).append(record)
        parts[key.fence] = self.last = record
        return record

    def find(self, key: m.Key, deadline_ns: int | None = None) -> Opened | None:
        """The newest with this deadline."""
        for record in reversed(self.by_key.get(key, [])):
            if deadline_ns is None or deadline_of(record.opened, record.consumed_ns) == deadline_ns:
                return record
        return None

    def part(self, key: m.Key, start_ns: int) -> Opened | None:
        """The part of the turn that began then."""
        return next((each for each in self.by_key.get(key, []) if each.opened.start_ns == start_ns), None)
