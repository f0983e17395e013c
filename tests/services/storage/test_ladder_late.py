"""Results that reach the ladder late: none is overlooked, and each takes its place."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from services.matchmaking.ladder import LadderWorker
from services.matchmaking.metrics import RatingMetrics
from services.matchmaking.recompute import DIFFERENT, EQUAL, tell
from services.storage import ladder, ladderaudit
from services.storage.pool import Pool
from tests.services.storage.results import Finished, fold, put_result, reasons, stored


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    async with asyncpg.create_pool(database_url, min_size=1, max_size=3) as made:
        yield made


async def put(pool: Pool, north: str, south: str) -> Finished:
    """A match that has just ended."""
    async with pool.acquire() as connection:
        return await put_result(connection, north, south)


async def set_back(pool: Pool, match: Finished) -> None:
    """As if it had ended an hour ago: so it looks when the database's clock steps ahead."""
    await pool.execute(
        "update match_outcome set ended_at = ended_at - interval '1 hour' where match_id = $1", match.match_id
    )


async def test_a_result_that_is_committed_late_is_decided_though_the_clock_has_stepped_ahead(
    pool: Pool,
) -> None:
    """Its number is smaller than one that looks as if it had been settled long ago."""
    worker = LadderWorker(pool, RatingMetrics(CollectorRegistry()))
    await worker.look()
    async with pool.acquire() as slow, slow.transaction():
        first = await put_result(slow, "ann", "ben")
        second = await put(pool, "carl", "dora")
        await set_back(pool, second)
        await worker.look()
        assert await reasons(pool) == {second.match_id: "rated"}
    await worker.look()
    assert await reasons(pool) == {first.match_id: "rated", second.match_id: "rated"}


async def test_a_result_that_comes_after_a_repair_takes_its_place(pool: Pool) -> None:
    """A repair that makes lost ratings again knows which results are late."""
    results = [await put(pool, "ann", "ben"), await put(pool, "ann", "carl")]
    async with pool.acquire() as connection:
        first, second = await ladder.undecided(connection, after=0, limit=9)
        await ladder.decide(connection, second)
        await connection.execute("delete from rating")
        await ladderaudit.repair(connection, "ada", "ratings were lost")
        await ladder.decide(connection, first)
        assert (await ladderaudit.check(connection)).differences == []
        assert await stored(connection) == fold(results)


async def test_a_forgotten_newest_result_is_a_difference(pool: Pool) -> None:
    """Without it a late result would not be noticed."""
    await put(pool, "ann", "ben")
    await LadderWorker(pool, RatingMetrics(CollectorRegistry())).look()
    await pool.execute("update rating set newest_ended_no = 0 where player_id = 'ann'")
    async with pool.acquire() as connection:
        (found,) = (await ladderaudit.check(connection)).differences
        assert str(found) == "player ann: stored newest result 0, expected newest result 1"
        assert (await ladderaudit.repair(connection, "ada", "forgotten")).ruling_id is not None
        assert (await ladderaudit.check(connection)).differences == []


async def test_a_repair_does_not_call_repaired_what_waits_for_an_earlier_decision(
    pool: Pool, capsys: pytest.CaptureFixture[str]
) -> None:
    await put(pool, "ann", "ben")
    await put(pool, "ann", "carl")
    async with pool.acquire() as connection:
        first, second = await ladder.undecided(connection, after=0, limit=9)
        await ladder.decide(connection, second)
        await connection.execute("update rating set wins = 0")
        assert tell(await ladderaudit.repair(connection, "ada", "wins were lost"), 1.0) == DIFFERENT
        assert "2 differences, repaired by ruling" in capsys.readouterr().out
        assert tell(await ladderaudit.repair(connection, "ada", "again"), 1.0) == DIFFERENT
        assert capsys.readouterr().out.endswith(": 1 differences; 1 wait for an earlier decision\n")
        await ladder.decide(connection, first)
        assert tell(await ladderaudit.check(connection), 1.0) == EQUAL
