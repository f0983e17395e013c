"""What every room of this process shares: the journal, the clock, live time, policy and counters."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge

from engine.refusal import Refusal
from services.game.clock_client import ClockLink
from services.game.gaps import Gaps
from services.game.incarnation import Incarnation
from services.game.livetime import LiveTime
from services.game.ownership import Lease
from services.storage.journal import Evidence, Journal
from services.wire.clock_messages import Policy


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
