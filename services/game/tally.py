"""What is counted of rulings once they are stored: credit by its cause, voids by their reason, losses near a fault."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from engine.clock import SECOND
from engine.match import Cause
from services.storage.incidents import NEAR_SECONDS, NOTABLE_SECONDS, Effect, Incident, Kind
from services.storage.journal import Entry
from services.wire.clock_messages import VoidReason

OWN_REASONS: Final = ("clock_unreachable", "internal_fault", "operator", "verdict_mismatch")
"""Why a game process gives a match up; the others are the clock's."""
OTHER: Final = "other"
"""A reason of a newer clock."""


class Tally:
    """Counts what this process has stored and noticed."""

    def __init__(
        self, registry: CollectorRegistry, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._now = now
        self._trouble_until: datetime | None = None
        self._credit = Counter(
            "spectacular_bid_credit_seconds",
            "Time not charged, by the kind of incident it rests on.",
            ["cause"],
            registry=registry,
        )
        for kind in Kind:
            self._credit.labels(kind.value)
        self._voids = Counter(
            "spectacular_bid_voids", "Matches made void here.", ["reason"], registry=registry
        )
        self._reasons = frozenset(reason.value for reason in VoidReason) | frozenset(OWN_REASONS)
        for reason in (*sorted(self._reasons), OTHER):
            self._voids.labels(reason)
        self._forfeits = Counter(
            "spectacular_bid_forfeits",
            "Matches lost on time here, by whether a fault was noticed shortly before.",
            ["incident"],
            registry=registry,
        )
        for near in ("near", "none"):
            self._forfeits.labels(near)

    def noticed(self, incident: Incident) -> None:
        """Something went wrong. What was over within a second happens on any busy machine and is no trouble."""
        ended_at = incident.ended_at or self._now()
        if ended_at - incident.began_at >= timedelta(seconds=NOTABLE_SECONDS):
            self._trouble_until = max(ended_at, self._trouble_until or ended_at)

    def stored(self, entry: Entry) -> None:
        """A ruling is stored."""
        for touched in entry.touched:
            self.noticed(touched.incident)
            if touched.effect is Effect.CREDITED:
                self._credit.labels(touched.incident.kind.value).inc(touched.credited_ns / SECOND)
        if entry.ending is None:
            return
        if entry.ending.cause == Cause.VOID:
            reason = entry.ending.detail
            self._voids.labels(reason if reason in self._reasons else OTHER).inc()
        elif entry.ending.cause == Cause.TIME:
            self._forfeits.labels("near" if self._near_trouble() else "none").inc()

    def _near_trouble(self) -> bool:
        until = self._trouble_until
        return until is not None and self._now() - until <= timedelta(seconds=NEAR_SECONDS)
