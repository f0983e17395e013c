"""Who waits longest, and how late ratings are, as the page of metrics shows it."""

from __future__ import annotations

import uuid

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from matchmaker.ticket import SECOND, Ticket
from services.matchmaking.ladder import LadderWorker
from services.matchmaking.metrics import RatingMetrics, SeekMetrics
from services.matchmaking.seekers import Seeker, Seekers, cancelled
from services.storage.matches import PlayerRow
from services.storage.seeks import PoolName
from tests.restless import read_while
from tests.services.matchmaking.house import House
from tests.services.matchmaking.test_ladder import ended_match, worker

NOW = 100 * SECOND
SEEKS = 500


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
    coming = [seeker(f"sometimes-{number}") for number in range(SEEKS)]

    def come_and_go() -> None:
        for one in coming:
            seekers.add(one)
        for one in coming:
            seekers.remove(one)

    for number in range(SEEKS):
        seekers.add(seeker(f"always-{number}"))
    assert read_while(come_and_go, registry, times=200) == []


NO_DECISION = """
create function no_decision() returns trigger language plpgsql as
$$ begin raise exception 'not now' using errcode = 'lock_not_available'; end $$;
create trigger no_decision before insert on rating_decision for each row execute function no_decision();
"""


async def test_a_decision_is_late_by_what_has_passed_since_the_end_of_its_match(house: House) -> None:
    """While decisions fail the oldest match grows older; afterwards none waits."""
    decide, registry = worker(house)

    def shown(series: str) -> float:
        value = registry.get_sample_value(f"spectacular_bid_rating_{series}")
        assert value is not None
        return value

    older, newer = await ended_match(house, "ann", "ben"), await ended_match(house, "carl", "dora")
    for match_id, seconds in ((older, 90), (newer, 60)):
        await house.pool.execute(
            "update match_outcome set ended_at = ended_at - $2 * interval '1 second' where match_id = $1",
            uuid.UUID(match_id),
            float(seconds),
        )
    await house.pool.execute(NO_DECISION)
    with pytest.raises(asyncpg.LockNotAvailableError):
        await decide.look()
    assert shown("oldest_undecided_seconds") >= 90
    assert shown("delay_seconds_count") == 0
    await house.pool.execute("drop trigger no_decision on rating_decision")
    await decide.look()
    assert shown("oldest_undecided_seconds") == 0
    assert shown("delay_seconds_count") == 2
    assert shown("delay_seconds_sum") >= 150


async def test_results_that_cannot_be_looked_at_are_a_backlog_too(house: House) -> None:
    """Nobody knows whether any waits: what the alert looks at grows until a look succeeds."""
    registry = CollectorRegistry()

    def oldest() -> float:
        value = registry.get_sample_value("spectacular_bid_rating_oldest_undecided_seconds")
        assert value is not None
        return value

    impatient = asyncpg.create_pool(house.database_url, min_size=1, server_settings={"lock_timeout": "50ms"})
    async with impatient as pool:
        decide = LadderWorker(pool, RatingMetrics(registry))
        await decide.look()
        assert oldest() == 0
        async with house.pool.acquire() as connection, connection.transaction():
            await connection.execute("lock table match_outcome in access exclusive mode")
            with pytest.raises(asyncpg.LockNotAvailableError):
                await decide.look()
            first = oldest()
            assert 0 < first < oldest()
        await decide.look()
        assert oldest() == 0
