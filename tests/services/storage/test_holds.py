"""Which results an incident holds, before and after they were rated, and that a person's word stands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from matchmaker.ladder import Action
from services.matchmaking.ladder import LadderWorker
from services.matchmaking.metrics import RatingMetrics
from services.storage import ladder, ownership, rulings
from services.storage.declarations import Consequence, Declaration, Scope, ScopeKind, declare
from services.storage.incidents import Effect, Incident, Kind, put_incidents, put_touches
from services.storage.pool import Pool
from services.storage.rulings import SERVICE, Ruling
from tests.services.storage.results import Finished, fold, put_result, reasons, stored

HELD = "spectacular_bid_rating_held"


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    async with asyncpg.create_pool(database_url, min_size=1, max_size=3) as made:
        yield made


async def ended_at(pool: Pool, match: Finished) -> datetime:
    """When the match ended."""
    at: datetime = await pool.fetchval(
        "select ended_at from match_outcome where match_id = $1", match.match_id
    )
    return at


async def finished(
    pool: Pool, cause: str = "time", engine: str = "game-1", north: str = "ann", south: str = "ben"
) -> Finished:
    """A match that has just ended."""
    async with pool.acquire() as connection:
        return await put_result(connection, north, south, cause=cause, engine=engine)


async def lost_together(
    pool: Pool, began: datetime, ended: datetime | None, engine: str = "game-1"
) -> Incident:
    """Many players of a game process lost their streams."""
    incident = Incident.lasting(
        Kind.MASS_DISCONNECT, "game", 1, "v1", engine_id=engine, began_at=began, ended_at=ended
    )
    await put_incidents(pool, [incident])
    return incident


async def look(pool: Pool) -> CollectorRegistry:
    """One round of a new worker."""
    registry = CollectorRegistry()
    await LadderWorker(pool, RatingMetrics(registry)).look()
    return registry


SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("known_first", [True, False], ids=["before", "after it was rated"])
@pytest.mark.parametrize(
    ("cause", "began", "ended", "engine", "held"),
    [
        ("time", -10, 5, "game-1", True),
        ("time", -10, None, "game-1", True),
        ("time", -70, -60, "game-1", True),
        ("time", -70, -61, "game-1", False),
        ("time", 1, 10, "game-1", False),
        ("time", -10, 5, "game-2", False),
        ("balance", -10, 5, "game-1", False),
        ("resignation", -10, 5, "game-1", False),
    ],
)
async def test_a_loss_on_time_around_a_mass_loss_is_held(
    pool: Pool, cause: str, began: int, ended: int | None, engine: str, held: bool, known_first: bool
) -> None:
    """In the window or up to 60 s after it, on that game process; what ends otherwise was decided by the players."""
    match = await finished(pool, cause)
    at = await ended_at(pool, match)
    if not known_first:
        await look(pool)
        assert await reasons(pool) == {match.match_id: "rated"}
    incident = await lost_together(
        pool, at + began * SECOND, None if ended is None else at + ended * SECOND, engine
    )
    registry = await look(pool)
    assert await reasons(pool) == {match.match_id: "held" if held else "rated"}
    assert registry.get_sample_value(HELD) == held
    async with pool.acquire() as connection:
        match.ruled = "hold" if held else ""
        assert await stored(connection) == fold([match])
        decision = await ladder.find_decision(connection, match.match_id)
        assert decision is not None
        assert (str(decision.incident_id) == incident.incident_id) == held
        assert (decision.evidence_id is not None) == (cause == "time")
        acts = await rulings.rulings_about(connection, match.match_id)
        assert [(act.action, act.author, act.reason) for act in acts] == (
            [("hold", SERVICE, "mass_disconnect")] if held else []
        )
    # Looking again finds nothing more to do.
    await look(pool)
    assert await pool.fetchval("select count(*) from rating_ruling") == int(held)


async def test_a_match_that_the_incident_touched_is_held_wherever_it_is_now(pool: Pool) -> None:
    match = await finished(pool, "time", "game-2")
    at = await ended_at(pool, match)
    incident = await lost_together(pool, at - 9 * SECOND, at, "game-1")
    await put_touches(pool, [(incident.incident_id, str(match.match_id), Effect.CREDITED)])
    await look(pool)
    assert await reasons(pool) == {match.match_id: "held"}


async def declared(
    pool: Pool, effect: Consequence, scope: Scope, began: datetime, ended: datetime | None
) -> str:
    made = Declaration("ada", "the ingress lost packets", scope, effect, began, ended)
    if scope.engine_id is not None:
        await ownership.begin_lease(pool, scope.engine_id, "gone", "game:1", -600)
    async with pool.acquire() as connection:
        await declare(connection, made, "v1")
    return made.incident_id


async def test_a_declared_hold_holds_every_rated_result_of_its_window_and_scope(pool: Pool) -> None:
    """However it ended; live matches go on, and void, casual and other matches are not concerned."""
    early = await finished(pool, "balance", "game-1", "a", "b")
    won = await finished(pool, "balance", "game-1", "a", "b")
    timed = await finished(pool, "time", "game-2", "c", "d")
    async with pool.acquire() as connection:
        void = await put_result(connection, "a", "c", None, "void")
        casual = await put_result(connection, "a", "c", rated=False)
    began, ended = await ended_at(pool, won), await ended_at(pool, casual)
    late = await finished(pool, "resignation", "game-1", "b", "d")
    await declared(pool, Consequence.NOTE, Scope(ScopeKind.ALL), began, ended)
    await look(pool)
    everything = [early, won, timed, void, casual, late]
    all_matches, one = Scope(ScopeKind.ALL), Scope(ScopeKind.ENGINE, engine_id="game-2")
    named = Scope(ScopeKind.MATCHES, match_ids=(str(won.match_id), str(early.match_id)))

    await declared(pool, Consequence.NOTE, all_matches, began, ended)
    await look(pool)
    assert "held" not in (await reasons(pool)).values()
    for scope, held in ((one, [timed]), (named, [timed, won]), (all_matches, [timed, won])):
        await declared(pool, Consequence.HOLD, scope, began, ended)
        await look(pool)
        for match in held:
            match.ruled = "hold"
        async with pool.acquire() as connection:
            assert await reasons(connection) == {match.match_id: match.reason for match in everything}
            assert await stored(connection) == fold(everything)
    # While it lasts, what ends is held as it is decided.
    await declared(pool, Consequence.HOLD, all_matches, await ended_at(pool, late) + SECOND / 1000, None)
    new = await finished(pool, "balance", "game-3", "e", "f")
    new.ruled = "hold"
    await look(pool)
    async with pool.acquire() as connection:
        assert await reasons(connection) == {match.match_id: match.reason for match in [*everything, new]}
        assert (await rulings.list_held(connection, 9))[-1].reason == "the ingress lost packets"


async def test_a_match_that_was_taken_up_is_still_one_of_the_process_it_came_from(pool: Pool) -> None:
    match = await finished(pool, "balance", "game-2")
    at = await ended_at(pool, match)
    takeover = Incident.lasting(
        Kind.TAKEOVER, "game", 1, "v1", engine_id="game-1", began_at=at - 5 * SECOND, ended_at=at - 4 * SECOND
    )
    await put_incidents(pool, [takeover])
    await put_touches(pool, [(takeover.incident_id, str(match.match_id), Effect.CONTINUED)])
    await declared(pool, Consequence.HOLD, Scope(ScopeKind.ENGINE, engine_id="game-1"), at - 9 * SECOND, at)
    await look(pool)
    assert await reasons(pool) == {match.match_id: "held"}


async def test_what_a_person_has_ruled_about_is_not_held_again_by_the_service(pool: Pool) -> None:
    match, other = await finished(pool), await finished(pool, "time", "game-1", "carl", "dora")
    at = await ended_at(pool, match)
    await lost_together(pool, at - SECOND, at + 9 * SECOND)
    await look(pool)
    async with pool.acquire() as connection:
        await rulings.make_ruling(
            connection, Ruling("ada", "looked at", action=Action.RELEASE), [match.match_id]
        )
    await lost_together(pool, at - 2 * SECOND, at + 9 * SECOND)
    await look(pool)
    assert await reasons(pool) == {match.match_id: "rated", other.match_id: "held"}


async def test_an_incident_that_was_applied_and_is_long_over_is_not_looked_through_again(pool: Pool) -> None:
    """A worker remembers; a window that still may get results is looked at again."""
    at = await pool.fetchval("select clock_timestamp()")
    over = await lost_together(pool, at - timedelta(hours=2), at - timedelta(hours=1))
    lasting = await lost_together(pool, at, None)
    worker = LadderWorker(pool, RatingMetrics(CollectorRegistry()))
    await worker.look()
    assert {str(each) for each in worker._held_for} == {over.incident_id}
    match = await finished(pool)
    await worker.look()
    assert await reasons(pool) == {match.match_id: "held"}
    assert lasting.incident_id == str(await pool.fetchval("select incident_id from rating_ruling"))
