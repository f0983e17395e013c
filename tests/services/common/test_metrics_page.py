"""/metrics, and those who ask for it and do not go on."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from prometheus_client import CollectorRegistry, Counter

from services.common import metricspage
from services.common.metricspage import AT_ONCE_MAX, REQUEST_SECONDS, MetricsPage
from services.common.settings import split_address


@pytest.fixture
def page() -> Iterator[MetricsPage]:
    """A page with one series."""
    registry = CollectorRegistry()
    Counter("asked", "Nothing.", registry=registry)
    made = MetricsPage("127.0.0.1:0", registry)
    yield made
    made.close()


def read(page: MetricsPage) -> str:
    """What it says."""
    with urllib.request.urlopen(f"http://{page.address}/metrics", timeout=10) as answer:
        return str(answer.read(), "utf-8")


def ended(connection: socket.socket) -> bool:
    """Whether the other side hangs up, without a word."""
    try:
        return connection.recv(100) == b""
    except ConnectionError:
        return True


def halves(page: MetricsPage, count: int, exits: ExitStack) -> list[socket.socket]:
    """So many requests that do not go on."""
    made = []
    for _ in range(count):
        connection = socket.create_connection(split_address(page.address), timeout=30)
        made.append(exits.enter_context(connection))
        connection.sendall(b"GET /metrics HT")
    return made


def test_half_requests_are_bounded(page: MetricsPage, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many at once: those beyond are hung up on, although nobody's time is over."""
    monkeypatch.setattr(metricspage._Handler, "timeout", 300)
    with ExitStack() as exits:
        held = halves(page, AT_ONCE_MAX + 4, exits)
        assert all(ended(connection) for connection in held[AT_ONCE_MAX:])


def test_half_requests_end(
    page: MetricsPage, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each is given up after a while, then the page is there as before. Nothing is written about it."""
    assert metricspage._Handler.timeout == REQUEST_SECONDS
    monkeypatch.setattr(metricspage._Handler, "timeout", 0.1)
    with ExitStack() as exits:
        assert all(ended(connection) for connection in halves(page, AT_ONCE_MAX, exits))
        assert "asked_total 0.0" in read(page)
    assert capfd.readouterr().err == ""
