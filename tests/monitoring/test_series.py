"""Rules and dashboards ask only for series, labels and label values that the services have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

import pytest

from k8s.dashboards.__main__ import DASHBOARDS
from tests.monitoring import rules
from tests.monitoring.promql import Matcher, Selector, parse
from tests.monitoring.registries import SCRAPED, series

SPAN = "5m"


@cache
def recorded() -> dict[str, str]:
    return {rule["record"]: rule["expr"] for rule in rules.rules(rules.load()) if "record" in rule}


def queries() -> Iterator[tuple[str, str]]:
    """Where a query stands, and the query."""
    for rule in rules.rules(rules.load()):
        yield str(rule.get("alert", rule.get("record"))), str(rule["expr"])
    for dashboard in DASHBOARDS.values():
        for row in dashboard.rows:
            for panel in row.panels:
                for query in panel.queries:
                    yield f"{dashboard.title} / {panel.title}", query.expr.replace("$__rate_interval", SPAN)


@cache
def labels_of(name: str) -> frozenset[str]:
    """The labels that a series has, none for what is recorded as a sum over everything."""
    if name in recorded():
        return frozenset()
    return frozenset(label for labels in series()[name] for label in labels)


def values(matcher: Matcher) -> list[str]:
    """What a condition names: each of its values must be one that there is."""
    return matcher.value.split("|") if "~" in matcher.op else [matcher.value]


def faults(selector: Selector) -> Iterator[str]:
    if selector.series in recorded():
        if selector.matchers:
            yield f"{selector.series} has no labels"
        return
    if selector.series not in series():
        yield f"there is no {selector.series}"
        return
    found: tuple[Mapping[str, str], ...] = series()[selector.series]
    for matcher in selector.matchers:
        there = {labels.get(matcher.label) for labels in found}
        for value in values(matcher):
            if value not in there:
                yield f"{selector.series} never has {matcher.label}={value!r}"
    if not any(all(one.accepts(labels.get(one.label, "")) for one in selector.matchers) for labels in found):
        yield f"nothing is left of {selector}"


def test_every_series_label_and_value_is_one_of_the_services() -> None:
    found = []
    for where, text in queries():
        query = parse(text)
        assert query.selectors, where
        found += [f"{where}: {fault}" for selector in query.selectors for fault in faults(selector)]
        there = frozenset(SCRAPED).union(
            *(labels_of(selector.series) for selector in query.selectors if selector.series in series())
        )
        found += [f"{where}: nothing has the label {label}" for label in query.grouping - there]
    assert found == []


def test_legends_name_labels_that_are_left() -> None:
    found = []
    for dashboard in DASHBOARDS.values():
        for row in dashboard.rows:
            for panel in row.panels:
                for query in panel.queries:
                    read = parse(query.expr.replace("$__rate_interval", SPAN))
                    missing = set(re.findall(r"\{\{(\w+)\}\}", query.legend)) - read.grouping
                    found += [f"{dashboard.title} / {panel.title}: {label}" for label in missing]
    assert found == []


def test_texts_of_alerts_name_labels_that_are_left() -> None:
    """A label that the expression has summed away would be an empty word in the middle of a sentence."""
    found = []
    for rule in rules.alerts(rules.load()):
        read = parse(rule["expr"])
        # An expression without grouping keeps all labels of its series.
        plain = not re.search(r"\b(sum|max|min|count|group)\b", rule["expr"])
        left = read.grouping.union(*(labels_of(one.series) for one in read.selectors if plain))
        for text in rule["annotations"].values():
            named = set(re.findall(r"\$labels\.(\w+)", text))
            found += [f"{rule['alert']}: {label}" for label in named - left - _by_matching(rule["expr"])]
    assert found == []


def _by_matching(expression: str) -> frozenset[str]:
    """`a and on (instance) b` keeps the labels of `a`."""
    return SCRAPED if re.search(r"\b(and|unless) on\b", expression) else frozenset()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("spectacular_bid_no_such_thing", "there is no"),
        ('spectacular_bid_commands_total{result="gone"}', "never has result='gone'"),
        ('spectacular_bid_command_seconds_bucket{le="0.3"}', "never has le='0.3'"),
        ('spectacular_bid_leading{pool="rated"}', "never has pool='rated'"),
        ('up{job="clock|game"}', "never has job"),
    ],
)
def test_what_the_services_have_not_is_found(text: str, fault: str) -> None:
    (selector,) = parse(text).selectors
    assert fault in " ".join(faults(selector))
