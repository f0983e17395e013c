"""Counters and histograms for what happens with every message: as those of prometheus_client, at a thirtieth of the price.

They are counted by the thread of the event loop alone, so they need no locks: plain numbers, put into families of
Prometheus when somebody looks. Whoever looks does so on a thread of its own, and may see a histogram whose newest value
is in its buckets and not yet in its sum.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import inf

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class Count:
    """One series of a counter."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def inc(self) -> None:
        """One more."""
        self.value += 1


class Spread:
    """One series of a histogram."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Values up to each bound and above the one before it; the last ones are above all."""
        self.total = 0.0

    def observe(self, value: float) -> None:
        """One more value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Counts(Collector):
    """A counter with labels."""

    def __init__(
        self, name: str, documentation: str, labels: Sequence[str], registry: CollectorRegistry
    ) -> None:
        self._named = name, documentation, None, tuple(labels)
        self._series: dict[tuple[str, ...], Count] = {}
        registry.register(self)

    def labels(self, *values: str) -> Count:
        """The series of these labels, made at zero if there is none. To be looked up once, not with every count."""
        return self._series.setdefault(values, Count())

    def describe(self) -> Iterable[Metric]:
        """What there is, without looking."""
        return [CounterMetricFamily(*self._named)]

    def collect(self) -> Iterable[Metric]:
        """What was counted so far."""
        family = CounterMetricFamily(*self._named)
        for values, series in list(self._series.items()):
            family.add_metric(values, series.value)
        return [family]


class Spreads(Collector):
    """A histogram with labels, or with none."""

    def __init__(
        self,
        name: str,
        documentation: str,
        labels: Sequence[str],
        buckets: Sequence[float],
        registry: CollectorRegistry,
    ) -> None:
        self._named = name, documentation, None, None, tuple(labels)
        self._bounds = tuple(map(float, buckets))
        self._texts = [str(floatToGoString(bound)) for bound in (*self._bounds, inf)]  # type: ignore[no-untyped-call]
        self._series: dict[tuple[str, ...], Spread] = {}
        registry.register(self)

    def labels(self, *values: str) -> Spread:
        """The series of these labels, made empty if there is none. To be looked up once, not with every value."""
        return self._series.setdefault(values, Spread(self._bounds))

    def describe(self) -> Iterable[Metric]:
        """What there is, without looking."""
        return [HistogramMetricFamily(*self._named)]

    def collect(self) -> Iterable[Metric]:
        """What was observed so far."""
        family = HistogramMetricFamily(*self._named)
        for values, series in list(self._series.items()):
            upto = accumulate(series.counts)
            family.add_metric(values, list(zip(self._texts, upto, strict=True)), series.total)
        return [family]
