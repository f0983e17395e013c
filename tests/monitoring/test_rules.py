"""What is done with rules besides firing them: windows are shortened for demonstrations, queries are read."""

from __future__ import annotations

import re

import pytest

from tests.monitoring import rules
from tests.monitoring.promql import Matcher, Selector, parse


def test_windows_and_patience_are_shortened_and_thresholds_stay() -> None:
    spec = {
        "groups": [
            {
                "name": "some",
                "interval": "1m",
                "rules": [
                    {"record": "a:rate5m", "expr": "sum(rate(a_total[5m])) > 300"},
                    {"alert": "B", "expr": "max_over_time((b > 60)[1h30m:5m]) and c[3d]", "for": "10m"},
                    {"alert": "C", "expr": "c == 0", "for": "1s"},
                ],
            }
        ]
    }
    assert rules.scaled(spec, 360, least_seconds=2) == {
        "groups": [
            {
                "name": "some",
                "interval": "2000ms",
                "rules": [
                    {"record": "a:rate5m", "expr": "sum(rate(a_total[2000ms])) > 300"},
                    {
                        "alert": "B",
                        "expr": "max_over_time((b > 60)[15000ms:2000ms]) and c[720000ms]",
                        "for": "2000ms",
                    },
                    {"alert": "C", "expr": "c == 0", "for": "1000ms"},
                ],
            }
        ]
    }
    assert spec["groups"][0]["interval"] == "1m", "the original stays"


def test_every_duration_of_our_rules_is_shortened() -> None:
    """An alert whose windows stayed as they are would be silent in a demonstration."""
    for rule in rules.rules(rules.scaled(rules.load(), 360, least_seconds=2)):
        spans = re.findall(r"\d+(?:ms|[smhdwy])\b", " ".join(re.findall(r"\[[^\]]*\]", rule["expr"])))
        assert all(re.fullmatch(r"\d+ms", span) for span in [*spans, rule.get("for", "0ms")]), rule


@pytest.mark.parametrize(
    ("text", "seconds"), [("250ms", 0.25), ("30s", 30), ("1h30m", 5400), ("3d", 259_200), ("0s", 0)]
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert rules.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "m", "1h 30m", "five"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        rules.seconds(text)


def test_a_query_is_read_for_its_series_and_labels() -> None:
    query = parse(
        'sum by (pool, le) (rate(a_bucket{pool!="x",le=~"0.5|1.0"}[5m])) / on (pool) group_left (mode) b:c'
        ' > bool 14.4 * 0.001 and d offset 5m unless absent(up{job="e"})'
    )
    assert query.selectors == (
        Selector("a_bucket", (Matcher("pool", "!=", "x"), Matcher("le", "=~", "0.5|1.0"))),
        Selector("b:c"),
        Selector("d"),
        Selector("up", (Matcher("job", "=", "e"),)),
    )
    assert query.grouping == {"pool", "le", "mode"}
    assert parse("sum(a) by (pool)").grouping == {"pool"}


def test_what_is_no_query_is_refused() -> None:
    with pytest.raises(ValueError, match="no query"):
        parse("sum(a) ; drop")


def test_matchers_accept_what_prometheus_would() -> None:
    assert Matcher("a", "=", "x").accepts("x")
    assert not Matcher("a", "!=", "x").accepts("x")
    assert Matcher("a", "=~", "x|y.*").accepts("yes")
    assert not Matcher("a", "=~", "x").accepts("xx"), "it is anchored"
    assert Matcher("a", "!~", "x|y").accepts("z")
