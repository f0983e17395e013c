"""Every metric of a game process on one page, on an injected registry.

What is counted is counted where it happens; here stands what there is, by which labels, and that each series exists at
zero from the start. No label ever holds a match, a player, a request or a tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from engine.match import Phase
from engine.outcome import Cause
from engine.refusal import Refusal
from services.common.counting import Counts, Spreads
from services.storage.incidents import Kind
from services.wire.clock_messages import VoidReason

LATENESS_BUCKETS: Final = (
    *(0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008),
    *(0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 1, 5, 60),
)
"""Fine around 10 ms, within which 99 of 100 losses on time should be stored."""
PAUSE_BUCKETS: Final = (0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30)
OWN_REASONS: Final = ("clock_unreachable", "internal_fault", "log_lost", "operator", "verdict_mismatch")
"""Why a game process gives a match up; the others are the clock's."""
OTHER: Final = "other"
"""A reason of a newer clock."""
VOID_REASONS: Final = (*sorted({reason.value for reason in VoidReason} | set(OWN_REASONS)), OTHER)
HELD: Final = "held"
"""In place of its phase: a match that a fault of ours has stopped."""
PHASES: Final = (*(phase.value for phase in Phase if phase is not Phase.OVER), HELD)
RATED: Final = {True: "true", False: "false"}


COMMAND_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)


class Stage(StrEnum):
    """What a command waits for, in this order; one that takes no turn needs no verdict."""

    QUEUE = "queue"
    """From its stamp until its room takes it up."""
    VERDICT = "verdict"
    """Until the clock has judged it."""
    COMMIT = "commit"
    """Until it is on disk."""
    PUBLISH = "publish"
    """Until everybody is told."""


class Result(StrEnum):
    """How a command ended, for its player."""

    APPLIED = "applied"
    REFUSED = "refused"
    """By the rules, or because the request itself was wrong: it works as it should."""
    UNAVAILABLE = "unavailable"
    """To be sent again: it may have had its effect."""
    FAILED = "failed"
    """A fault of ours."""


class GameMetrics:
    """All of them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.matches = MatchMetrics(registry)
        self.commands = CommandMetrics(registry)
        self.commits = CommitMetrics(registry)
        self.lease = LeaseMetrics(registry)
        self.link = LinkMetrics(registry)


class MatchMetrics:
    """What becomes of matches and of what is asked in them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.live = LiveMatches()
        registry.register(self.live)
        self.held = Counter(
            "spectacular_bid_held_matches_total", "Matches stopped by a fault of ours.", registry=registry
        )
        self.finished = Counter(
            "spectacular_bid_matches_finished_total",
            "Matches that ended here, void ones included.",
            ["outcome", "rated"],
            registry=registry,
        )
        self.voids = Counter(
            "spectacular_bid_voids_total", "Matches made void here.", ["reason"], registry=registry
        )
        self.forfeits = Counter(
            "spectacular_bid_forfeits_total",
            "Matches lost on time here, by whether a fault was noticed shortly before.",
            ["incident"],
            registry=registry,
        )
        self.credit_seconds = Counter(
            "spectacular_bid_credit_seconds_total",
            "Time not charged, by the kind of incident it rests on.",
            ["cause"],
            registry=registry,
        )
        self.taken_up = Counter(
            "spectacular_bid_matches_taken_up_total",
            "Matches that went on here.",
            ["kind"],
            registry=registry,
        )
        self.mismatches = Counter(
            "spectacular_bid_verdict_mismatches_total",
            "Statements of game and clock that contradict.",
            registry=registry,
        )
        self.handoff_pause = Histogram(
            "spectacular_bid_handoff_pause_seconds",
            "From the last instant the old owner of a match could take a command to the first this one could.",
            buckets=PAUSE_BUCKETS,
            registry=registry,
        )
        self.draining = Gauge(
            "spectacular_bid_draining", "1 while an operator has this process drained.", registry=registry
        )
        self.refusals = Counter(
            "spectacular_bid_refusals_total", "Refused commands.", ["reason"], registry=registry
        )
        self.lateness = Histogram(
            "spectacular_bid_game_timeout_lateness_seconds",
            "Live time from a deadline to the commit of the loss, probe and proof included.",
            buckets=LATENESS_BUCKETS,
            registry=registry,
        )
        for cause in Cause:
            for rated in RATED.values():
                self.finished.labels(cause.value, rated)
        for reason in VOID_REASONS:
            self.voids.labels(reason)
        for near in ("near", "none"):
            self.forfeits.labels(near)
        for kind in Kind:
            self.credit_seconds.labels(kind.value)
        for kind_of_move in ("takeover", "handoff"):
            self.taken_up.labels(kind_of_move)
        for refusal in Refusal:
            self.refusals.labels(refusal.value)


