"""A named match is void before it is rated, or it is rated: never both, whoever is faster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import asyncpg
import pytest

from matchmaker.ladder import Action
from services.storage import annulments, ladder, ladderaudit, rulings
from services.storage.annulments import Voided
from services.storage.pool import Connection
from services.storage.rulings import Act, RefusedError, Ruling, Via
from tests.services.storage.results import decide_all, put_players, put_result, reasons, stored


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Connection]:
    made = await asyncpg.connect(database_url)
    yield made
    await made.close()


async def void(
    connection: Connection, match_id: UUID, incident_id: UUID | None = None, via: Via = "operations"
) -> Voided:
    act = Act("ada", "both boards froze", via=via)
    return await annulments.void_match(connection, match_id, act, incident_id or uuid4(), "v1")


async def put_live(connection: Connection, north: str, south: str) -> UUID:
    """A rated match that is played."""
    match_id = uuid4()
    await put_players(connection, (north, south))
    async with connection.transaction():
        await connection.execute(
            """
            insert into match (match_id, mode, rated, north, south, bank_ns, delay_ns, start_limit_ns, continue_limit_ns)
            values ($1, 'rated', true, $2, $3, 120000000000, 10000000000, 1, 1)
            """,
            match_id,
            north,
            south,
        )
        seats = [(north, match_id), (south, match_id)]
        await connection.executemany("insert into live_seat (player_id, match_id) values ($1, $2)", seats)
    return match_id


async def end(connection: Connection, match_id: UUID) -> None:
    """It ends as matches do."""
    await connection.execute(
        """
        with freed as (delete from live_seat where match_id = $1)
        insert into match_outcome (match_id, winner, cause, fence, north_balance, south_balance)
        values ($1, 'north', 'resignation', 1, 150, 150)
        """,
        match_id,
    )


@pytest.mark.parametrize("held", [False, True])
async def test_a_result_that_is_not_rated_yet_never_will_be(connection: Connection, held: bool) -> None:
    """It is decided as annulled, with author, reason and incident, once; the outcome stays what it was."""
    match = await put_result(connection, "ann", "ben")
    if held:
        await rulings.make_ruling(connection, Ruling("bob", "a look", action=Action.HOLD), [match.match_id])
        await decide_all(connection)
    incident_id = uuid4()
    for _ in range(2):
        assert await void(connection, match.match_id, incident_id) is Voided.ANNULLED
    await decide_all(connection)
    decision = await ladder.find_decision(connection, match.match_id)
    assert decision is not None
    said = (decision.reason, decision.incident_id, decision.explanation, decision.revision)
    assert said == ("annulled", incident_id, "both boards froze", 2 if held else 1)
    assert await stored(connection) == {}
    assert await connection.fetchval("select winner from match_outcome") == "north"
    annulled = await connection.fetch("select * from rating_ruling where action = 'annul'")
    assert [(row["author"], row["via"], row["automatic"]) for row in annulled] == [
        ("ada", "operations", False)
    ]
    detail = json.loads(await connection.fetchval("select detail from incident"))
    assert (detail["author"], detail["declared_via"], detail["effect"]) == ("ada", "operations", "void")
    assert (await ladderaudit.check(connection)).differences == []
    with pytest.raises(RefusedError, match="annulled"):
        await rulings.make_ruling(
            connection, Ruling("bob", "after all", action=Action.HOLD), [match.match_id]
        )


async def test_what_cannot_be_void_is_refused_and_changes_nothing(connection: Connection) -> None:
    rated, casual = (
        await put_result(connection, "ann", "ben"),
        await put_result(connection, "ann", "ben", rated=False),
    )
    cancelled = await put_result(connection, "ann", "ben", None, "cancelled")
    taken_out = await put_result(connection, "cas", "dan")
    await decide_all(connection)
    await rulings.make_ruling(connection, Ruling("bob", "fixed", action=Action.REVERSE), [taken_out.match_id])
    for match_id, why in (
        (rated.match_id, "it is rated; `rating reverse`"),
        (casual.match_id, r"not rated in any case \(unrated_mode\)"),
        (cancelled.match_id, r"not rated in any case \(cancelled\)"),
        (taken_out.match_id, "it is reversed"),
        (uuid4(), "there is no such match"),
    ):
        with pytest.raises(RefusedError, match=why):
            await void(connection, match_id)
    assert await connection.fetchval("select count(*) from incident") == 0
    assert (await reasons(connection))[rated.match_id] == "rated"


async def test_a_live_match_that_ends_in_another_way_first_is_not_rated_either(
    connection: Connection,
) -> None:
    """The declaration was there before its end; whoever decides finds it."""
    match_id, other = await put_live(connection, "ann", "ben"), await put_live(connection, "cas", "dan")
    assert await void(connection, match_id) is Voided.LIVE
    await end(connection, match_id)
    await end(connection, other)
    await decide_all(connection)
    assert await reasons(connection) == {match_id: "annulled", other: "rated"}
    row = await connection.fetchrow("select * from rating_ruling")
    assert row is not None
    assert (row["action"], row["author"], row["automatic"], row["via"]) == (
        "annul",
        "service/ladder",
        True,
        "service",
    )
    assert row["reason"] == "both boards froze"
    assert (await ladderaudit.check(connection)).differences == []


async def test_who_acts_in_the_database_is_kept_with_the_user_of_the_database(connection: Connection) -> None:
    match = await put_result(connection, "ann", "ben")
    await void(connection, match.match_id, via="database")
    user = await connection.fetchval("select session_user::text")
    row = await connection.fetchrow("select author, via, database_user from rating_ruling")
    assert row is not None
    assert tuple(row) == ("ada", "database", user)
    assert (
        json.loads(await connection.fetchval("select detail from incident"))["declared_database_user"] == user
    )


async def test_a_match_is_rated_or_void_whoever_is_faster(connection: Connection, database_url: str) -> None:
    """Workers, operators and the ends of matches at once, on connections of their own."""
    match_ids = [await put_live(connection, f"n{number}", f"s{number}") for number in range(12)]
    said: dict[UUID, str] = {}

    async def operate(pool: asyncpg.Pool, match_id: UUID) -> None:
        async with pool.acquire() as own:
            try:
                said[match_id] = (await void(own, match_id)).value
            except RefusedError:
                said[match_id] = "refused"

    async def play(pool: asyncpg.Pool, match_id: UUID) -> None:
        async with pool.acquire() as own:
            await end(own, match_id)

    async def work(pool: asyncpg.Pool) -> None:
        async with pool.acquire() as own:
            while await own.fetchval("select count(*) from rating_decision") < len(match_ids):
                await decide_all(own)

    async with (
        asyncpg.create_pool(database_url, min_size=4, max_size=8) as pool,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(work(pool))
        group.create_task(work(pool))
        for match_id in match_ids:
            group.create_task(play(pool, match_id))
            group.create_task(operate(pool, match_id))
    decided = await reasons(connection)
    assert {match_id: decided[match_id] for match_id in match_ids} == {
        match_id: "rated" if said[match_id] == "refused" else "annulled" for match_id in match_ids
    }
    assert (await ladderaudit.check(connection)).differences == []
