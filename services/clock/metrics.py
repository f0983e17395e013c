"""Every metric of a clock on one page, on an injected registry."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from engine.clock import SECOND
from services.clock.notices import Notice
from services.clock.timekeeper import Hangup, Timekeeper
from services.clock.witness import Culprit
from services.common.counting import Counts
from services.wire import clock_messages as m

PREFIX = "spectacular_bid_clock"
PROBES_KEPT = 100_000


class ClockMetrics:
    """Counts what the timekeeper says, and how late it was woken to say it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.watchers = WatcherMetrics(registry)
        verdicts = Counts(
            f"{PREFIX}_verdicts_total", "Decisions judged, repeats included.", ["result"], registry
        )
        self._in_time, self._timed_out = (verdicts.labels(result) for result in ("in_time", "timeout"))
        self._voids = Counter(f"{PREFIX}_voids_total", "Matches given up.", ["reason"], registry=registry)
        for reason in m.VoidReason:
            self._voids.labels(reason.value)
        self._credit = Counts(
            f"{PREFIX}_credit_seconds_total", "Time not charged: gaps and outages.", [], registry
        ).labels()
        self._mismatches = Counter(
            f"{PREFIX}_mismatches_total", "Contradictions between engines and this clock.", registry=registry
        )
        self._stale = Counter(f"{PREFIX}_stale_total", "Messages of owners that are none.", registry=registry)
        self._hangups = Counter(f"{PREFIX}_hangups_total", "Sessions ended by this clock.", registry=registry)
        self._disruptions = Counter(
            f"{PREFIX}_disruptions_total",
            "Incidents of clocks that moved against each other, by whose clock it was.",
            ["culprit"],
            registry=registry,
        )
        for culprit in Culprit:
            self._disruptions.labels(culprit.value)
        self._probe_seconds = Histogram(
            f"{PREFIX}_probe_seconds",
            "From a probe to its answer.",
            buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 10),
            registry=registry,
        )
        self._timer_lag = Histogram(
            f"{PREFIX}_timer_lag_seconds",
            "How late the earliest deadline was looked at.",
            buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1),
            registry=registry,
        )
        self._sessions = Gauge(f"{PREFIX}_sessions", "Engines attached.", registry=registry)
        self._matches = Gauge(f"{PREFIX}_matches", "Matches remembered.", registry=registry)
        self._offset_width = Gauge(
            f"{PREFIX}_offset_width_seconds",
            "How exactly the offset of the worst known engine's clock is known.",
            registry=registry,
        )
        # Only those without an answer; an engine that goes away leaves some behind.
        self._probed: dict[tuple[m.Key, int], int] = {}

    def follow(self, keeper: Timekeeper) -> None:
        """Shows what this timekeeper has to do."""
        self._sessions.set_function(lambda: keeper.sessions)
        self._matches.set_function(lambda: keeper.matches)
        self._offset_width.set_function(lambda: keeper.offset_width_ns / SECOND)

    def rang(self, lag_ns: int) -> None:
        """The timer went off this long after the earliest deadline."""
        self._timer_lag.observe(lag_ns / SECOND)

    def noticed(self, notice: Notice) -> None:
        """Something is kept as an incident."""
        if notice.kind == "clock_disruption":
            self._disruptions.labels(notice.detail["culprit"]).inc()

    def replied(self, reply: m.ProbeReply, now: int) -> None:
        """An engine answered a probe."""
        asked = self._probed.pop((reply.key, reply.probe_no), None)
        if asked is not None:
            self._probe_seconds.observe((now - asked) / SECOND)

    def said(self, message: m.ClockMessage | Hangup, now: int) -> None:
        """The clock answers."""
        match message:
            case m.Verdict():
                self._in_time.inc()
                if message.credited_ns:
                    self._credit.value += message.credited_ns / SECOND
            case m.Timeout():
                self._timed_out.inc()
            case m.Void():
                self._voids.labels(message.reason).inc()
            case m.Armed():
                pass
            case m.Probe():
                if len(self._probed) >= PROBES_KEPT:
                    self._probed.clear()
                self._probed[message.key, message.probe_no] = now
            case m.Mismatch():
                self._mismatches.inc()
            case m.Stale():
                self._stale.inc()
            case Hangup():
                self._hangups.inc()
            case _:
                pass


class WatcherMetrics:
    """Those who look on."""

    def __init__(self, registry: CollectorRegistry) -> None:
        prefix = f"{PREFIX}_watchers"
        self.here = Gauge(prefix, "Streams that look on.", registry=registry)
        self.dropped = Counter(
            f"{prefix}_dropped_total", "Streams that look on and did not keep up.", registry=registry
        )
        self.missed = Counter(
            f"{prefix}_missed_total", "News that such streams were not told.", registry=registry
        )
