"""All that operators did is in one list, whatever it was and by whichever way; what the service does is not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from matchmaker.ladder import Action
from services.storage import declarations, poolorders, processorders, rulings
from services.storage.acts import list_acts
from services.storage.declarations import Consequence, Declaration, Scope, ScopeKind
from services.storage.pool import Connection
from services.storage.poolorders import NewOrder
from services.storage.rulings import SERVICE, Act, Ruling
from tests.services.storage.results import decide_all, put_result


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Connection]:
    made = await asyncpg.connect(database_url)
    yield made
    await made.close()


async def test_every_kind_of_act_is_listed_newest_first(connection: Connection) -> None:
    began = datetime.now(UTC)
    matches = [await put_result(connection, "ann", "ben") for _ in range(2)]
    await decide_all(connection)
    note = Declaration(
        "ada", "a note", Scope(ScopeKind.ALL), Consequence.NOTE, began - timedelta(days=9), None
    )
    await poolorders.put_orders(connection, ["rated"], NewOrder("pause", "bob", "a switch"))
    await poolorders.put_orders(connection, ["casual"], NewOrder("announce", "bob", "", announcement="soon"))
    await processorders.put_order(connection, "game-0", "drain", "cas", "a new release")
    await declarations.declare(connection, note, "v1")
    ruling = Ruling("dan", "both", action=Action.HOLD, via="operations")
    await rulings.make_ruling(connection, ruling, [match.match_id for match in matches])
    await rulings.put_recompute(connection, Act(SERVICE, "late", automatic=True))
    await rulings.put_recompute(connection, Act("eve", "restored"))
    await declarations.close(
        connection, note.incident_id, author="fay", reason="over", ended_at=began, via="operations"
    )
    user = await connection.fetchval("select session_user::text")
    acts = await list_acts(connection, None, 100)
    assert [
        (act.author, act.action, act.subject, act.reason, act.via, act.database_user) for act in acts
    ] == [
        ("fay", "incident close", note.incident_id, "over", "operations", ""),
        ("eve", "rating recompute", "the ladder", "restored", "database", user),
        ("dan", "rating hold", "2 matches", "both", "operations", ""),
        # By when it was said, not by when that began.
        ("ada", "incident declare", f"{note.incident_id} (note)", "a note", "database", user),
        ("cas", "game drain", "game-0", "a new release", "operations", ""),
        ("bob", "pool announce", "casual", "soon", "operations", ""),
        ("bob", "pool pause", "rated", "a switch", "operations", ""),
    ]
    assert await list_acts(connection, None, 2) == acts[:2]
    assert await list_acts(connection, acts[2].at, 100) == acts[:3]
