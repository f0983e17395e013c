"""The incidents as an operator looks at them: a list, and one with its evidence, its matches and their decisions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from typer.testing import CliRunner

from services.ops.__main__ import app
from services.ops.database import SESSION
from services.storage.incidents import Effect, Incident, Kind, Touched, put_incidents, put_touched
from services.storage.pool import Connection
from tests.services.storage.results import decide_all, put_result


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Connection]:
    made = await asyncpg.connect(database_url)
    yield made
    await made.close()


async def ops(url: str, *arguments: str, status: int = 0) -> str:
    """What `python -m services.ops incidents` says."""
    env = {"SPECTACULAR_BID_DATABASE_URL": url, "COLUMNS": "300"}
    result = await asyncio.to_thread(CliRunner().invoke, app, ["incidents", *arguments], env=env)
    assert result.exit_code == status, result.output
    return result.output


async def told(url: str, *arguments: str) -> Any:
    return json.loads(await ops(url, *arguments, "--json"))


def declared(*, open_: bool, began: datetime | None = None, **detail: object) -> Incident:
    began = began or datetime.now(UTC) - timedelta(minutes=1)
    return Incident(
        str(uuid4()),
        Kind.OPERATOR,
        "operator/ada",
        began,
        None if open_ else began + timedelta(seconds=90),
        "v1",
        reason="switch 3 was down",
        detail=json.dumps(detail),
    )


async def test_the_list_has_what_is_asked_for(connection: Connection, database_url: str) -> None:
    """All, those that last, those since a time, and those of a kind; programs get the same."""
    yesterday = datetime.now(UTC) - timedelta(days=1)
    lasts = declared(open_=True, began=yesterday - timedelta(days=3), effect="note", scope="all")
    old = declared(open_=False, began=yesterday - timedelta(days=2), effect="note", scope="all")
    stall = Incident.lasting(Kind.STALL, "game/game-0", 1_500_000_000, "v1", reason="oversleep")
    await put_incidents(connection, [lasts, old, stall])
    everything = [stall.incident_id, old.incident_id, lasts.incident_id]
    text = await ops(database_url)
    assert sorted(everything, key=text.index) == everything
    assert "1.500 s" in text
    for arguments, expected in (
        (("--open",), [lasts]),
        (("--since", yesterday.isoformat()), [stall, lasts]),
        (("--kind", "operator"), [old, lasts]),
        (("--limit", "1"), [stall]),
    ):
        ids = [each["incident_id"] for each in await told(database_url, *arguments)]
        assert ids == [incident.incident_id for incident in expected], arguments


async def test_one_is_shown_with_what_it_did_and_what_was_decided(
    connection: Connection, database_url: str
) -> None:
    """A void, a credit and a hold: the result of each, its evidence, its rating decision, and who ruled."""
    credited = await put_result(connection, "a", "b")
    void = await put_result(connection, "c", "d", None, "void")
    held = await put_result(connection, "e", "f", "south", "time")
    other = await put_result(connection, "g", "h")
    incident = declared(
        open_=False, effect="hold", scope="matches", matches=[str(held.match_id)], author="ada"
    )
    touches = [
        (str(credited.match_id), Touched(incident, Effect.CREDITED, 2_500_000_000)),
        (str(void.match_id), Touched(incident, Effect.VOID)),
    ]
    await put_touched(connection, touches)
    await decide_all(connection)

    report = await told(database_url, incident.incident_id)
    found = {match["match_id"]: match for match in report["matches"]}
    assert str(other.match_id) not in found
    assert report["detail"]["author"] == "ada"
    one = found[str(credited.match_id)]
    assert (one["effect"], one["credited_ns"], one["winner"], one["decision"]) == (
        "credited",
        2_500_000_000,
        "north",
        "rated",
    )
    assert (found[str(void.match_id)]["cause"], found[str(void.match_id)]["decision"]) == ("void", "void")
    late = found[str(held.match_id)]
    assert (late["cause"], late["decision"], late["evidence_kind"]) == ("time", "held", "timeout")
    assert late["rulings"] == ["hold by service/ladder: switch 3 was down"]
    (listed,) = await told(database_url)
    note = declared(open_=True, effect="note", scope="matches", matches=[str(other.match_id)])
    await put_incidents(connection, [note])
    (named,) = (await told(database_url, note.incident_id))["matches"]
    assert (named["match_id"], named["effect"], named["rulings"]) == (str(other.match_id), "", [])
    assert listed["matches"] == {"void": 1, "credited": 1, "held": 1}

    text = await ops(database_url, incident.incident_id)
    for words in ("switch 3 was down", "2.500", "south won by time", "held", "operator/ada", "90.000 s"):
        assert words in text
    assert "and 2 more matches" in await ops(database_url, incident.incident_id, "--limit", "1")


async def test_what_does_not_exist_is_said(database_url: str) -> None:
    assert "there is no incident" in await ops(database_url, str(uuid4()), status=1)
    assert "is no UUID" in await ops(database_url, "something", status=2)
    assert "has no time zone" in await ops(database_url, "--since", "2026-11-30T10:00:00", status=2)
    assert await told(database_url) == []


async def test_a_lock_of_somebody_else_is_not_waited_for_without_end(
    connection: Connection, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SESSION, "lock_timeout", "20ms")
    async with connection.transaction():
        await connection.execute("lock table incident in access exclusive mode")
        assert "lock timeout" in await ops(database_url, status=2)
