"""Whom the clock governs: one incarnation of an engine, and what it has proven."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from services.clock.witness import Witness

if TYPE_CHECKING:
    from services.clock.matchclock import MatchClock
    from services.wire import clock_messages as m


class Beat(NamedTuple):
    """A proof that an engine listened up to a mark. All three belong together: what comes later is not in any of them."""

    mark_ns: int | None
    gap_total_ns: int
    """All gaps before the mark."""
    at: int
    """When the mark was, on the clock's own time."""


NO_BEAT: Final = Beat(None, 0, 0)


@dataclass(slots=True, eq=False)
class Owner:
    """One incarnation of an engine, as far as the clock has heard of it."""

    engine_id: str
    incarnation: str
    witness: Witness
    timeline_id: str = ""
    attach_no: int = 0
    session: str | None = None
    proven: Beat = NO_BEAT
    """The last proof of listening."""
    gap_total_ns: int = 0
    """All gaps it has told of, also without a proof of ownership."""
    lost_at: int | None = None
    """When its session was lost, while it has none."""
    matches: dict[str, MatchClock] = field(default_factory=dict)

    def beat(self, pong: m.Pong, now: int) -> None:
        """The engine has proven that it listened up to a mark, which in a stall that still lasts is long ago."""
        stalled_ns = max(0, pong.raw_ns - pong.gap_total_ns - pong.mark_ns)
        self.proven = Beat(pong.mark_ns, pong.gap_total_ns, now - stalled_ns)
