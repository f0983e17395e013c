"""The commands with which operators rule about results, and the one that builds the ladder again."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from uuid import uuid4

import asyncpg
import pytest
from typer.testing import CliRunner

from services.matchmaking.recompute import command
from services.ops.__main__ import app
from services.storage.incidents import Incident, Kind, put_incidents
from services.storage.pool import Connection
from tests.roles import open_roles, url_as
from tests.services.storage.results import Finished, decide_all, fold, put_result, reasons, stored

WHO = ("--author", "ada", "--reason", "the board froze")


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Connection]:
    await open_roles(database_url)
    made = await asyncpg.connect(database_url)
    yield made
    await made.close()


@pytest.fixture
async def matches(connection: Connection) -> list[Finished]:
    """Five matches, decided."""
    made = [await put_result(connection, *pair) for pair in ("ab", "bc", "ca", "ab", "de")]
    await decide_all(connection)
    return made


class Operator:
    """Runs commands as an operator would."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def __call__(self, *arguments: str, status: int = 0) -> str:
        straight = ("--database-url", url_as("operator", self.url))
        # The command has a loop of its own.
        result = await asyncio.to_thread(
            CliRunner().invoke, app, ["rating", *arguments, *straight], env={"COLUMNS": "200"}
        )
        assert result.exit_code == status, result.output
        return result.output


@pytest.fixture
def operator(database_url: str) -> Operator:
    return Operator(database_url)


async def test_a_result_is_held_looked_at_and_released(
    operator: Operator, connection: Connection, matches: list[Finished]
) -> None:
    """Each command says what it changed; nothing is lost of what was said before."""
    before = await stored(connection)
    match_id = str(matches[1].match_id)
    said = await operator("hold", match_id, *WHO)
    assert "3 decisions and 3 ratings have changed" in said
    for match in matches[1:4]:
        assert str(match.match_id) in said
    assert str(matches[0].match_id) not in said
    assert str(matches[4].match_id) not in said
    matches[1].ruled = "hold"
    assert await stored(connection) == fold(matches)

    listed = await operator("list")
    assert match_id in listed
    assert "the board froze" in listed
    shown = await operator("show", match_id)
    assert shown.startswith("held, openskill")
    assert "ada" in shown

    said = await operator("release", match_id, "--author", "bob", "--reason", "nothing wrong", "--limit", "1")
    assert "and 2 more (--limit)" in said
    assert await stored(connection) == before
    assert match_id not in await operator("list")
    shown = await operator("show", match_id)
    assert "bob" in shown
    # C was new in that match: what was said first is said again now.
    assert shown.count("1500.0 ± 350.0 to") == 2


async def test_all_that_an_incident_concerns_is_ruled_about_at_once(
    operator: Operator, connection: Connection, matches: list[Finished]
) -> None:
    at = await connection.fetchval(
        "select ended_at from match_outcome where match_id = $1", matches[2].match_id
    )
    incident = Incident(
        incident_id=str(uuid4()),
        kind=Kind.OPERATOR,
        noticed_by="operator/ada",
        began_at=at,
        ended_at=None,
        policy_version="v1",
        reason="the ingress lost packets",
        detail='{"effect": "note", "scope": "all", "matches": []}',
    )
    await put_incidents(connection, [incident])
    because = ("--incident", incident.incident_id)
    assert "nothing to release" in await operator("release", *because, *WHO, status=1)
    await operator("hold", str(matches[4].match_id), *because, *WHO)
    await operator("hold", *because, *WHO)
    for match in matches[2:]:
        match.ruled = "hold"
    assert await stored(connection) == fold(matches)
    assert "nothing to hold" in await operator("hold", *because, *WHO, status=1)
    await operator("release", str(matches[2].match_id), *because, *WHO)
    matches[2].ruled = "release"
    await operator("reverse", *because, *WHO)
    for match in matches[3:]:
        match.ruled = "reverse"
    assert await stored(connection) == fold(matches)
    assert await reasons(connection) == {match.match_id: match.reason for match in matches}


