"""What an operator sees of the game process's link to its clock, and of the time in which it listens."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from engine.clock import SECOND
from services.game.livetime import LiveTime


class LinkMetrics:
    """What an operator sees of listening and judging, from the game's side."""

    def __init__(self, registry: CollectorRegistry, live: LiveTime, held: Callable[[], int]) -> None:
        prefix = "spectacular_bid_game"
        self.attached = Gauge(
            f"{prefix}_clock_attached", "1 while a clock governs this process.", registry=registry
        )
        self.sessions = Counter(
            f"{prefix}_clock_sessions", "Sessions a clock has accepted.", registry=registry
        )
        self.verdict_seconds = Histogram(
            f"{prefix}_verdict_seconds",
            "Live time from reading a command to its verdict.",
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5, 60),
            registry=registry,
        )
        stretches = Histogram(
            f"{prefix}_busy_stretch_seconds",
            "Stretches over 10 ms without an idle instant of the loop; over 50 ms they are credited.",
            buckets=(0.02, 0.05, 0.1, 0.25, 0.5, 1, 5, 30),
            registry=registry,
        )
        live.observe_stretch = lambda nanoseconds: stretches.observe(nanoseconds / SECOND)
        gaps = Gauge(
            f"{prefix}_gap_seconds", "All time this process was not provably listening.", registry=registry
        )
        gaps.set_function(lambda: live.gap_total_ns / SECOND)
        pending = Gauge(
            f"{prefix}_held_commands", "Commands heard whose effect is not committed.", registry=registry
        )
        pending.set_function(held)
