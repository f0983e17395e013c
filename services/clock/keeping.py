"""The clock's own incidents, on their way to the database."""

from __future__ import annotations

import json
from collections.abc import Iterable

from services.clock.notices import Notice
from services.storage.incidentlog import IncidentLog
from services.storage.incidents import Effect, Incident, Kind


class Keeping:
    """Puts what the timekeeper noticed into the incident log. Verdicts do not wait for it."""

    def __init__(self, log: IncidentLog, clock_id: str, policy_version: str) -> None:
        self._log = log
        self._clock_id = clock_id
        self._policy_version = policy_version

    def keep(self, notices: Iterable[Notice]) -> None:
        """To be stored."""
        for notice in notices:
            if notice.kind:
                self._log.note(self._incident(notice))
            if notice.voided:
                self._log.touch(notice.incident_id, notice.voided, Effect.VOID)

    def _incident(self, notice: Notice) -> Incident:
        return Incident.lasting(
            Kind(notice.kind),
            f"clock/{self._clock_id}",
            notice.lasted_ns,
            self._policy_version,
            incident_id=notice.incident_id,
            engine_id=notice.engine_id,
            incarnation=notice.incarnation,
            clock_id=self._clock_id,
            timeline_id=notice.timeline_id,
            from_ns=notice.from_ns,
            to_ns=notice.to_ns,
            reason=notice.reason,
            detail=json.dumps(notice.detail),
        )
