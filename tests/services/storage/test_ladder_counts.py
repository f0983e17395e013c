"""What the database keeps beside ratings and outcomes, so that nobody has to count: right whatever is written, by whomever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from services.matchmaking.ladder import LadderWorker
from services.matchmaking.metrics import RatingMetrics
from services.storage import consistency, ladder, standings
from services.storage.pool import Connection
from tests.services.storage.results import decide_all, put_players, put_result

COUNTS = "the counts that ranks are made of are those of the players"
DUE = "whatever awaits its rating decision is on the list of what does, and nothing else"


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Connection]:
    made = await asyncpg.connect(database_url)
    yield made
    await made.close()


async def broken(connection: Connection) -> dict[str, tuple[str, ...]]:
    """Which of the two rules do not hold, and for what."""
    found = {each.rule: each.first for each in await consistency.broken_rules(connection)}
    return {rule: found[rule] for rule in (COUNTS, DUE) if rule in found}


async def counted(connection: Connection) -> dict[int, int]:
    rows = await connection.fetch(
        "select shown, sum(players) as players from rating_count group by shown having sum(players) <> 0"
    )
    return {row["shown"]: row["players"] for row in rows}


async def put_rating(connection: Connection, name: str, shown: int, rated_matches: int = 1) -> None:
    await put_players(connection, [name])
    await connection.execute(
        """
        insert into rating (player_id, mu, sigma, shown, rated_matches, wins) values ($1, $2, 50, $3, $4, 0)
        on conflict (player_id) do update set mu = $2, shown = $3, rated_matches = $4
        """,
        *(name, shown + 100.0, shown, rated_matches),
    )


async def test_counts_follow_every_way_to_write_a_rating(connection: Connection) -> None:
    for name, shown in (("ann", 1200), ("ben", 1200), ("carl", 900)):
        await put_rating(connection, name, shown)
    await put_rating(connection, "new", 800, rated_matches=0)
    assert await counted(connection) == {1200: 2, 900: 1}
    await put_rating(connection, "ben", 900)
    await put_rating(connection, "new", 700)
    assert await counted(connection) == {1200: 1, 900: 2, 700: 1}
    await connection.execute(
        "update rating set shown = shown + 1, rated_matches = 0 where player_id = 'carl'"
    )
    await connection.execute("update rating set shown = 1300 - shown / 10")
    assert await counted(connection) == {1180: 1, 1210: 1, 1230: 1}
    await connection.execute("delete from rating where player_id in ('ann', 'carl')")
    assert await counted(connection) == {1210: 1, 1230: 1}
    assert await broken(connection) == {}
    await connection.execute("truncate rating")
    assert await counted(connection) == {}


async def test_a_count_is_right_though_decisions_are_made_at_the_same_time(
    connection: Connection, database_url: str
) -> None:
    """Everybody begins with the same rating, so all want the same rows; nobody waits, and a later one is added to."""
    await put_result(connection, "ann", "ben")
    await decide_all(connection)
    results = [await put_result(connection, f"north-{number}", f"south-{number}") for number in range(3)]
    waiting = await ladder.undecided(connection, after=0, limit=9)
    others = [await asyncpg.connect(database_url) for _ in results]
    try:
        open_ones = [other.transaction() for other in others]
        for other, transaction, ended in zip(others, open_ones, waiting, strict=True):
            await transaction.start()
            async with asyncio.timeout(10):
                assert await ladder.decide(other, ended) == "rated"
        for transaction in open_ones[:2]:
            await transaction.commit()
        await open_ones[2].rollback()
    finally:
        for other in others:
            await other.close()
    assert list((await counted(connection)).values()) == [3, 3]
    assert [each.rank for each in await standings.leaderboard(connection, None, 9)] == [1] * 3 + [4] * 3
    assert await broken(connection) == {}
    await decide_all(connection)
    assert [each.rank for each in await standings.leaderboard(connection, None, 9)] == [1] * 4 + [5] * 4
    assert await broken(connection) == {}


async def test_a_result_waits_from_its_end_to_its_decision(connection: Connection) -> None:
    first, second = (
        await put_result(connection, "ann", "ben"),
        await put_result(connection, "ann", "ben", rated=False),
    )
    due = "select match_id from rating_due order by ended_no"
    assert [row["match_id"] for row in await connection.fetch(due)] == [first.match_id, second.match_id]
    await decide_all(connection)
    assert await connection.fetch(due) == []
    assert await broken(connection) == {}


async def test_what_was_changed_behind_the_triggers_is_found(connection: Connection) -> None:
    await put_rating(connection, "ann", 1200)
    waits = await put_result(connection, "ben", "carl")
    decided = await put_result(connection, "dora", "eve")
    await ladder.decide(connection, (await ladder.undecided(connection, after=0, limit=9))[1])
    await connection.execute("delete from rating_due")
    await connection.execute("update rating_count set players = 2 where shown = 1200")
    assert await broken(connection) == {COUNTS: ("1200 points",), DUE: (str(waits.match_id),)}
    await connection.execute("insert into rating_due select ended_no, match_id from match_outcome")
    assert (await broken(connection))[DUE] == (str(decided.match_id),)


async def test_an_outcome_that_is_refused_is_told_of_once_and_stops_nobody(
    connection: Connection, database_url: str
) -> None:
    """It waits on, and what comes after it is decided all the same, with each look."""
    await connection.execute("alter table match_outcome drop constraint match_outcome_winner")
    await put_result(connection, "ann", "ben", None, "balance")
    registry = CollectorRegistry()
    async with asyncpg.create_pool(database_url, min_size=1, max_size=2) as pool:
        worker = LadderWorker(pool, RatingMetrics(registry))
        for number in range(3):
            await put_result(connection, f"carl-{number}", "dora")
            await worker.look()
    assert registry.get_sample_value("spectacular_bid_rating_refused_total") == 1
    assert await connection.fetchval("select count(*) from rating_decision") == 3
    assert await connection.fetchval("select count(*) from rating_due") == 1