async def test_what_makes_no_sense_is_refused_with_a_reason(
    operator: Operator, connection: Connection, matches: list[Finished]
) -> None:
    before = await connection.fetch("select * from rating_decision order by match_id")
    known, unknown = str(matches[0].match_id), str(uuid4())
    refused = await operator("release", known, unknown, *WHO, status=1)
    assert refused == (
        f"nothing was changed: match {known}: it is not held\nmatch {unknown}: there is no such match\n"
    )
    assert "there is no incident" in await operator("hold", "--incident", unknown, *WHO, status=1)
    assert "there is no such match" in await operator("show", unknown, status=1)
    for arguments in (
        ("hold", *WHO),
        ("hold", "no-uuid", *WHO),
        ("hold", known, "--incident", "no-uuid", *WHO),
        ("hold", known, "--author", "ada"),
        ("hold", known, "--author", "service/ladder", "--reason", "x"),
        ("hold", known, "--author", "ada", "--reason", " "),
        ("show", "no-uuid"),
    ):
        await operator(*arguments, status=2)
    assert await connection.fetch("select * from rating_decision order by match_id") == before
    assert await connection.fetchval("select count(*) from rating_ruling") == 0


async def recompute(url: str, *arguments: str, status: int) -> str:
    """The audit, as an operator runs it."""
    out = StringIO()

    def run() -> int | str | None:
        try:
            role = "reader" if "--check" in arguments else "operator"
            return command(["--database-url", url_as(role, url), *arguments])
        except SystemExit as usage:
            return usage.code

    with redirect_stdout(out), redirect_stderr(out):
        assert await asyncio.to_thread(run) == status, out.getvalue()
    return out.getvalue()


async def test_the_audit_is_a_command_of_the_service(database_url: str, matches: list[Finished]) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.matchmaking", "recompute", "--check"),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "SPECTACULAR_BID_DATABASE_URL": url_as("reader", database_url)},
    )
    out, _ = await process.communicate()
    assert (process.returncode, out.decode().split(" players")[0]) == (0, "5 decisions and 5")


async def test_the_whole_ladder_is_built_again_and_compared(
    database_url: str, operator: Operator, connection: Connection, matches: list[Finished]
) -> None:
    """Equal, whatever was ruled; every fault that is put in is found, and repaired as a recorded act."""
    await operator("reverse", str(matches[0].match_id), *WHO)
    await operator("hold", str(matches[1].match_id), *WHO)
    await put_result(connection, "d", "e")
    equal = await recompute(database_url, "--check", status=0)
    assert equal.startswith("5 decisions and 5 players in ")
    assert "1 not decided yet: equal" in equal
    good_ratings = await connection.fetch("select * from rating order by player_id")
    good_decisions = await connection.fetch("select * from rating_decision order by match_id")

    await connection.execute("update rating set mu = mu + 1e-9 where player_id = 'a'")
    await connection.execute("update rating set wins = 0 where player_id = 'd'")
    await connection.execute("update rating set shown = shown + 1 where player_id = 'e'")
    await connection.execute("delete from rating where player_id = 'c'")
    await connection.execute(
        "update rating_decision set south_sigma_after = 100 where match_id = $1", matches[4].match_id
    )
    await connection.execute(
        "update rating_decision set reason = 'held' where match_id = $1", matches[0].match_id
    )
    found = await recompute(database_url, "--check", status=1)
    differ = [line.split(":")[0] for line in found.splitlines()[:-1]]
    assert differ == [
        f"match {matches[0].match_id}",
        f"match {matches[4].match_id}",
        *("player c", "player a", "player d", "player e"),
    ]
    assert found.endswith("6 differences\n")

    assert "needs --author" in await recompute(database_url, status=2)
    repaired = await recompute(database_url, *WHO, status=0)
    assert "6 differences, repaired by ruling" in repaired
    await recompute(database_url, "--check", status=0)
    assert [row["mu"] for row in await connection.fetch("select mu from rating order by player_id")] == [
        row["mu"] for row in good_ratings
    ]
    figures = (
        "select match_id, reason, north_mu_after, south_sigma_after from rating_decision order by match_id"
    )
    assert [tuple(row) for row in await connection.fetch(figures)] == [
        (row["match_id"], row["reason"], row["north_mu_after"], row["south_sigma_after"])
        for row in good_decisions
    ]
    (act,) = await connection.fetch("select * from rating_ruling where action = 'recompute'")
    assert (act["author"], act["reason"], act["automatic"]) == ("ada", "the board froze", False)
    kept = "select match_id from rating_revision where superseded_by = $1"
    assert {row["match_id"] for row in await connection.fetch(kept, act["ruling_id"])} == {
        matches[0].match_id,
        matches[4].match_id,
    }
    assert "equal" in await recompute(database_url, *WHO, status=0)
    assert await connection.fetchval("select count(*) from rating_ruling where action = 'recompute'") == 1


def test_a_database_that_does_not_answer_is_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["--check", "--database-url", "postgresql://nobody@127.0.0.1:1/none"]) == 2
    assert "does not answer" in capsys.readouterr().err
