"""Whom the clock governs: one incarnation of an engine, and what it has proven."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from services.clock.matchclock import MatchClock


@dataclass(slots=True, eq=False)
class Owner:
    """One incarnation of an engine, as far as the clock has heard of it."""

    engine_id: str
    incarnation: str
    attach_no: int = 0
    session: str | None = None
    mark_ns: int | None = None
    """The last mark that proves listening."""
    mark_at: int = 0
    """When it came, on the clock's own time."""
    gap_total_ns: int = 0
    matches: dict[str, MatchClock] = field(default_factory=dict)

    def beat(self, mark_ns: int, now: int) -> None:
        """The engine has proven that it listened up to this mark."""
        self.mark_ns, self.mark_at = mark_ns, now
