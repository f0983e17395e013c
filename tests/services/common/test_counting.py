"""Counted cheaply, shown as prometheus_client shows its own."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from services.common.counting import Counts, Spreads
from services.common.metrics import DURATION_BUCKETS

VALUES = (0.0, 0.001, 0.0011, 0.5, 1.0, 7.0, 60.0, 61.0)
BUCKETS = DURATION_BUCKETS
"""Of the module that switches off the series that nobody needs."""


def test_the_page_is_the_same_as_with_the_library() -> None:
    """To the byte: values on a bound, below the first and above the last one, series without a value, and without labels."""
    theirs, ours = CollectorRegistry(), CollectorRegistry()
    calls, seconds = Counter("calls_total", "Calls.", ["a", "b"], registry=theirs), ["stage"]
    stages = Histogram("s_seconds", "Stages.", seconds, buckets=BUCKETS, registry=theirs)
    plain = Histogram("p_seconds", "All.", buckets=BUCKETS, registry=theirs)
    our_calls = Counts("calls_total", "Calls.", ("a", "b"), ours)
    our_stages = Spreads("s_seconds", "Stages.", seconds, BUCKETS, ours)
    our_plain = Spreads("p_seconds", "All.", (), BUCKETS, ours)
    for pair in (calls, our_calls):
        pair.labels("x", "y").inc()
        pair.labels("x", "y").inc()
        pair.labels("x", "none")
    for stage in (stages.labels("one"), plain, our_stages.labels("one"), our_plain.labels()):
        for value in VALUES:
            stage.observe(value)
    for every in (stages, our_stages):
        every.labels("none")
    assert generate_latest(ours) == generate_latest(theirs)


def test_a_name_is_given_once() -> None:
    registry = CollectorRegistry()
    Counts("calls_total", "Calls.", (), registry)
    Spreads("s_seconds", "Stages.", (), BUCKETS, registry)
    with pytest.raises(ValueError, match="Duplicated"):
        Counter("calls_total", "Calls.", registry=registry)
    with pytest.raises(ValueError, match="Duplicated"):
        Histogram("s_seconds", "Stages.", registry=registry)
