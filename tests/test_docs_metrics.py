"""The metrics of docs/operations.md are those of running services: names, types, labels, and all that labels may say."""

from __future__ import annotations

import asyncio
import http.client
import importlib.metadata
import re
import socket
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest
import pytest_asyncio
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.stack import stack
from tests.test_docs import API, OPERATIONS, TIME, Rows, code, name, table

Labels = frozenset[tuple[str, str]]
TYPES = {"": "unary", "server stream": "server_stream", "bidirectional stream": "bidi_stream"}
OF_A_CALL = ("grpc_type", "grpc_service", "grpc_method")
CANARY_HAS = (
    *("process_", "spectacular_bid_ready", "spectacular_bid_build_info", "spectacular_bid_process_info"),
    "spectacular_bid_canary_",
)
"""What the canary's series begin with: nobody calls it, and it has no conditions."""
ALIVE = ("process_", "grpc_server_")
"""What counts as soon as a process runs."""


class Series(NamedTuple):
    """One name on a page."""

    kind: str
    labels: frozenset[str]


class Page(NamedTuple):
    """What a fresh process shows."""

    families: dict[str, Metric]

    @property
    def series(self) -> dict[str, Series]:
        """All names, with their types and labels."""
        return {
            title: Series(family.type, frozenset(label for labels in _said(family) for label, _ in labels))
            for title, family in self.families.items()
        }


def _said(family: Metric) -> set[Labels]:
    """The labels of every series of a name, but for the limits of buckets."""
    return {
        frozenset((label, value) for label, value in sample.labels.items() if label != "le")
        for sample in family.samples
    }


def _scrape(address: str) -> Page:
    connection = http.client.HTTPConnection(address, timeout=10)
    try:
        connection.request("GET", "/metrics")
        page = connection.getresponse().read().decode()
    finally:
        connection.close()
    families = {}
    for family in text_string_to_metric_families(page):
        assert family.samples, f"{family.name} has no series at the start"
        families[family.name + ("_total" if family.type == "counter" else "")] = family
    return Page(families)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pages(tmp_path_factory: pytest.TempPathFactory, new_database: Callable[[], str]) -> dict[str, Page]:
    """Of every kind of process, just started."""
    found = {}
    folder = tmp_path_factory.mktemp("fresh-stack")
    async with stack(folder, await asyncio.to_thread(new_database)) as running:
        await running.launch("canary")
        for service, process in running.processes.items():
            listening = await process.event("listening")
            found[service] = await asyncio.to_thread(_scrape, listening["metrics"])
    return found


def _documented(rows: Rows) -> dict[str, Series]:
    return {name(title): Series(kind, frozenset(code(labels))) for title, kind, labels, _ in rows}


def test_the_metrics_are_those_of_running_services(pages: dict[str, Page]) -> None:
    common = _documented(table(OPERATIONS, "Metrics of every service"))
    if sys.platform != "linux":
        common = {title: series for title, series in common.items() if not title.startswith("process_")}
    said = {service: common | _documented(table(OPERATIONS, f"Metrics of {service}")) for service in pages}
    said["canary"] = {
        title: series for title, series in said["canary"].items() if title.startswith(CANARY_HAS)
    }
    assert said == {service: page.series for service, page in pages.items()}


def test_no_label_is_documented_of_a_series_that_is_none(pages: dict[str, Page]) -> None:
    there = {
        (label, title)
        for page in pages.values()
        for title, series in page.series.items()
        for label in series.labels
    }
    told = {
        (label, where)
        for labels, of, _ in table(OPERATIONS, "Labels")
        for label in code(labels)
        for where in code(of)
    }
    assert told - there == set()


def test_labels_say_from_the_start_all_that_they_may_say_and_nothing_else(pages: dict[str, Page]) -> None:
    """Each value with each value of the other labels: a rate is never without its first increase."""
    expected, found = {}, {}
    for service, page in pages.items():
        for title, family in page.families.items():
            found[service, title] = _said(family)
            expected[service, title] = _all_of(service, title, sorted(page.series[title].labels))
    assert expected == found


def test_what_is_counted_by_kind_is_counted_from_zero(pages: dict[str, Page]) -> None:
    counted = {
        (service, sample.name, *sample.labels.items()): sample.value
        for service, page in pages.items()
        for title, family in page.families.items()
        if family.type == "counter" and not title.startswith(ALIVE)
        for sample in family.samples
        if sample.labels
    }
    assert len(counted) > 50
    assert {key: value for key, value in counted.items() if value} == {}


def _all_of(service: str, title: str, labels: list[str]) -> set[Labels]:
    """Every combination of values that the documents give the labels of a series."""
    whole: set[Labels] = {frozenset()}
    if "grpc_method" in labels:
        whole = {frozenset(pair for pair in call if pair[0] in labels) for call in _calls(service, title)}
    for label in labels:
        if label not in OF_A_CALL:
            values = _values(service, title, label)
            whole = {one | {(label, value)} for one in whole for value in values}
    return whole


def _calls(service: str, title: str) -> list[list[tuple[str, str]]]:
    """What can be called in a process: type, service and method."""
    calls = []
    for package, methods, process in table(API, "Services"):
        if not process.startswith(service):
            continue
        for method, kind in re.findall(r"`(\w+)`(?: \(([\w ]+)\))?", methods):
            if title.startswith("grpc_server_") or kind:
                calls.append([*zip(OF_A_CALL, (TYPES[kind], name(package), method), strict=True)])
    return calls


def _values(service: str, title: str, label: str) -> set[str]:
    """What the table of labels says, and the tables it points to."""
    (cell,) = (
        values
        for labels, of, values in table(OPERATIONS, "Labels")
        if label in code(labels) and (title in code(of) or not code(of))
    )
    values = set(code(cell))
    if "(time.md#for-client-writers)" in cell:
        values |= {name(reason) for reason, _ in table(TIME, "For client writers")}
    if "(api.md#refusals)" in cell:
        values |= {name(reason) for reason, *_ in table(API, "Refusals")}
    if "(#conditions)" in cell:
        values |= {
            name(condition)
            for condition, where, _ in table(OPERATIONS, "Conditions")
            if where in ("every service", service)
        }
    if cell == "the release":
        values = {importlib.metadata.version("spectacular-bid")}
    if cell == "what the process is":
        values = {service}
    if cell == "what the process is called":
        values = {"game" if service == "game" else socket.gethostname()}
    assert values, f"{label} of {title}: {cell}"
    return values