class CommandMetrics:
    """What players meet who send commands."""

    def __init__(self, registry: CollectorRegistry) -> None:
        results = Counts(
            "spectacular_bid_commands_total", "Commands by how they ended.", ["result"], registry
        )
        self.seconds = Spreads(
            "spectacular_bid_command_seconds",
            "From the stamp of a command that was applied until everybody was told.",
            (),
            COMMAND_BUCKETS,
            registry,
        ).labels()
        stages = Spreads(
            "spectacular_bid_command_stage_seconds",
            "The same by what it waited for.",
            ["stage"],
            COMMAND_BUCKETS,
            registry,
        )
        # Looked up once: every command is counted in five of them.
        self.results = {result: results.labels(result.value) for result in Result}
        self.stages = {stage: stages.labels(stage.value) for stage in Stage}


class LiveMatches(Collector):
    """The live matches by phase, counted when somebody looks: so no path of a match can forget to count itself."""

    name: Final = "spectacular_bid_live_matches"

    def __init__(self) -> None:
        self.counts: Callable[[], Mapping[str, int]] = dict
        """How many there are in each phase. Called on the thread of the metrics page."""

    def describe(self) -> Iterable[Metric]:
        """What there is, without looking."""
        return [self._family()]

    def collect(self) -> Iterable[Metric]:
        """What there is now."""
        counts, family = self.counts(), self._family()
        for phase in PHASES:
            family.add_metric([phase], counts.get(phase, 0))
        return [family]

    def _family(self) -> GaugeMetricFamily:
        return GaugeMetricFamily(self.name, "Matches played here now, by phase.", labels=["phase"])


class CommitMetrics:
    """What the journal tells of its group commits."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "spectacular_bid_commit_seconds",
            "Duration of a group commit.",
            buckets=(0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5, 30),
            registry=registry,
        )
        self._sizes = Histogram(
            "spectacular_bid_commit_rulings",
            "Rulings in a group commit.",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
            registry=registry,
        )
        self._retries = Counter(
            "spectacular_bid_commit_retries_total",
            "Group commits that failed and were repeated.",
            registry=registry,
        )

    def tried(self, seconds: float) -> None:
        """A group was written, or could not be, after so long."""
        self._seconds.observe(seconds)

    def stored(self, rulings: int) -> None:
        """So many rulings were stored in one transaction."""
        self._sizes.observe(rulings)

    def repeated(self) -> None:
        """A group has to be written once more."""
        self._retries.inc()


class LeaseMetrics:
    """How sure this process is that it may own matches."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.age = Gauge(
            "spectacular_bid_lease_age_seconds", "Time since the lease was last proven.", registry=registry
        )
        self.failures = Counter(
            "spectacular_bid_lease_renewal_failures_total", "Renewals that failed.", registry=registry
        )


class LinkMetrics:
    """Listening and judging, from the game's side."""

    def __init__(self, registry: CollectorRegistry) -> None:
        prefix = "spectacular_bid_game"
        self.attached = Gauge(
            f"{prefix}_clock_attached", "1 while a clock governs this process.", registry=registry
        )
        self.sessions = Counter(
            f"{prefix}_clock_sessions_total", "Sessions a clock has accepted.", registry=registry
        )
        self.verdict_seconds = Spreads(
            f"{prefix}_verdict_seconds",
            "Live time from reading a command to its verdict.",
            (),
            (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5, 60),
            registry,
        ).labels()
        self.stretches = Histogram(
            f"{prefix}_busy_stretch_seconds",
            "Stretches over 10 ms without an idle instant of the loop; over 50 ms they are credited.",
            buckets=(0.02, 0.05, 0.1, 0.25, 0.5, 1, 5, 30),
            registry=registry,
        )
        self.gaps = Gauge(
            f"{prefix}_gap_seconds", "All time this process was not provably listening.", registry=registry
        )
        self.held_commands = Gauge(
            f"{prefix}_held_commands", "Commands heard whose effect is not committed.", registry=registry
        )
