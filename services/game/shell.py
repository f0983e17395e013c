"""What every room of this process shares: the journal, the clock, live time, policy and counters."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from engine.refusal import Refusal
from services.game.clock_client import ClockLink
from services.game.gaps import Gaps
from services.game.incarnation import Incarnation
from services.game.livetime import LiveTime
from services.game.ownership import Lease
from services.game.tally import Tally
from services.storage.endings import Evidence
from services.storage.journal import Journal
from services.wire.clock_messages import Policy

LATENESS_BUCKETS: Final = (
    *(0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008),
    *(0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 1, 5, 60),
)
"""Fine around 10 ms, within which 99 of 100 losses on time should be stored."""


class Shell:
    """The surroundings of a room."""

    def __init__(
        self,
        incarnation: Incarnation,
        journal: Journal,
        clock: ClockLink,
        livetime: LiveTime,
        gaps: Gaps,
        lease: Lease,
        policy: Policy,
        registry: CollectorRegistry,
    ) -> None:
        self.incarnation = incarnation
        self.journal = journal
        self.clock = clock
        self.livetime = livetime
        self.gaps = gaps
        self.lease = lease
        self.policy = policy
        self.tally = Tally(registry)
        gaps.on_incident = self.tally.noticed
        self.rooms_live = Gauge("spectacular_bid_live_matches", "Live matches here.", registry=registry)
        self.rooms_held = Counter(
            "spectacular_bid_held_matches_total", "Matches stopped by a fault of ours.", registry=registry
        )
        self.mismatches = Counter(
            "spectacular_bid_verdict_mismatches_total",
            "Statements of game and clock that contradict.",
            registry=registry,
        )
        self.taken_up = Counter(
            "spectacular_bid_matches_taken_up_total",
            "Matches that went on here.",
            ["kind"],
            registry=registry,
        )
        for kind in ("takeover", "handoff"):
            self.taken_up.labels(kind)
        self.lateness = Histogram(
            "spectacular_bid_game_timeout_lateness_seconds",
            "Live time from a deadline to the commit of the loss, probe and proof included.",
            buckets=LATENESS_BUCKETS,
            registry=registry,
        )
        self.refusals = Counter(
            "spectacular_bid_refusals_total", "Refused commands.", ["reason"], registry=registry
        )
        for refusal in Refusal:
            self.refusals.labels(refusal.value)

    def evidence(
        self,
        kind: str,
        evidence_id: str | None,
        detail: Mapping[str, object],
        *,
        from_ns: int | None = None,
        to_ns: int | None = None,
    ) -> Evidence:
        """A row that an outcome can rest on."""
        return Evidence(
            evidence_id=evidence_id or str(uuid.uuid4()),
            kind=kind,
            engine_id=self.incarnation.engine_id,
            incarnation=self.incarnation.name,
            policy_version=self.policy.version,
            detail=json.dumps(detail),
            clock_id=self.clock.clock_id,
            timeline_id=self.livetime.timeline_id,
            from_ns=from_ns,
            to_ns=to_ns,
        )
