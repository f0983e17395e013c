"""Figures of the link to the clock, read while matches come and go."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, generate_latest

from services.game.clock_client import ClockLink
from services.game.livetime import LiveTime
from services.game.metrics import LinkMetrics
from tests.services.clock.engines import Room

MATCHES = 500
SCRAPES = 300


@contextmanager
def restless_threads() -> Iterator[None]:
    """Threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def test_the_page_is_read_while_matches_come_and_go() -> None:
    """It is read by a thread of its own, and a process that serves many matches must not fail to show its figures."""
    live, registry = LiveTime(), CollectorRegistry()
    link = ClockLink(
        "127.0.0.1:1",
        "secret",
        "game",
        live.incarnation,
        live,
        lease_ok=lambda: True,
        metrics=LinkMetrics(registry),
    )
    errors: list[BaseException] = []
    done = threading.Event()

    def scrape() -> None:
        try:
            for _ in range(SCRAPES):
                generate_latest(registry)
        except BaseException as error:  # noqa: BLE001 - it is the test's, not this thread's
            errors.append(error)
        finally:
            done.set()

    def room(number: int) -> Room:
        return Room(link, live, f"match-{number}")

    for number in range(MATCHES):
        room(number).open()
    with restless_threads():
        thread = threading.Thread(target=scrape)
        thread.start()
        while not done.is_set():
            for number in range(MATCHES, 2 * MATCHES):
                room(number).open()
            for number in range(MATCHES, 2 * MATCHES):
                link.close(f"match-{number}", 1, "over")
        thread.join()
    assert errors == []
