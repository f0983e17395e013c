"""Who waits longest, as the page of metrics shows it."""

from __future__ import annotations

import threading
import uuid

from prometheus_client import CollectorRegistry, generate_latest

from matchmaker.ticket import SECOND, Ticket
from services.matchmaking.metrics import SeekMetrics
from services.matchmaking.seekers import Seeker, Seekers, cancelled
from services.storage.matches import PlayerRow
from services.storage.seeks import PoolName
from tests.services.game.test_link_metrics import restless_threads

NOW = 100 * SECOND
SEEKS = 500
SCRAPES = 200


def seeker(player_id: str, pool: PoolName = "rated", *, since: int = 0) -> Seeker:
    """An open seek."""
    player = PlayerRow(player_id, player_id, bot=False)
    return Seeker(player, pool, uuid.uuid4(), Ticket(player_id, 1500.0, since), 0)


def shown(seekers: Seekers) -> CollectorRegistry:
    """What the page shows of them."""
    registry = CollectorRegistry()
    SeekMetrics(registry).follow(seekers, lambda: NOW)
    return registry


def test_the_longest_wait_is_that_of_the_oldest_open_seek_of_the_pool() -> None:
    seekers = Seekers()
    registry = shown(seekers)

    def oldest(pool: PoolName) -> float | None:
        return registry.get_sample_value("spectacular_bid_seek_oldest_seconds", {"pool": pool})

    assert (oldest("rated"), oldest("casual")) == (0, 0)
    first, second = seeker("ada", since=NOW - 7 * SECOND), seeker("bob", since=NOW - 5 * SECOND)
    for one in (first, second, seeker("eve", "casual", since=NOW - 2 * SECOND)):
        seekers.add(one)
    assert (oldest("rated"), oldest("casual")) == (7, 2)
    # Who has an answer does not wait any more.
    first.settle(cancelled())
    assert oldest("rated") == 5
    seekers.remove(second)
    assert oldest("rated") == 0


def test_the_page_is_read_while_seeks_come_and_go() -> None:
    """It is read by a thread of its own."""
    seekers = Seekers()
    registry = shown(seekers)
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

    for number in range(SEEKS):
        seekers.add(seeker(f"always-{number}"))
    coming = [seeker(f"sometimes-{number}") for number in range(SEEKS)]
    with restless_threads():
        thread = threading.Thread(target=scrape)
        thread.start()
        while not done.is_set():
            for one in coming:
                seekers.add(one)
            for one in coming:
                seekers.remove(one)
        thread.join()
    assert errors == []
