"""What an operator declares: live matches become void, finished ones stay, and it is written down who said so and why."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
from typer.testing import CliRunner

from engine.command import Resign
from engine.seats import NORTH
from services.ops.__main__ import app
from spectacularbid.match.v1 import table_pb2
from tests.integration.operators import WHO, explained, ops
from tests.seats import Table, eventually
from tests.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def is_over(table: Table) -> bool:
    return await table.stack.outcome(table.match_id) is not None


async def test_a_declaration_voids_the_live_matches_it_names_and_no_other(fresh: Stack) -> None:
    """Fault 26: before rating, with author and reason; who has won already has won."""
    won, named, other = [await Table.create(fresh) for _ in range(3)]
    await won.do(Resign(NORTH))
    incident = await ops(
        fresh, "declare", "--effect", "void", *WHO, "--match", won.match_id, "--match", named.match_id
    )
    await named.until_over()
    ended = (await named.view(NORTH)).outcome
    assert (ended.cause, ended.winner, ended.detail) == (table_pb2.CAUSE_VOID, 0, "operator")
    assert (await fresh.outcome(won.match_id))["cause"] == "resignation"  # type: ignore[index]
    # It has been looked for several times by now, and names nothing else.
    assert not await is_over(other)
    evidence = await fresh.evidence(named.match_id)
    assert evidence["detail"]["incident_id"] == incident
    assert evidence["detail"]["summary"] == "operator/ada: switch 3 was down"
    touched = await fresh.pool.fetch("select match_id::text, effect from incident_match")
    assert [tuple(row) for row in touched] == [(named.match_id, "void")]
    (row,) = await fresh.pool.fetch("select * from incident where kind = 'operator'")
    assert (row["noticed_by"], row["reason"]) == ("operator/ada", "switch 3 was down")
    assert json.loads(row["detail"])["author"] == "ada"
    shown = await explained(fresh, named.match_id)
    assert "operator/ada: switch 3 was down" in shown
    listed = await ops(fresh, "list", "--kind", "operator")
    assert incident in listed
    assert "switch 3 was down" in listed


async def test_a_window_concerns_the_matches_that_were_there(fresh: Stack) -> None:
    """Everything that was live in it, on one game process or on all; what began later plays on."""
    early = await Table.create(fresh)
    # The time of the database decides, to the microsecond.
    ended = await fresh.pool.fetchval("select clock_timestamp()")
    late = await Table.create(fresh)
    window = ("--from", (ended - timedelta(seconds=30)).isoformat(), "--to", ended.isoformat())
    await ops(fresh, "declare", "--effect", "void", *WHO, "--engine", "another-process", *window)
    await ops(fresh, "declare", "--effect", "note", *WHO, "--all", *window)
    await ops(fresh, "declare", "--effect", "void", *WHO, "--engine", "game", *window)
    await eventually(lambda: is_over(early))
    assert not await is_over(late)
    await ops(fresh, "declare", "--effect", "void", *WHO, "--all")
    await eventually(lambda: is_over(late))


async def test_a_match_that_was_taken_up_still_belongs_to_the_process_it_came_from(fresh: Stack) -> None:
    """The process that was at fault is gone; its matches are played elsewhere, and are void all the same."""
    table = await Table.create(fresh)
    began = await fresh.pool.fetchval("select clock_timestamp()")
    fresh.extra["game-1"] = fresh.extra["game"]
    await fresh.start("game-1")
    fresh.processes["game"].kill()

    async def moved() -> bool:
        return bool(await fresh.pool.fetchval("select engine_id = 'game-1' from match_owner"))

    await eventually(moved)
    await ops(fresh, "declare", "--effect", "void", *WHO, "--engine", "game", "--from", began.isoformat())
    await eventually(lambda: is_over(table))


async def test_an_incident_that_lasts_is_closed_once(fresh: Stack) -> None:
    """A note may be open; closing it says who and why, too."""
    incident = await ops(fresh, "declare", "--effect", "note", *WHO, "--all")
    assert incident in await ops(fresh, "list", "--open")
    await ops(fresh, "close", incident, "--author", "bob", "--reason", "replaced")
    assert incident not in await ops(fresh, "list", "--open")
    assert "lasts" in await ops(fresh, "close", incident, "--author", "bob", "--reason", "again", status=1)
    detail = json.loads(await fresh.pool.fetchval("select detail from incident where kind = 'operator'"))
    assert (detail["closed_by"], detail["closed_reason"]) == ("bob", "replaced")


@pytest.mark.asyncio(loop_scope="function")
async def test_what_makes_no_sense_is_not_declared(database_url: str) -> None:
    """Nothing is stored, and it is said why."""
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    unknown = "00000000-0000-4000-8000-000000000000"
    env = {"SPECTACULAR_BID_DATABASE_URL": database_url}
    for arguments in (
        ("--effect", "void", "--all"),
        ("--effect", "void", "--author", "ada", "--all"),
        ("--effect", "void", "--author", "ada", "--reason", " ", "--all"),
        ("--effect", "void", "--author", "a b", "--reason", "x", "--all"),
        ("--effect", "void", *WHO),
        ("--effect", "void", *WHO, "--all", "--engine", "game"),
        ("--effect", "void", *WHO, "--match", "none"),
        ("--effect", "void", *WHO, "--match", unknown),
        ("--effect", "void", *WHO, "--all", "--to", tomorrow),
        ("--effect", "note", *WHO, "--all", "--from", "2026-01-01"),
        ("--effect", "note", *WHO, "--all", "--from", tomorrow, "--to", "2026-01-01T00:00:00Z"),
    ):
        # The command has a loop of its fresh.
        result = await asyncio.to_thread(
            CliRunner().invoke, app, ["incident", "declare", *arguments], env=env
        )
        assert result.exit_code == 2, (arguments, result.output)
    connection = await asyncpg.connect(database_url)
    try:
        assert await connection.fetchval("select count(*) from incident") == 0
    finally:
        await connection.close()
