"""Rulings: what they reach is decided again, nothing else is touched, and nonsense changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from matchmaker.ladder import Action
from matchmaker.rating import MODEL_VERSION, UnknownModelError
from services.storage import ladder, ladderaudit, rulings
from services.storage.pool import Connection
from services.storage.refold import Summary
from services.storage.rulings import SERVICE, RefusedError, Ruling
from services.storage.verdicts import own_ladder, share_ladder
from tests.services.storage.results import Finished, decide_all, fold, put_result, reasons, stored


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Connection]:
    made = await asyncpg.connect(database_url)
    yield made
    await made.close()


async def rule(connection: Connection, action: str, *matches: Finished) -> Summary:
    """A person's ruling."""
    ruling = Ruling("ada", f"{action}, because", action=Action(action))
    return await rulings.make_ruling(connection, ruling, [match.match_id for match in matches])


async def rows(connection: Connection, table: str) -> dict[Any, tuple[Any, ...]]:
    """All rows of a table by their first column, byte for byte."""
    return {row[0]: tuple(row) for row in await connection.fetch(f"select * from {table}")}  # noqa: S608


async def test_a_reversal_makes_again_exactly_the_decisions_that_it_reaches(connection: Connection) -> None:
    """Players of the match, then their opponents, in the order in which matches ended; the others stay as they are."""
    before = await put_result(connection, "ann", "dora")
    reversed_ = await put_result(connection, "ann", "ben")
    elsewhere = await put_result(connection, "carl", "dora")
    reached = await put_result(connection, "ben", "carl", "south")
    by_carl = await put_result(connection, "carl", "eve")
    untouched = await put_result(connection, "finn", "gus")
    void = await put_result(connection, "ann", "carl", None, "void")
    await decide_all(connection)
    decisions, ratings = await rows(connection, "rating_decision"), await rows(connection, "rating")

    summary = await rule(connection, "reverse", reversed_)

    assert [shift.ended.match_id for shift in summary.matches] == [
        match.match_id for match in (reversed_, reached, by_carl)
    ]
    assert [moved.player_id for moved in summary.players] == ["ann", "ben", "carl", "eve"]
    now = await rows(connection, "rating_decision")
    assert {match_id for match_id, row in now.items() if row != decisions[match_id]} == {
        match.match_id for match in (reversed_, reached, by_carl)
    }
    now_rated = await rows(connection, "rating")
    assert {player for player, row in now_rated.items() if row != ratings[player]} == {
        "ann",
        "ben",
        "carl",
        "eve",
    }
    reversed_.ruled = "reverse"
    everything = [before, reversed_, elsewhere, reached, by_carl, untouched, void]
    assert await stored(connection) == fold(everything)
    # It says by how much.
    first = summary.matches[0]
    assert (first.before.reason, first.after.reason, first.after.changes) == ("rated", "reversed", None)
    assert {moved.player_id: moved.after for moved in summary.players} == {
        player: fold(everything)[player][0] for player in ("ann", "carl", "eve")
    } | {"ben": fold(everything)["ben"][0]}


async def test_what_is_held_and_released_is_as_it_was_and_all_that_was_said_is_kept(
    connection: Connection,
) -> None:
    matches = [
        await put_result(connection, *pair) for pair in ("ab", "bc", "ca", "ab", "cd", "da") for _ in range(2)
    ]
    await decide_all(connection)
    before = await stored(connection)
    decided = {match.match_id: await ladder.find_decision(connection, match.match_id) for match in matches}
    held = await rule(connection, "hold", matches[3])
    assert await stored(connection) != before
    back = await rule(connection, "release", matches[3])
    assert await stored(connection) == before
    assert [shift.ended.match_id for shift in back.matches] == [
        shift.ended.match_id for shift in held.matches
    ]
    for match in matches:
        then, now = decided[match.match_id], await ladder.find_decision(connection, match.match_id)
        assert then is not None
        assert now is not None
        assert (now.rated, now.north, now.south) == (then.rated, then.north, then.south)
        said = await rulings.revisions(connection, match.match_id)
        assert [each.revision for each in said] == ([1, 2] if now.revision == 3 else [])
        if said:
            assert said[0].verdict.changes == {"north": then.north, "south": then.south}
    shown = await ladder.find_decision(connection, matches[3].match_id)
    assert shown is not None
    assert (shown.reason, shown.revision, shown.explanation) == ("rated", 3, "release, because")
    acts = await rulings.rulings_about(connection, matches[3].match_id)
    assert [(act.action, act.author) for act in acts] == [("hold", "ada"), ("release", "ada")]


