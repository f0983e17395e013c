"""The end of one match that is reported again and again is one outcome, and one decision of the ladder."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from client.errors import CallError
from engine.command import Resign
from engine.seats import NORTH, SOUTH, BySeat
from services.storage import ladderaudit
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.matchmaking.v1.matchmaking_service_pb2 import POOL_RATED
from tests.integration.conftest import Tapped
from tests.integration.timing import one_row
from tests.seats import Table, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_fc_44_an_end_that_is_reported_three_times_changes_each_rating_once(tapped: Tapped) -> None:
    """FC-44: the game process never hears that the outcome is stored and is killed there, with nobody to rate it; its next
    life finds the outcome, the player's request comes again, and matchmaking comes back. One outcome, one decision."""
    made = tapped.stack
    players = await made.players(2)
    clients = [await made.client(player) for player in players]
    handles = await asyncio.gather(*(client.seek(POOL_RATED) for client in clients))
    seats = {handle.seat: player for handle, player in zip(handles, players, strict=True)}
    table = Table(made, handles[0].match_id, BySeat(seats[NORTH], seats[SOUTH]))
    await table.start()
    made.processes["matchmaking"].kill()
    assert await made.processes["matchmaking"].ended() == -9

    game = made.processes["game"]
    request = table.request(Resign(NORTH), 0)

    def stored() -> bool:
        game.kill()
        return False

    tapped.database.request_id, tapped.database.on_stored = request.request_id, stored
    with suppress(CallError):
        await table.send(NORTH, request)
    assert await game.ended() == -9
    tapped.clear()
    outcome = await made.outcome(table.match_id)
    assert outcome is not None
    undecided = "select count(*) from rating_decision where match_id = $1"
    assert await made.pool.fetchval(undecided, table.match_id) == 0

    await made.start("game")
    applied: list[pb.Applied] = []

    async def answered() -> bool:
        try:
            applied.append(await table.send(NORTH, request))
        except CallError as error:
            if error.reason != "TRY_AGAIN":
                raise
            return False
        return True

    await eventually(answered)
    await eventually(answered)
    assert applied[0] == applied[1]
    await made.start("matchmaking")
    for _ in range(3):
        await made.pool.execute("select pg_notify('match_outcome', $1)", table.match_id)

    async def decided() -> bool:
        return bool(await made.pool.fetchval(undecided, table.match_id))

    await eventually(decided)
    assert await made.outcome(table.match_id) == outcome
    found = await one_row(
        made, "select rated, revision from rating_decision where match_id = $1", table.match_id
    )
    assert tuple(found) == (True, 1)
    ratings = await made.pool.fetch(
        "select rated_matches, wins from rating where player_id = any($1::text[]) order by wins",
        [player.player_id for player in players],
    )
    assert [tuple(row) for row in ratings] == [(1, 0), (1, 1)]
    async with made.pool.acquire() as connection:
        assert (await ladderaudit.check(connection)).differences == []
