"""Every metric of seeks and waves on one page."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from services.matchmaking.seekers import POOLS, Seekers

SEEK_ENDS = ("matched", "replaced", "cancelled", "closed", "drained", "failed")
"""How a seek ends: `closed` by its own client, `drained` by an operator, `failed` by us."""


class SeekMetrics:
    """How many wait and how long, what becomes of seeks, and what a wave costs."""

    def __init__(self, registry: CollectorRegistry, seekers: Seekers) -> None:
        waiting = Gauge("spectacular_bid_players_waiting", "Open seeks.", ["pool"], registry=registry)
        self.seeks = Counter(
            "spectacular_bid_seeks_total", "Seeks ended, by how.", ["pool", "end"], registry=registry
        )
        self.resumed = Counter(
            "spectacular_bid_seeks_resumed_total",
            "Seeks that came again after a lost stream or leader and went on waiting.",
            ["pool"],
            registry=registry,
        )
        self.cooldowns = Counter(
            "spectacular_bid_seek_cooldowns_total",
            "Seeks that were refused because their players did not come to a match.",
            registry=registry,
        )
        self.matches = Counter(
            "spectacular_bid_matches_made_total", "Matches made of two seeks.", ["pool"], registry=registry
        )
        self.lost_races = Counter(
            "spectacular_bid_pairings_undone_total",
            "Pairings that came to nothing: a seek was gone, a player busy, or the database in trouble.",
            ["why"],
            registry=registry,
        )
        self.waited = Histogram(
            "spectacular_bid_seek_wait_seconds",
            "Waiting time of matched seeks.",
            ["pool"],
            buckets=(0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300),
            registry=registry,
        )
        self.gap = Histogram(
            "spectacular_bid_match_rating_gap",
            "Distance of the ratings of matched players, in rating points.",
            ["pool"],
            buckets=(25, 50, 100, 150, 200, 300, 500, 800, 1200, 2000),
            registry=registry,
        )
        self.wave = Histogram(
            "spectacular_bid_wave_seconds",
            "Duration of a wave, its transactions included.",
            buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5, 30),
            registry=registry,
        )
        for pool in POOLS:
            waiting.labels(pool).set_function(partial(seekers.count, pool))
            self.matches.labels(pool)
            self.resumed.labels(pool)
            self.waited.labels(pool)
            self.gap.labels(pool)
            for end in SEEK_ENDS:
                self.seeks.labels(pool, end)
        for why in ("gone", "busy", "trouble"):
            self.lost_races.labels(why)
