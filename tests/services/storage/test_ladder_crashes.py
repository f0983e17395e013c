"""A decision or a ruling that dies at any of its statements is there as a whole or not at all, and is never doubled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from matchmaker.ladder import Action
from services.storage import ladder, rulings
from services.storage.incidents import Incident, Kind, put_incidents
from services.storage.pool import TRANSIENT, Connection
from services.storage.refold import Ended
from services.storage.rulings import RefusedError, Ruling
from tests.services.storage.results import (
    Fate,
    Finished,
    decide_all,
    fold,
    mortal,
    put_result,
    reasons,
    stored,
)

STATEMENTS_MAX = 40
Work = Callable[[Connection], Awaitable[object]]


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Connection]:
    made = await asyncpg.connect(database_url)
    yield made
    await made.close()


async def everything(connection: Connection) -> list[list[tuple[object, ...]]]:
    """All rows a decision or a ruling may write."""
    tables = ("rating_decision", "rating_ruling", "rating_ruled", "rating_revision", "rating")
    found = [await connection.fetch(f"select * from {table}") for table in tables]  # noqa: S608
    # A player who was only locked is as one who was never met.
    found[-1] = [row for row in found[-1] if row["rated_matches"]]
    return [sorted((tuple(row) for row in rows), key=repr) for rows in found]


async def die(url: str, at: int, work: Work, *, unheard: bool) -> Fate:
    """Does the work on a connection that dies at its statement number `at`."""
    fate = Fate(url, at, unheard)
    connection = await mortal(fate)
    try:
        await work(connection)
    except TRANSIENT:
        assert len(fate.seen) >= at
    finally:
        connection.terminate()
    return fate


async def incident_now(connection: Connection, engine: str) -> None:
    """Players of this game process were lost together, now."""
    now = await connection.fetchval("select clock_timestamp()")
    incident = Incident.lasting(Kind.MASS_DISCONNECT, "game", 10**9, "v1", engine_id=engine, ended_at=now)
    await put_incidents(connection, [incident])


@pytest.mark.parametrize("unheard", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", ["rated", "held", "void", "late"])
async def test_fc_44_a_decision_whose_backend_dies_at_any_statement_is_made_once(
    database_url: str, connection: Connection, kind: str, unheard: bool
) -> None:
    """FC-44: at each statement in turn, BEGIN and COMMIT among them, the backend is terminated, before the statement or after
    it with its answer lost; another connection finishes, and the ladder is the fold."""
    results: list[Finished] = []
    if kind == "held":
        await incident_now(connection, "bad")
    steps = 0
    for at in range(1, STATEMENTS_MAX):
        north, south = f"ann-{at}", f"ben-{at}"
        results.append(await put_result(connection, north, south))
        await decide_all(connection)
        if kind == "void":
            results.append(await put_result(connection, north, south, None, "void"))
        elif kind == "held":
            results.append(await put_result(connection, north, south, "south", "time", engine="bad"))
            results[-1].ruled = "hold"
        else:
            results.append(await put_result(connection, south, north))
        (ended,) = await ladder.undecided(connection, after=0, limit=9)
        if kind == "late":
            results.append(await put_result(connection, north, south, "south"))
            (_, later) = await ladder.undecided(connection, after=0, limit=9)
            await ladder.decide(connection, later)
        before = await everything(connection)

        async def work(dying: Connection, ended: Ended = ended) -> None:
            await ladder.decide(dying, ended)

        fate = await die(database_url, at, work, unheard=unheard)
        if ended.match_id not in await reasons(connection):
            assert await everything(connection) == before
        await decide_all(connection)
        assert await stored(connection) == fold(results)
        assert await reasons(connection) == {result.match_id: result.reason for result in results}
        assert await connection.fetchval("select count(*) from rating_ruling where action = 'hold'") == (
            at if kind == "held" else 0
        )
        if at > len(fate.seen):
            steps = at - 1
            break
    # BEGIN and COMMIT, and what is between them; a late one is found out first, then decided in a second transaction.
    assert {"void": 4, "rated": 10, "held": 12, "late": 20}[kind] <= steps < STATEMENTS_MAX - 1


@pytest.mark.parametrize("unheard", [False, True], ids=["before", "after"])
async def test_a_ruling_whose_backend_dies_at_any_statement_is_made_as_a_whole_or_not_at_all(
    database_url: str, connection: Connection, unheard: bool
) -> None:
    """Its later decisions too; a repeat finishes it, or is told that it was made."""
    survived = 0
    for at in range(1, STATEMENTS_MAX):
        ann, ben, carl = f"ann-{at}", f"ben-{at}", f"carl-{at}"
        mine = [
            await put_result(connection, ann, ben),
            await put_result(connection, ben, carl),
            await put_result(connection, carl, ann),
        ]
        await decide_all(connection)
        before = await everything(connection)

        async def work(dying: Connection, match: Finished = mine[0]) -> None:
            await rulings.make_ruling(dying, Ruling("ada", "a test", action=Action.REVERSE), [match.match_id])

        fate = await die(database_url, at, work, unheard=unheard)
        made = (await reasons(connection))[mine[0].match_id] == "reversed"
        if not made:
            assert await everything(connection) == before
            await work(connection)
        else:
            with pytest.raises(RefusedError, match="it is reversed already"):
                await work(connection)
        mine[0].ruled = "reverse"
        expected = fold(mine)
        found = await stored(connection)
        assert {player: found[player] for player in expected} == expected
        about = [match.match_id for match in mine]
        # Each of the three has changed once: the one that was reversed, and the two that it reaches.
        kept = "select count(*) from rating_revision where match_id = any($1::uuid[])"
        assert await connection.fetchval(kept, about) == 3
        if at > len(fate.seen):
            survived = at
            break
    assert survived > 10