NONSENSE = [
    ("release", "rated", "it is not held"),
    ("hold", "held", "it is held already"),
    ("release", "reversed", "it is reversed"),
    ("reverse", "reversed", "it is reversed already"),
    ("hold", "void", "it is not rated in any case (void)"),
    ("reverse", "casual", "it is not rated in any case (unrated_mode)"),
    ("hold", "live", "it is not finished"),
    ("reverse", "unknown", "there is no such match"),
]


@pytest.mark.parametrize(("action", "which", "why"), NONSENSE)
async def test_nonsense_is_refused_and_changes_nothing(
    connection: Connection, action: str, which: str, why: str
) -> None:
    matches = {
        "rated": await put_result(connection, "ann", "ben"),
        "held": await put_result(connection, "ann", "ben"),
        "reversed": await put_result(connection, "ben", "ann"),
        "void": await put_result(connection, "ann", "ben", None, "void"),
        "casual": await put_result(connection, "ann", "ben", rated=False),
        "fine": await put_result(connection, "ann", "carl"),
        "live": await put_result(connection, "ann", "carl"),
        "unknown": Finished(uuid4(), "ann", "ben", "north", "time", True, "game-1"),
    }
    await connection.execute("delete from match_outcome where match_id = $1", matches["live"].match_id)
    await decide_all(connection)
    await rule(connection, "hold", matches["held"])
    await rule(connection, "reverse", matches["reversed"])
    # One that could be ruled about with it: all or nothing.
    if action == "release":
        await rule(connection, "hold", matches["fine"])
    tables = ("rating", "rating_decision", "rating_ruling", "rating_ruled", "rating_revision")
    before = [await rows(connection, table) for table in tables]
    with pytest.raises(RefusedError) as refused:
        await rule(connection, action, matches["fine"], matches[which])
    assert str(refused.value) == f"match {matches[which].match_id}: {why}"
    assert [await rows(connection, table) for table in tables] == before


async def test_a_ruling_about_no_match_is_refused(connection: Connection) -> None:
    with pytest.raises(RefusedError, match="no match is named"):
        await rule(connection, "hold")


async def test_a_match_may_be_ruled_about_before_it_is_decided(connection: Connection) -> None:
    """The decision waits for a worker; it then says what was ruled."""
    held, released, later = [await put_result(connection, "ann", "ben") for _ in range(3)]
    summary = await rule(connection, "hold", held, released)
    assert (summary.matches, await reasons(connection)) == ([], {})
    await rule(connection, "release", released)
    await decide_all(connection)
    held.ruled = "hold"
    assert await stored(connection) == fold([held, released, later])
    assert list((await reasons(connection)).values()).count("held") == 1


async def test_a_result_that_is_decided_after_later_ones_takes_its_place(connection: Connection) -> None:
    """Should a number be given early and come late, later decisions of the two players are made again, as a recorded act."""
    matches = [await put_result(connection, *pair) for pair in ("ab", "bc", "ca", "ef")]
    waiting = await ladder.undecided(connection, after=0, limit=9)
    for ended in waiting[1:]:
        await ladder.decide(connection, ended)
    assert await ladder.decide(connection, waiting[0]) == "rated"
    assert await stored(connection) == fold(matches)
    (act,) = await connection.fetch("select * from rating_ruling")
    assert (act["action"], act["author"], act["automatic"]) == ("recompute", SERVICE, True)
    # A player whom nobody has met before can be one of the two.
    late = await put_result(connection, "newcomer", "a")
    last = await put_result(connection, "a", "b")
    first, second = await ladder.undecided(connection, after=0, limit=9)
    await ladder.decide(connection, second)
    await ladder.decide(connection, first)
    assert await stored(connection) == fold([*matches, late, last])
    assert (await ladderaudit.check(connection)).differences == []


async def test_a_result_that_comes_after_a_released_one_takes_its_place(connection: Connection) -> None:
    """What was held when it was decided and counts by now is a later one, too."""
    early, held = (
        await put_result(connection, "ann", "ben"),
        await put_result(connection, "ann", "ben", "south"),
    )
    await rule(connection, "hold", held)
    first, second = await ladder.undecided(connection, after=0, limit=9)
    assert await ladder.decide(connection, second) == "held"
    await rule(connection, "release", held)
    assert await ladder.decide(connection, first) == "rated"
    assert await stored(connection) == fold([early, held])


