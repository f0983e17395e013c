"""What every room of this process shares: the journal, the clock, live time, policy and counters."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Protocol

from engine.clock import SECOND
from services.common.patience import Patience
from services.game.clock_client import ClockLink
from services.game.gaps import Gaps
from services.game.incarnation import Incarnation
from services.game.listeners import Pace
from services.game.livetime import LiveTime
from services.game.metrics import MatchMetrics
from services.game.ownership import Lease
from services.game.tally import Tally
from services.storage.endings import Evidence
from services.storage.journal import Journal
from services.wire.clock_messages import Policy


class Held(Protocol):
    """Whoever waits for the clock."""

    def held_too_long(self) -> None:
        """It has said nothing for as long as a match may be held."""


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
        metrics: MatchMetrics,
    ) -> None:
        self.incarnation = incarnation
        self.journal = journal
        self.clock = clock
        self.livetime = livetime
        self.gaps = gaps
        self.lease = lease
        self.policy = policy
        self.metrics = metrics
        self.pace = Pace()
        self.holds = Patience(policy.hold_max_ns / SECOND, Held.held_too_long)
        """The rooms in which a command waits for the clock."""
        self.tally = Tally(metrics)
        gaps.on_incident = self.tally.noticed

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
