"""What this process notices of itself: stretches in which it did not listen, a clock or a database that was away.

Credits rest on the first kind, so those incidents are stored with the rulings that credit. The others cost nobody
anything; they are stored beside the game.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from services.game import massloss
from services.game.incarnation import Incarnation
from services.game.livetime import GAPS_KEPT, LiveTime
from services.storage.incidentlog import STORE_SECONDS, IncidentLog
from services.storage.incidents import Effect, Incident, Kind
from services.storage.pool import Pool


class _Known(NamedTuple):
    total_after_ns: int
    """All gaps of the incarnation, this one included."""
    size_ns: int
    incident: Incident


class Gaps:
    """One incident a gap, made when it is first looked at; all are stored sooner or later."""

    def __init__(self, livetime: LiveTime, incarnation: Incarnation, policy_version: str) -> None:
        self._livetime = livetime
        self._incarnation = incarnation
        self._policy_version = policy_version
        self._known: deque[_Known] = deque(maxlen=GAPS_KEPT)
        self._seen = 0
        self._total_ns = 0
        self._log = IncidentLog()
        self.on_incident: Callable[[Incident], None] = lambda _incident: None
        """Told of each, once."""

    def between(self, gap_total_from: int, gap_total_to: int) -> list[tuple[Incident, int]]:
        """The incidents that made all gaps grow from one total to the other, each with how much of it that was.
        Nanoseconds.

        Of one that lasted already at the first total, that is the part after it.
        """
        if gap_total_from >= gap_total_to:
            return []
        self._look()
        return [
            (known.incident, min(known.size_ns, known.total_after_ns - gap_total_from))
            for known in self._known
            if gap_total_from < known.total_after_ns <= gap_total_to
        ]

    def _look(self) -> None:
        gaps, self._seen = self._livetime.gaps_since(self._seen)
        for gap in gaps:
            self._total_ns += gap.size_ns
            incident = self._incident(
                Kind.MASS_DISCONNECT if gap.cause == massloss.CAUSE else Kind.STALL,
                gap.size_ns,
                gap.cause,
                from_ns=gap.from_raw_ns,
                to_ns=gap.to_raw_ns,
            )
            self._known.append(_Known(self._total_ns, gap.size_ns, incident))
            self._log.note(incident)

    def clock_lost(self, from_raw_ns: int, to_raw_ns: int, open_decisions: int, held_commands: int) -> None:
        """No clock governed this process; its decisions went on, and commands waited for their verdict."""
        incident = self._incident(
            Kind.CLOCK_LOST,
            to_raw_ns - from_raw_ns,
            "no session with a clock",
            from_ns=from_raw_ns,
            to_ns=to_raw_ns,
            detail=json.dumps({"open": open_decisions, "held": held_commands}),
        )
        self._log.note(incident)

    def commit_stalled(self, seconds: float, match_ids: Sequence[str]) -> None:
        """The database took the next rulings of these matches only now. Nobody's time ran meanwhile."""
        incident = self._incident(
            Kind.COMMIT_STALLED,
            int(seconds * 1e9),
            "the database did not take rulings",
            detail=json.dumps({"rulings": len(match_ids)}),
        )
        self._log.note(incident, [(match_id, Effect.HELD) for match_id in match_ids])

    def log_lost(self, match_id: str, why: str) -> Incident:
        """The database has lost rulings of a match that its players were told."""
        return self._incident(Kind.LOG_LOST, 0, why, detail=json.dumps({"match_id": match_id}))

    def log_passed_by(self, match_id: str, why: str) -> None:
        """Another process goes on with a match without rulings that this one told: it voids the match when it hears."""
        detail = {"effect": "void", "scope": "matches", "matches": [match_id]}
        self._log.note(self._incident(Kind.LOG_LOST, 0, why, detail=json.dumps(detail)))

    def _incident(
        self,
        kind: Kind,
        size_ns: int,
        reason: str,
        *,
        from_ns: int | None = None,
        to_ns: int | None = None,
        detail: str = "{}",
    ) -> Incident:
        incarnation = self._incarnation
        incident = Incident.lasting(
            kind,
            f"game/{incarnation.engine_id}",
            size_ns,
            self._policy_version,
            engine_id=incarnation.engine_id,
            incarnation=incarnation.name,
            timeline_id=self._livetime.timeline_id,
            from_ns=from_ns,
            to_ns=to_ns,
            reason=reason,
            detail=detail,
        )
        self.on_incident(incident)
        return incident

    async def run(self, pool: Pool) -> None:
        """Stores what credited nobody, too. Until cancelled; database trouble only delays it."""
        while True:
            await asyncio.sleep(STORE_SECONDS)
            self._look()
            await self._log.store(pool)