async def test_what_is_decided_out_of_order_is_found_until_it_is_put_right(connection: Connection) -> None:
    await put_result(connection, "ann", "ben")
    await put_result(connection, "ann", "carl")
    first, second = await ladder.undecided(connection, after=0, limit=9)
    await ladder.decide(connection, second)
    audit = await ladderaudit.check(connection)
    assert [str(each) for each in audit.differences] == [
        f"match {second.match_id}: stored decided, expected match {first.match_id} before it"
    ]
    await ladder.decide(connection, first)
    assert (await ladderaudit.check(connection)).differences == []


async def test_a_decision_of_another_release_s_model_is_not_computed_again(connection: Connection) -> None:
    """Nothing is changed: that release can do it."""
    first = await put_result(connection, "ann", "ben")
    later = await put_result(connection, "ann", "ben")
    await decide_all(connection)
    await connection.execute(
        "update rating_decision set model_version = 'model of 2031' where match_id = $1", later.match_id
    )
    before = await rows(connection, "rating_decision")
    with pytest.raises(UnknownModelError, match="model of 2031"):
        await rule(connection, "reverse", first)
    assert await rows(connection, "rating_decision") == before
    with pytest.raises(UnknownModelError, match="model of 2031"):
        await ladderaudit.check(connection)
    await connection.execute("update rating_decision set model_version = $1", MODEL_VERSION)
    await rule(connection, "reverse", first)


async def test_each_decision_is_computed_again_with_the_model_it_was_made_with(
    connection: Connection,
) -> None:
    """A ladder that has seen two models: a ruling changes neither which decision has which, nor its exactness."""
    matches = [await put_result(connection, *pair) for pair in ("ab", "bc", "ca", "ab", "bc", "ca")]
    await decide_all(connection)
    old = "openskill-6.2 ThurstoneMostellerFull v1"
    assert old != MODEL_VERSION
    await connection.execute(
        "update rating_decision set model_version = $1 where match_id = any($2::uuid[])",
        old,
        [match.match_id for match in matches[:3]],
    )
    await ladderaudit.repair(connection, "ada", "as if the first three had been decided by an older release")
    assert (await ladderaudit.check(connection)).differences == []
    await rule(connection, "reverse", matches[0])
    assert (await ladderaudit.check(connection)).differences == []
    rows = await connection.fetch(
        "select model_version from rating_decision join match_outcome using (match_id) order by ended_no"
    )
    assert [row["model_version"] for row in rows] == [old] * 3 + [MODEL_VERSION] * 3


async def waits(connection: Connection) -> None:
    """Until somebody waits for an advisory lock."""
    query = "select exists (select from pg_locks where locktype = 'advisory' and not granted)"
    async with asyncio.timeout(60):
        while not await connection.fetchval(query):  # noqa: ASYNC110 - it is another backend that waits
            await asyncio.sleep(0.005)


async def test_a_ruling_waits_for_decisions_under_way_and_decisions_for_it(
    connection: Connection, database_url: str
) -> None:
    """Neither sees half of the other; the result is the fold in both orders."""
    first, second = await put_result(connection, "ann", "ben"), await put_result(connection, "ben", "ann")
    await decide_all(connection)
    other = await asyncpg.connect(database_url)
    try:
        async with connection.transaction():
            await share_ladder(connection)
            ruling = asyncio.create_task(rule(other, "reverse", first))
            await waits(connection)
        await ruling
        third = await put_result(connection, "ann", "ben")
        async with connection.transaction():
            await own_ladder(connection)
            deciding = asyncio.create_task(decide_all(other))
            await waits(connection)
        await deciding
    finally:
        await other.close()
    first.ruled = "reverse"
    assert await stored(connection) == fold([first, second, third])


async def test_decisions_do_not_wait_for_each_other_unless_they_share_a_player(
    connection: Connection, database_url: str
) -> None:
    await put_result(connection, "ann", "ben")
    (ended,) = await ladder.undecided(connection, after=0, limit=1)
    other = await asyncpg.connect(database_url)
    try:
        async with connection.transaction():
            await ladder.decide(connection, ended)
            await put_result(other, "carl", "dora")
            waiting = await ladder.undecided(other, after=0, limit=9)
            assert await ladder.decide(other, waiting[-1]) == "rated"
    finally:
        await other.close()
