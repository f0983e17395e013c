"""What an operator declares: live matches become void, finished ones stay, and it is written down who said so and why."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import pytest
from typer.testing import CliRunner

from engine.command import Resign
from engine.seats import NORTH
from services.ops.__main__ import app
from services.storage import ownership
from spectacularbid.match.v1 import table_pb2
from tests.integration.operators import WHY, explained, ops
from tests.roles import url_as
from tests.seats import Table, eventually
from tests.services.storage.results import put_result
from tests.stack import Stack

UNKNOWN = "00000000-0000-4000-8000-000000000000"

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def is_over(table: Table) -> bool:
    return await table.stack.outcome(table.match_id) is not None


async def test_a_declaration_voids_the_live_matches_it_names_and_no_other(fresh: Stack) -> None:
    """Fault 26: before rating, with author and reason; who has won already has won."""
    won, named, other = [await Table.create(fresh) for _ in range(3)]
    await won.do(Resign(NORTH))
    incident = await ops(
        fresh,
        "incident",
        "declare",
        "--effect",
        "void",
        *WHY,
        "--match",
        won.match_id,
        "--match",
        named.match_id,
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
    # A machine that stands still for a moment touches matches, too.
    touched = await fresh.pool.fetch(
        "select match_id::text, effect from incident_match where incident_id = $1::text::uuid", incident
    )
    assert [tuple(row) for row in touched] == [(named.match_id, "void")]
    (row,) = await fresh.pool.fetch("select * from incident where kind = 'operator'")
    assert (row["noticed_by"], row["reason"]) == ("operator/ada", "switch 3 was down")
    assert json.loads(row["detail"])["author"] == "ada"
    shown = await explained(fresh, named.match_id)
    assert "operator/ada: switch 3 was down" in shown
    listed = await ops(fresh, "incidents", "--kind", "operator")
    assert incident in listed
    assert "switch 3 was down" in listed


async def test_a_window_concerns_the_matches_that_were_there(own: Stack) -> None:
    """Everything that was live in it, on one game process or on all; what began later plays on."""
    early = await Table.create(own)
    # The time of the database decides, to the microsecond.
    ended = await own.pool.fetchval("select clock_timestamp()")
    late = await Table.create(own)
    window = ("--from", (ended - timedelta(seconds=30)).isoformat(), "--to", ended.isoformat())
    await ownership.begin_lease(own.pool, "another-process", "gone", "another-process:1", -600)
    await ops(own, "incident", "declare", "--effect", "void", *WHY, "--engine", "another-process", *window)
    await ops(own, "incident", "declare", "--effect", "note", *WHY, "--all", *window)
    await ops(own, "incident", "declare", "--effect", "void", *WHY, "--engine", "game", *window)
    await eventually(lambda: is_over(early))
    assert not await is_over(late)
    await ops(own, "incident", "declare", "--effect", "void", *WHY, "--all")
    await eventually(lambda: is_over(late))


async def test_a_match_that_was_taken_up_still_belongs_to_the_process_it_came_from(own: Stack) -> None:
    """The process that was at fault is gone; its matches are played elsewhere, and are void all the same."""
    table = await Table.create(own)
    began = await own.pool.fetchval("select clock_timestamp()")
    own.extra["game-1"] = own.extra["game"]
    await own.start("game-1")
    own.processes["game"].kill()

    async def moved() -> bool:
        return bool(
            await own.pool.fetchval(
                "select engine_id = 'game-1' from match_owner where match_id = $1", table.match_id
            )
        )

    await eventually(moved)
    await ops(
        own,
        "incident",
        "declare",
        "--effect",
        "void",
        *WHY,
        "--engine",
        "game",
        "--from",
        began.isoformat(),
    )
    await eventually(lambda: is_over(table))


async def test_an_incident_that_lasts_is_closed_once(own: Stack) -> None:
    """A note may be open; closing it says who and why, too. A slip in the date does not end it where it began."""
    incident = await ops(own, "incident", "declare", "--effect", "note", *WHY, "--all")
    close = ("incident", "close", incident, *WHY, "--to", "2020-01-01T00:00:00Z")
    assert "before it began" in await ops(own, *close, status=1)
    straight = ("--database-url", url_as("operator", own.database_url), "--author", "eve")
    assert "before it began" in await ops(own, *close, *straight, status=2)
    assert incident in await ops(own, "incidents", "--open")
    await ops(own, "incident", "close", incident, "--reason", "replaced", author="bob")
    assert incident not in await ops(own, "incidents", "--open")
    assert "lasts" in await ops(own, "incident", "close", incident, "--reason", "again", status=1)
    detail = json.loads(
        await own.pool.fetchval("select detail from incident where incident_id = $1", incident)
    )
    assert (detail["closed_by"], detail["closed_reason"]) == ("bob", "replaced")


async def test_a_named_match_is_void_before_it_is_rated_live_or_over(own: Stack) -> None:
    """Live: where it is played. Over and held: by a ruling that rests on the same incident. Rated: refused."""
    since = await now(own)
    live = await Table.create(own)
    said = await ops(own, "match", "void", live.match_id, *WHY)
    assert "becomes void within about a second" in said
    await live.until_over()
    outcome = await own.outcome(live.match_id)
    assert outcome is not None
    assert (outcome["cause"], outcome["detail"]) == ("void", "operator")
    assert said.split()[1].rstrip(":") == (await own.evidence(live.match_id))["detail"]["incident_id"]

    connection = await own.database()
    held, rated = [await put_result(connection, "eve", "fay") for _ in range(2)]
    await eventually(lambda: decided(own, rated.match_id, "rated"))
    await ops(own, "rating", "hold", str(held.match_id), "--reason", "a look", author="bob")
    assert "it was over" in await ops(own, "match", "void", str(held.match_id), *WHY)
    assert await decided(own, held.match_id, "annulled")
    refused = await ops(own, "match", "void", str(rated.match_id), *WHY, status=1)
    assert "`rating reverse` takes it out of the ladder" in refused
    assert "no such match" in await ops(own, "match", "void", UNKNOWN, *WHY, status=1)

    acts = json.loads(await ops(own, "acts", "--json", "--since", since))
    assert [(act["author"], act["action"], act["subject"], act["reason"], act["via"]) for act in acts] == [
        ("ada", "rating annul", str(held.match_id), "switch 3 was down", "operations"),
        ("ada", "match void", str(held.match_id), "switch 3 was down", "operations"),
        ("bob", "rating hold", str(held.match_id), "a look", "operations"),
        ("ada", "match void", live.match_id, "switch 3 was down", "operations"),
    ]


async def now(made: Stack) -> str:
    """The time of the database, which is that of every act."""
    return str(await made.pool.fetchval("select clock_timestamp()"))


async def decided(made: Stack, match_id: UUID, wanted: str) -> bool:
    row = await made.pool.fetchval("select reason from rating_decision where match_id = $1", match_id)
    return bool(row == wanted)


async def test_whoever_acts_is_whom_the_token_names_or_says_so_in_the_database(own: Stack) -> None:
    """With a token no other author can be given; straight in the database both the author and the user are kept."""
    since = await now(own)
    note = ("incident", "declare", "--effect", "note", "--all", *WHY)
    assert "the operator's token" in await ops(own, *note, "--author", "eve", status=2)
    incident = await ops(own, *note)
    straight = await ops(
        own, *note, "--database-url", url_as("operator", own.database_url), "--author", "eve"
    )
    await ops(
        own,
        "incident",
        "close",
        incident,
        *WHY,
        "--database-url",
        url_as("operator", own.database_url),
        "--author",
        "eve",
    )
    acts = json.loads(await ops(own, "acts", "--json", "--since", since))
    user = "spectacular_bid_operator"
    assert [
        (act["author"], act["action"], act["subject"], act["via"], act["database_user"]) for act in acts
    ] == [
        ("eve", "incident close", incident, "database", user),
        ("eve", "incident declare", f"{straight} (note)", "database", user),
        ("ada", "incident declare", f"{incident} (note)", "operations", ""),
    ]
    later = acts[1]["at"]
    assert len(json.loads(await ops(own, "acts", "--json", "--since", later))) == 2
    shown = await ops(own, "acts", "--limit", "1")
    assert f"database ({user})" in shown
    assert straight not in shown
    await ops(own, "incident", "close", straight, *WHY)


@pytest.mark.asyncio(loop_scope="function")
async def test_what_makes_no_sense_is_not_declared(database_url: str) -> None:
    """Nothing is stored, and it is said why."""
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    # Matchmaking is never asked: it need not be there.
    env = {"SPECTACULAR_BID_MATCHMAKING_ADDRESS": "127.0.0.1:1", "SPECTACULAR_BID_OPERATOR_TOKEN": "none"}
    straight = ("--database-url", database_url, "--author", "ada")
    for arguments in (
        ("--effect", "void", "--all"),
        ("--effect", "void", "--all", *WHY, "--database-url", database_url),
        ("--effect", "void", *straight, "--all"),
        ("--effect", "void", *straight, "--reason", " ", "--all"),
        ("--effect", "void", *WHY, "--database-url", database_url, "--author", "a b", "--all"),
        ("--effect", "void", *WHY),
        ("--effect", "void", *WHY, "--all", "--engine", "game"),
        ("--effect", "void", *WHY, "--match", "none"),
        ("--effect", "void", *WHY, "--all", "--to", tomorrow),
        ("--effect", "note", *WHY, "--all", "--from", "2026-01-01"),
        ("--effect", "note", *WHY, "--all", "--from", tomorrow, "--to", "2026-01-01T00:00:00Z"),
    ):
        # The command has a loop of its fresh.
        result = await asyncio.to_thread(
            CliRunner().invoke, app, ["incident", "declare", *arguments], env=env
        )
        assert result.exit_code == 2, (arguments, result.output)
    for about, why in (
        (("--match", UNKNOWN), "there is no match"),
        (("--engine", "gmae"), "there never was a game process gmae"),
    ):
        unknown = ("--effect", "void", *WHY, *straight, *about)
        result = await asyncio.to_thread(CliRunner().invoke, app, ["incident", "declare", *unknown], env=env)
        assert result.exit_code == 1
        assert f"nothing was changed: {why}" in result.output
    connection = await asyncpg.connect(database_url)
    try:
        assert await connection.fetchval("select count(*) from incident") == 0
    finally:
        await connection.close()
