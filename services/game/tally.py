"""What is counted of rulings once they are stored: credit by its cause, voids by their reason, losses near a fault."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from engine.clock import SECOND
from engine.match import Cause
from services.game.metrics import OTHER, RATED, VOID_REASONS, MatchMetrics
from services.storage.entry import Entry
from services.storage.incidents import NEAR_SECONDS, NOTABLE_SECONDS, Effect, Incident


class Tally:
    """Counts what this process has stored and noticed."""

    def __init__(
        self, metrics: MatchMetrics, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._metrics = metrics
        self._now = now
        self._trouble_until: datetime | None = None

    def noticed(self, incident: Incident) -> None:
        """Something went wrong. What was over within a second happens on any busy machine and is no trouble."""
        ended_at = incident.ended_at or self._now()
        if ended_at - incident.began_at >= timedelta(seconds=NOTABLE_SECONDS):
            self._trouble_until = max(ended_at, self._trouble_until or ended_at)

    def stored(self, entry: Entry, *, rated: bool) -> None:
        """A ruling is stored, of a rated match or another."""
        for touched in entry.touched:
            self.noticed(touched.incident)
            if touched.effect is Effect.CREDITED:
                self._metrics.credit_seconds.labels(touched.incident.kind.value).inc(
                    touched.credited_ns / SECOND
                )
        if entry.ending is None:
            return
        self._metrics.finished.labels(entry.ending.cause, RATED[rated]).inc()
        if entry.ending.cause == Cause.VOID:
            reason = entry.ending.detail
            self._metrics.voids.labels(reason if reason in VOID_REASONS else OTHER).inc()
        elif entry.ending.cause == Cause.TIME:
            self._metrics.forfeits.labels("near" if self._near_trouble() else "none").inc()

    def _near_trouble(self) -> bool:
        until = self._trouble_until
        return until is not None and self._now() - until <= timedelta(seconds=NEAR_SECONDS)
