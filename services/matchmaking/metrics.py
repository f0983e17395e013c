"""Every metric of matchmaking on one page, on an injected registry.

What is counted is counted where it happens; here stands what there is, by which labels, and that each series exists at
zero from the start. No label ever holds a player, a seek or a match.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from matchmaker.ladder import Reason
from matchmaker.ticket import SECOND
from services.matchmaking.seekers import POOLS, Seekers

SEEK_ENDS: Final = ("matched", "replaced", "cancelled", "closed", "drained", "failed")
"""How a seek ends: `closed` by its own client, `drained` by an operator, `failed` by us."""
CLOSED_MODES: Final = ("paused", "draining")


class MatchmakingMetrics:
    """All of them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.lead = LeadMetrics(registry)
        self.seeks = SeekMetrics(registry)
        self.placement = PlacementMetrics(registry)
        self.ratings = RatingMetrics(registry)


class LeadMetrics:
    """Who leads."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.leading = Gauge("spectacular_bid_leading", "1 while this process leads.", registry=registry)
        self.lost = Counter("spectacular_bid_lead_lost_total", "Times the lead was lost.", registry=registry)


class SeekMetrics:
    """How many wait and how long, what becomes of seeks, and what a wave costs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.waiting = Gauge("spectacular_bid_players_waiting", "Open seeks.", ["pool"], registry=registry)
        self.oldest = Gauge(
            "spectacular_bid_seek_oldest_seconds",
            "How long the seek that waits longest has waited; 0 when nobody waits.",
            ["pool"],
            registry=registry,
        )
        self.closed = Gauge(
            "spectacular_bid_pool_closed",
            "1 while operators have a pool paused or draining.",
            ["pool", "mode"],
            registry=registry,
        )
        self.ended = Counter(
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
            for by_pool in (self.waiting, self.oldest, self.matches, self.resumed, self.waited, self.gap):
                by_pool.labels(pool)
            for end in SEEK_ENDS:
                self.ended.labels(pool, end)
            for mode in CLOSED_MODES:
                self.closed.labels(pool, mode)
        for why in ("gone", "busy", "trouble"):
            self.lost_races.labels(why)

    def follow(self, seekers: Seekers, now: Callable[[], int]) -> None:
        """Shows who waits; `now` is the timeline of tickets, in nanoseconds."""
        for pool in POOLS:
            self.waiting.labels(pool).set_function(partial(seekers.count, pool))
            self.oldest.labels(pool).set_function(partial(_seconds, partial(seekers.longest_wait, pool), now))


def _seconds(longest_wait: Callable[[int], int], now: Callable[[], int]) -> float:
    return longest_wait(now()) / SECOND


class PlacementMetrics:
    """The game processes, and the matches on their way to them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.processes = Gauge(
            "spectacular_bid_game_processes", "Registered game processes.", registry=registry
        )
        self.placing = Gauge(
            "spectacular_bid_matches_being_placed",
            "Matches sent to a game process and not confirmed yet.",
            registry=registry,
        )
        self.placed = Counter(
            "spectacular_bid_matches_placed_total",
            "Matches that a game process has confirmed to have loaded.",
            registry=registry,
        )
        self.placed_again = Counter(
            "spectacular_bid_matches_placed_again_total",
            "Matches whose game process went away before it had loaded them, given to another one.",
            registry=registry,
        )


class RatingMetrics:
    """What the ladder's worker does, and how far behind it is."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.decided = Counter(
            "spectacular_bid_rating_decisions_total",
            "Rating decisions, by reason.",
            ["reason"],
            registry=registry,
        )
        self.delay = Histogram(
            "spectacular_bid_rating_delay_seconds",
            "From the end of a match to its rating decision, by the clock of the database.",
            buckets=(0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800),
            registry=registry,
        )
        self.oldest = Gauge(
            "spectacular_bid_rating_oldest_undecided_seconds",
            "How long ago the oldest match ended that awaits its rating decision; 0 when none does.",
            registry=registry,
        )
        self.refused = Counter(
            "spectacular_bid_rating_refused_total",
            "Outcomes that make no sense and were left undecided.",
            registry=registry,
        )
        self.undecided = Gauge(
            "spectacular_bid_rating_undecided",
            "Finished matches found without a decision.",
            registry=registry,
        )
        self.held = Gauge(
            "spectacular_bid_rating_held",
            "Results that are held and wait for a person.",
            registry=registry,
        )
        for reason in get_args(Reason):
            self.decided.labels(reason)
