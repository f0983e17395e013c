"""Every metric of the canary on one page: what a player would have felt."""

from __future__ import annotations

import socket
from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from services.common.metrics import name_process

BUCKETS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class Step(StrEnum):
    """What a match consists of for its players."""

    TOKEN = "token"  # noqa: S105 - a name
    """Both connect, and matchmaking knows them by their tokens."""
    CREATE = "create"
    """The match is created, after what an earlier one has left behind is cleared away."""
    ATTACH = "attach"
    """Both see the table."""
    COMMAND = "command"
    """One command, from sending it to its answer."""
    FINISH = "finish"
    """One resigns, and both have seen the end."""


class CanaryMetrics:
    """Counts matches and times their steps."""

    def __init__(self, registry: CollectorRegistry, version: str = "") -> None:
        # It is ready whatever happens to the service: to say what happens to it is its work.
        Gauge("spectacular_bid_ready", "Always 1.", registry=registry).set(1)
        build = Gauge("spectacular_bid_build_info", "Always 1.", ["version"], registry=registry)
        build.labels(version).set(1)
        name_process(registry, "canary", socket.gethostname())
        self._runs = Counter(
            "spectacular_bid_canary_runs", "Matches of the canary, by result.", ["result"], registry=registry
        )
        for result in ("ok", "failed"):
            self._runs.labels(result)
        self._failures = Counter(
            "spectacular_bid_canary_failures",
            "Matches of the canary that failed, by the step.",
            ["step"],
            registry=registry,
        )
        self._seconds = Histogram(
            "spectacular_bid_canary_step_seconds",
            "Duration of steps that succeeded.",
            ["step"],
            buckets=BUCKETS,
            registry=registry,
        )
        for step in Step:
            self._failures.labels(step.value)
            self._seconds.labels(step.value)
        self._last_success = Gauge(
            "spectacular_bid_canary_last_success_timestamp_seconds",
            "When a match succeeded last; 0: none has yet.",
            registry=registry,
        )
        self._in_a_row = Gauge(
            "spectacular_bid_canary_failed_in_a_row",
            "Matches that have failed since one succeeded.",
            registry=registry,
        )

    def took(self, step: Step, seconds: float) -> None:
        """A step has succeeded."""
        self._seconds.labels(step.value).observe(seconds)

    def succeeded(self) -> None:
        """A match was played to its end."""
        self._runs.labels("ok").inc()
        self._last_success.set_to_current_time()
        self._in_a_row.set(0)

    def failed(self, step: Step) -> None:
        """A match went wrong."""
        self._runs.labels("failed").inc()
        self._failures.labels(step.value).inc()
        self._in_a_row.inc()
