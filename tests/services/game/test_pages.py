"""Figures of a game process, read while matches come and go."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from prometheus_client import CollectorRegistry

from engine.match import Phase
from services.game.clock_client import ClockLink
from services.game.livetime import LiveTime
from services.game.metrics import LinkMetrics
from services.game.rooms import Rooms
from tests.restless import read_while
from tests.services.clock.engines import Room
from tests.services.game.test_rooms import shell

MATCHES = 500


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

    def room(number: int) -> Room:
        return Room(link, live, f"match-{number}")

    def come_and_go() -> None:
        for number in range(MATCHES, 2 * MATCHES):
            room(number).open()
        for number in range(MATCHES, 2 * MATCHES):
            link.close(f"match-{number}", 1, "over")

    for number in range(MATCHES):
        room(number).open()
    assert read_while(come_and_go, registry, times=300) == []


def test_live_matches_are_counted_while_they_come_and_go() -> None:
    """Each reading looks at all of them."""
    nothing: Any = None
    surroundings, registry = shell(nothing, "game"), CollectorRegistry()
    registry.register(surroundings.metrics.live)
    rooms = Rooms(nothing, surroundings, nothing, 0)
    played = SimpleNamespace(
        held=False, closed=False, story=SimpleNamespace(state=SimpleNamespace(phase=Phase.PLAYING))
    )
    room = cast(Any, played)

    def come_and_go() -> None:
        for number in range(MATCHES, 2 * MATCHES):
            rooms._rooms[f"match-{number}"] = room
        for number in range(MATCHES, 2 * MATCHES):
            del rooms._rooms[f"match-{number}"]

    for number in range(MATCHES):
        rooms._rooms[f"match-{number}"] = room
    assert read_while(come_and_go, registry, times=200) == []
    shown = registry.get_sample_value("spectacular_bid_live_matches", {"phase": "playing"})
    assert shown == MATCHES
