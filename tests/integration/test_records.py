"""Finished matches: rated ones from the seek to the new ratings, and the records that anyone can check."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc
import pytest

from client.bots import greedy
from client.bots.player import play as sit
from client.errors import from_rpc
from client.session import RATED
from engine.command import Bid, Decline, Resign, Start
from engine.event import TurnTimed
from engine.playback import play_back
from engine.record import read_record
from engine.seats import NORTH, SEATS, SOUTH, BySeat
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.engine.tables import deal, play
from tests.integration.test_one_device import play_both_seats
from tests.recomputed import Recomputed
from tests.seats import Sitting, Table, eventually, scripted
from tests.stack import Player, Stack, time_control

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def record(made: Stack, match_id: str, reader: Player | None = None) -> str:
    """The record of a match, by default as south asks for it."""
    south = (await made.row(match_id)).south.player_id
    metadata = (reader or Player(south, made.token(south))).metadata
    answer = await made.matches().GetRecord(pb.GetRecordRequest(match_id=match_id), metadata=metadata)
    return answer.record


async def engine(*arguments: str) -> tuple[int, str]:
    """`python -m engine …`: exit status and output."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "engine", *arguments, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def check_record(made: Stack, match_id: str, folder: Path) -> None:
    """The command line accepts the record, and it comes to exactly what the service came to: to the nanosecond."""
    text = await record(made, match_id)
    file = folder / f"{match_id}.jsonl"
    await asyncio.to_thread(file.write_text, text, "utf-8")
    status, output = await engine("verify", str(file))
    assert status == 0, output
    status, output = await engine("replay", str(file))
    assert status == 0, output
    answers = [json.loads(line) for line in output.splitlines()]
    assert len(answers) == len(text.splitlines())
    assert all(answer["accepted"] for answer in answers)
    told = await made.truth(match_id)
    truth = told.states[-1]
    assert truth.outcome is not None
    *_, last = play_back(read_record(text.encode()))
    assert (last.state.balances, last.state.hands, last.state.boneyard) == (
        truth.balances,
        truth.hands,
        truth.boneyard,
    )
    assert last.state.banks == truth.banks
    head = json.loads(text.splitlines()[0])
    row = await made.row(match_id)
    assert head["match_id"] == match_id
    assert head["players"] == {"north": row.north.player_id, "south": row.south.player_id}
    assert head["names"] == {"north": row.north.name, "south": row.south.name}
    ended_at = await made.pool.fetchval("select max(at) from match_log where match_id = $1", match_id)
    begun, over = (datetime.fromisoformat(head[key]) for key in ("started_at", "ended_at"))
    assert begun == row.created_at < over == ended_at
    assert head["outcome"]["cause"] == truth.outcome.cause.value
    # And without the engine: balances and banks follow from the record alone.
    found = Recomputed(text)
    assert found.balances == {"north": truth.balances.north, "south": truth.balances.south}
    assert found.winner == truth.outcome.winner
    if any(isinstance(event, TurnTimed) for event in told.events):
        assert found.banks_ns == {"north": truth.banks.north, "south": truth.banks.south}


async def test_a_rated_match_from_the_seek_to_the_new_ratings(shared: Stack, tmp_path: Path) -> None:
    """Two bots find each other, play a whole rated match, and have new ratings: outcome, log, record and rating rows are
    in PostgreSQL, and the ladder tells of them."""
    players = await shared.players(2)
    clients = [await shared.client(player) for player in players]
    handles = await asyncio.gather(*(client.seek(RATED) for client in clients))
    match_id = handles[0].match_id
    assert {handle.match_id for handle in handles} == {match_id}
    assert {handle.seat for handle in handles} == set(SEATS)
    assert [handle.opponent and handle.opponent.player_id for handle in handles] == [
        player.player_id for player in reversed(players)
    ]
    tables = await asyncio.gather(
        *(sit(client.play(handle), greedy.choose) for client, handle in zip(clients, handles, strict=True))
    )
    truth = await shared.truth(match_id)
    outcome = truth.states[-1].outcome
    assert outcome is not None
    assert [table.outcome for table in tables] == [outcome, outcome]
    row = await shared.row(match_id)
    assert (row.rated, row.mode, row.bank_ns, row.delay_ns) == (True, "rated", 120 * 10**9, 10 * 10**9)
    stored = await shared.outcome(match_id)
    assert stored is not None
    assert (stored["winner"], stored["cause"]) == (outcome.winner, outcome.cause)
    assert {stored["north_balance"], stored["south_balance"]} == {0, 300}
    await check_record(shared, match_id, tmp_path)
    assert await record(shared, match_id, shared.spectator()) == await record(shared, match_id)

    async def decided() -> bool:
        return bool(
            await shared.pool.fetchval("select count(*) from rating_decision where match_id = $1", match_id)
        )

    await eventually(decided)
    decision = await clients[0].rating_decision(match_id)
    assert (decision.rated, decision.reason) == (True, "rated")
    winner = outcome.winner
    assert winner is not None
    gained = {
        NORTH: decision.north_after.mu - decision.north_before.mu,
        SOUTH: decision.south_after.mu - decision.south_before.mu,
    }
    assert gained[winner] > 0 > gained[winner.opponent]
    for client, handle in zip(clients, handles, strict=True):
        standing = await client.standing()
        assert (standing.rated_matches, standing.wins) == (1, int(handle.seat is winner))
        (finished,) = await client.history()
        assert finished.match_id == match_id
    ratings = await shared.pool.fetch(
        "select mu from rating where player_id = any($1)", [player.player_id for player in players]
    )
    assert len(ratings) == 2
    assert await shared.pool.fetchval("select count(*) from live_seat where match_id = $1", match_id) == 0


