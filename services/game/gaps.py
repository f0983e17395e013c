"""Stretches in which this process did not listen, as incidents that credits rest on."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, NamedTuple

from services.common.logs import get_logger
from services.game import massloss
from services.game.incarnation import Incarnation
from services.game.livetime import GAPS_KEPT, LiveTime
from services.storage.incidents import Incident, Kind, put_incidents
from services.storage.pool import TRANSIENT, Pool

STORE_SECONDS: Final = 1.0


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
        self._unstored: list[Incident] = []

    def between(self, gap_total_from: int, gap_total_to: int) -> list[tuple[Incident, int]]:
        """The incidents, with their sizes, that made all gaps grow from one total to the other. Nanoseconds."""
        if gap_total_from >= gap_total_to:
            return []
        self._look()
        return [
            (known.incident, known.size_ns)
            for known in self._known
            if gap_total_from < known.total_after_ns <= gap_total_to
        ]

    def _look(self) -> None:
        gaps, self._seen = self._livetime.gaps_since(self._seen)
        for gap in gaps:
            self._total_ns += gap.size_ns
            incident = Incident.lasting(
                Kind.MASS_DISCONNECT if gap.cause == massloss.CAUSE else Kind.STALL,
                f"game/{self._incarnation.engine_id}",
                gap.size_ns,
                self._policy_version,
                engine_id=self._incarnation.engine_id,
                incarnation=self._incarnation.name,
                timeline_id=self._livetime.timeline_id,
                from_ns=gap.from_raw_ns,
                to_ns=gap.to_raw_ns,
                reason=gap.cause,
            )
            self._known.append(_Known(self._total_ns, gap.size_ns, incident))
            self._unstored.append(incident)

    async def run(self, pool: Pool) -> None:
        """Stores what credited nobody, too. Until cancelled; database trouble only delays it."""
        while True:
            await asyncio.sleep(STORE_SECONDS)
            self._look()
            if not self._unstored:
                continue
            storing = self._unstored[:GAPS_KEPT]
            try:
                await put_incidents(pool, storing)
            except TRANSIENT as error:
                get_logger().warning("incidents_not_stored", error=type(error).__name__, count=len(storing))
                # Bounded: what nobody was credited for may be forgotten in a long outage.
                self._unstored = self._unstored[-GAPS_KEPT:]
                continue
            del self._unstored[: len(storing)]
