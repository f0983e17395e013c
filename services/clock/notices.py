"""What the clock finds and keeps as incidents, beside the verdicts: nothing here decides anything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from services.clock.owner import Owner
from services.clock.witness import Report
from services.wire.clock_news import IncidentMatch, IncidentTold


@dataclass(frozen=True, slots=True)
class Notice:
    """One incident, or what an earlier one did to a match. Nanoseconds."""

    incident_id: str
    kind: str = ""
    """A `services.storage.incidents.Kind`; empty when only a match is added to a known incident."""
    engine_id: str = ""
    incarnation: str = ""
    timeline_id: str = ""
    from_ns: int | None = None
    to_ns: int | None = None
    """On the timeline of the engine."""
    lasted_ns: int = 0
    reason: str = ""
    detail: dict[str, Any] = field(default_factory=dict)
    voided: str = ""
    """The match that is void because of it."""

    @staticmethod
    def touching(incident_id: str, match_id: str) -> Notice:
        """An incident that voided a match."""
        return Notice(incident_id, voided=match_id)


def _of(incident_id: str, kind: str, owner: Owner) -> Notice:
    return Notice(incident_id, kind, owner.engine_id, owner.incarnation, owner.timeline_id)


def of_disruption(report: Report, owner: Owner) -> Notice:
    """Two clocks moved against each other."""
    return replace(
        _of(report.report_id, "clock_disruption", owner),
        from_ns=report.since_raw_ns,
        to_ns=report.at_raw_ns,
        lasted_ns=report.lasted_ns,
        reason=f"the engine's clock ran {'ahead of' if report.ahead else 'behind'} ours by {report.size_ns} ns",
        detail={
            "size_ns": report.size_ns,
            "ahead": report.ahead,
            "covered_ns": report.covered_ns,
            "culprit": report.culprit.value,
        },
    )


def of_lost_session(incident_id: str, owner: Owner, now: int, *, restarted: bool) -> Notice:
    """An engine came back after it had no session."""
    assert owner.lost_at is not None, "it was lost"
    return replace(
        _of(incident_id, "clock_lost", owner),
        lasted_ns=now - owner.lost_at,
        reason="the engine came back under another incarnation" if restarted else "the session was lost",
        detail={"matches": len(owner.matches), "restarted": restarted},
    )


def told_of(notice: Notice) -> Iterator[IncidentTold | IncidentMatch]:
    """The same for those who look on."""
    if notice.kind:
        yield IncidentTold(
            notice.incident_id,
            notice.kind,
            notice.incarnation,
            notice.timeline_id,
            notice.from_ns,
            notice.to_ns,
            notice.lasted_ns,
            notice.reason,
            json.dumps(notice.detail),
        )
    if notice.voided:
        yield IncidentMatch(notice.incident_id, notice.voided)