async def test_every_way_to_end_gives_a_record_that_holds(shared: Stack, tmp_path: Path) -> None:
    """Balance, time, resignation, cancelled; charges to the nanosecond in a match without delay worth the name; start positions;
    one device."""
    forced: dict[str, Any] = {"deals": scripted(deal("6|6 1|2", "0|6 0|1"))}

    async def random_match(number: int, **wanted: Any) -> str:
        players = BySeat(*await shared.players(2))
        match_id = await shared.create(players, **wanted)
        await asyncio.gather(
            *(
                Sitting(
                    shared.matches(), player.metadata, match_id, random.Random(number), patience=40
                ).play()
                for player in players
            )
        )
        return match_id

    async def resigned() -> str:
        table = await Table.create(shared, **forced)
        await table.do(play(NORTH, "6|6"))
        await table.do(Resign(NORTH))
        return table.match_id

    async def in_an_auction() -> str:
        balances = table_pb2.Balances(north=285, south=15)
        table = await Table.create(shared, jockey=table_pb2.SEAT_NORTH, balances=balances)
        await table.do(Bid(SOUTH, 15))
        await table.do(Resign(NORTH))
        return table.match_id

    async def out_of_time() -> str:
        table = await Table.create(shared, time_control=time_control(123, 456), **forced)
        await table.until_over()
        return table.match_id

    async def cancelled() -> str:
        table = await Table.create(shared, start=False, start_limit_ms=1)
        await table.until_over()
        return table.match_id

    async def one_device() -> str:
        table = await Table.on_one_device(shared, start=False, time_control=time_control(600_000, 1))
        await play_both_seats(table, random.Random(5), commands_max=40)
        return table.match_id

    ended = await asyncio.gather(
        random_match(1, time_control=time_control(3_000_000, 1)),
        random_match(2, time_control=time_control(3_000_000, 1)),
        random_match(3, balances=table_pb2.Balances(north=5, south=295), jockey=table_pb2.SEAT_SOUTH),
        resigned(),
        in_an_auction(),
        out_of_time(),
        cancelled(),
        one_device(),
    )
    for match_id in ended:
        await check_record(shared, match_id, tmp_path)
    charged = await shared.pool.fetchval(
        "select count(*) from match_log where match_id = $1 and charge_ns % 1000000 <> 0", ended[0]
    )
    assert charged > 10
    causes = await shared.pool.fetch(
        "select distinct cause from match_outcome where match_id = any($1::uuid[])", ended
    )
    assert {row["cause"] for row in causes} >= {"time", "resignation", "cancelled"}


async def test_a_live_match_has_no_record(shared: Stack) -> None:
    """Deals and salts leave only when the match is over: not even its players get them before."""
    table = await Table.create(shared, jockey=table_pb2.SEAT_NORTH)
    for reader in (table.players.north, shared.spectator()):
        with pytest.raises(grpc.aio.AioRpcError) as live:
            await record(shared, table.match_id, reader)
        error = from_rpc(live.value)
        assert (error.code, error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "MATCH_LIVE")
    await table.do(Decline(SOUTH))
    await table.do(Resign(NORTH))
    assert await record(shared, table.match_id)


async def test_an_unrated_record_is_for_those_who_played_it(shared: Stack) -> None:
    """Both players, and on one device the one who holds both seats; everybody else is refused and told why."""
    table = await Table.create(shared)
    await table.do(Resign(NORTH))
    device = await Table.on_one_device(shared, start=False, start_limit_ms=1)
    await device.until_over()
    for match_id, players in (
        (table.match_id, (table.players.north, table.players.south)),
        (device.match_id, (device.players.north,)),
    ):
        texts = {await record(shared, match_id, player) for player in players}
        assert len(texts) == 1
        with pytest.raises(grpc.aio.AioRpcError) as private:
            await record(shared, match_id, shared.spectator())
        error = from_rpc(private.value)
        assert (error.code, error.reason) == (grpc.StatusCode.PERMISSION_DENIED, "RECORD_PRIVATE")
        assert error.message == "the match was not rated: only those who played it may have its record"


async def test_the_commitment_told_in_time_is_the_one_of_the_record(shared: Stack, tmp_path: Path) -> None:
    """What was published before the first press binds the service: a record with one tile exchanged is caught."""
    table = await Table.create(shared, start=False)
    told = (await table.view(SOUTH)).next_commitment
    await table.do(Start(NORTH, b"\x07"))
    await table.do(Start(SOUTH))
    assert (await table.view(SOUTH)).commitment == told
    await table.do(Resign(NORTH))
    lines = [json.loads(line) for line in (await record(shared, table.match_id)).splitlines()]
    (dealt,) = [line for line in lines if line["type"] == "deal"]
    assert dealt["commitment"] == told
    assert dealt["contributions"] == {"north": "07", "south": ""}
    dealt["boneyard"][0], dealt["boneyard"][1] = dealt["boneyard"][1], dealt["boneyard"][0]
    file = tmp_path / "changed.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    status, output = await engine("verify", str(file))
    assert status == 1
    assert "the deal is not the one that was drawn from seed and contributions" in output
