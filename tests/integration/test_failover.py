"""A database that comes back without what it acknowledged: a new primary, on a new timeline, that was behind."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
import pytest_asyncio

from client.errors import CallError
from engine.command import Accept, Command, Continue, Decline, Draw, Pass, Play, Resign
from engine.match import Match, legal
from engine.seats import NORTH, SEATS, BySeat, Seat
from services.storage.mending import KEPT_MAX
from services.storage.migrate import migrate
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.failover import Failover
from tests.processes import free_port
from tests.seats import SECONDS_MAX, Table, eventually
from tests.stack import Stack, stack

pytestmark = pytest.mark.asyncio(loop_scope="session")


def move(state: Match, seat: Seat) -> Command:
    """Something legal that takes a turn."""
    may = legal(state)
    if may.play:
        tile, end = may.play[0]
        return Play(seat, tile, end)
    if may.decline:
        return Decline(seat)
    return Accept(seat) if may.accept else Draw(seat) if may.draw else Pass(seat)


async def play_on(table: Table, rulings: int) -> None:
    """So many more commands, each acknowledged to its player."""
    for _ in range(rulings):
        state = await table.stack.state(table.match_id)
        if state.to_act is not None:
            await table.do(move(state, state.to_act))
        else:
            await table.do(Continue(next(seat for seat in SEATS if seat not in state.pressed)))


async def log(made: Stack, match_id: str) -> list[dict[str, Any]]:
    """What is stored of a match, but for the time at which it was written."""
    rows = await made.pool.fetch("select * from match_log where match_id = $1 order by revision", match_id)
    return [{key: value for key, value in row.items() if key != "at"} for row in rows]


@dataclass
class Lost:
    """Matches on both sides of a failover."""

    stack: Stack
    mended: Table
    """Lost a little."""
    void: Table
    """Lost more than is kept in memory."""
    over: Table
    """Ended in what was lost."""
    gone: Table
    """Began in what was lost."""
    before: dict[str, list[dict[str, Any]]]
    """The logs that were acknowledged."""
    watching: Any
    """A stream of the match that will be void."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def lost(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lost]:
    """Four matches, after a failover."""
    failover = Failover(tmp_path_factory.mktemp("failover-postgres"), free_port())
    with failover.server:
        url = failover.server.url
        await asyncio.to_thread(migrate, url)
        async with stack(tmp_path_factory.mktemp("failover-stack"), url, names=("clock", "game")) as made:
            mended, void, over = [await Table.create(made) for _ in range(3)]
            await asyncio.gather(play_on(mended, 2), play_on(void, 2))
            await failover.copy()
            await asyncio.gather(play_on(mended, 3), play_on(void, KEPT_MAX + 1))
            await over.do(Resign(NORTH))
            gone = await Table.create(made)
            tables = (mended, void, over)
            before = {table.match_id: await log(made, table.match_id) for table in tables}
            watching = await void.events(NORTH)
            await watching.read()
            await asyncio.to_thread(failover.happen)
            await made.pool.expire_connections()
            changed = await made.processes["game"].event("database_changed")
            assert changed["matches"] == 4
            yield Lost(made, mended, void, over, gone, before, watching)


async def test_what_players_were_told_is_there_again_and_their_match_goes_on(lost: Lost) -> None:
    made, match_id = lost.stack, lost.mended.match_id

    async def there() -> bool:
        return await log(made, match_id) == lost.before[match_id]

    await eventually(there)
    assert (await made.processes["game"].event("log_mended", match_id=match_id))["put_back"] == 3

    async def goes_on() -> bool:
        try:
            await play_on(lost.mended, 1)
        except CallError as error:
            if error.code is not grpc.StatusCode.UNAVAILABLE:
                raise
            return False  # the process has not come back to the database
        return True

    await eventually(goes_on)
    assert len(await log(made, match_id)) == len(lost.before[match_id]) + 1
    assert await made.outcome(match_id) is None
    timelines = await made.pool.fetchval("select left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)")
    assert timelines == "00000002"


async def test_an_end_that_players_were_told_is_there_again(lost: Lost) -> None:
    made, match_id = lost.stack, lost.over.match_id

    async def there() -> bool:
        return await made.outcome(match_id) is not None

    await eventually(there)
    outcome = await made.outcome(match_id)
    assert outcome is not None
    assert (outcome["cause"], outcome["winner"]) == ("resignation", "south")
    assert await log(made, match_id) == lost.before[match_id]


async def test_a_match_that_has_lost_too_much_is_void_with_evidence_and_still_makes_sense(lost: Lost) -> None:
    made, match_id = lost.stack, lost.void.match_id

    async def over() -> bool:
        return await made.outcome(match_id) is not None

    await eventually(over)
    outcome = await made.outcome(match_id)
    assert outcome is not None
    assert (outcome["cause"], outcome["winner"], outcome["detail"]) == ("void", None, "log_lost")
    told = lost.before[match_id]
    left = await log(made, match_id)
    assert left[:-1] == told[: len(left) - 1]
    evidence = await made.evidence(match_id)
    assert evidence["detail"]["reason"] == "log_lost"
    assert evidence["detail"]["told_revision"] == len(told)
    assert evidence["detail"]["revision"] == len(left) - 1 == len(told) - KEPT_MAX - 1
    incidents = await made.pool.fetch(
        """
        select i.kind, t.effect from incident i join incident_match t using (incident_id)
        where t.match_id = $1 and i.kind = 'log_lost'
        """,
        match_id,
    )
    assert [tuple(row) for row in incidents] == [("log_lost", "void")]
    # Whoever looked on is sent back to the same process, and sees how it ended.
    async with asyncio.timeout(SECONDS_MAX):
        last = (await lost.watching.to_the_end())[-1]
    assert last.reconnect.address == made.address("game")
    table = await lost.void.view(NORTH)
    assert table.outcome.detail == "log_lost"
    record = await lost.void.stub.GetRecord(
        pb.GetRecordRequest(match_id=match_id), metadata=lost.void.players.north.metadata
    )
    assert json.loads(record.record.splitlines()[-1])


async def test_a_match_that_began_in_what_was_lost_is_not_there_and_its_players_are_free(lost: Lost) -> None:
    made, table = lost.stack, lost.gone

    async def unknown() -> bool:
        try:
            await table.view(NORTH)
        except grpc.aio.AioRpcError as error:
            return error.code() is grpc.StatusCode.NOT_FOUND
        return False

    await eventually(unknown)
    # Whom they played is not known any more either; both can play others.
    assert await made.create(BySeat(table.players.north, lost.over.players.south))


async def test_a_match_that_somebody_else_has_told_more_of_is_void_too(lost: Lost) -> None:
    """As a process declares it whose match another one has taken up from what is left of the log."""
    made = lost.stack
    table = await Table.create(made)
    detail = {"effect": "void", "scope": "matches", "matches": [table.match_id]}
    await made.pool.execute(
        """
        insert into incident (incident_id, kind, noticed_by, began_at, ended_at, policy_version, reason, detail)
        values ($1, 'log_lost', 'game/game-9', clock_timestamp(), clock_timestamp(), 'v1', 'told more', $2::jsonb)
        """,
        uuid.uuid4(),
        json.dumps(detail),
    )
    await table.until_over()
    outcome = await made.outcome(table.match_id)
    assert outcome is not None
    assert (outcome["cause"], outcome["detail"]) == ("void", "log_lost")
