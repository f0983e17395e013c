"""What operators order about pools: it holds when it is acknowledged, for everybody, and for whoever leads next."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from typer.testing import CliRunner

from client.errors import CallError
from client.session import Client
from services.matchmaking.seekers import DRAINED_RETRY_SECONDS
from services.ops.__main__ import app
from spectacularbid.internal.operations.v1 import operations_service_pb2 as pb
from spectacularbid.internal.operations.v1.operations_service_pb2_grpc import OperationsServiceStub
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as matchmaking_pb
from tests.services.matchmaking.house import (
    SECONDS_MAX,
    SECRET,
    House,
    Seek,
    eventually,
    reason,
    retry_seconds,
)

RATED, CASUAL = matchmaking_pb.POOL_RATED, matchmaking_pb.POOL_CASUAL
LATE = Timestamp(seconds=9_999_999_999)
DRAINING = (grpc.StatusCode.FAILED_PRECONDITION, "POOL_DRAINING")


def token(house: House, *roles: str) -> str:
    return house.issuer.issue("op-ada", "ada", roles=roles)[0]


@asynccontextmanager
async def operator(house: House) -> AsyncIterator[OperationsServiceStub]:
    """The calls of an operator on the process started last."""
    async with grpc.aio.insecure_channel(house.internal) as channel:
        yield OperationsServiceStub(channel)


def authorized(house: House) -> Any:
    return {"metadata": (("authorization", f"Bearer {token(house, 'operator')}"),), "timeout": SECONDS_MAX}


async def order(house: House, mode: pb.PoolMode.ValueType, **fields: Any) -> list[pb.PoolState]:
    fields.setdefault("reason", "a test")
    async with operator(house) as calls:
        answer = await calls.SetPoolMode(pb.SetPoolModeRequest(mode=mode, **fields), **authorized(house))
    return list(answer.pools)


async def announce(house: House, text: str, **fields: Any) -> list[pb.PoolState]:
    fields.setdefault("reason", "a test")
    async with operator(house) as calls:
        answer = await calls.Announce(pb.AnnounceRequest(text=text, **fields), **authorized(house))
    return list(answer.pools)


async def waits_until(seek: Seek, wanted: dict[str, Any]) -> matchmaking_pb.Waiting:
    """The first news of a waiting seek that says this."""
    while True:
        waiting = await seek.is_waiting()
        if all(getattr(waiting, field) == value for field, value in wanted.items()):
            return waiting


async def ordered(house: House) -> list[tuple[str, str, str]]:
    rows = await house.pool.fetch("select pool, action, author from pool_order order by order_no")
    return [tuple(row) for row in rows]


async def test_a_paused_pool_takes_seeks_and_pairs_nobody_until_it_is_resumed(open_house: House) -> None:
    """Those who wait keep their places; the other pool goes on."""
    ann = open_house.player("ann").seek()
    assert not (await ann.is_waiting()).paused
    (state,) = await order(open_house, pb.POOL_MODE_PAUSED, pools=[RATED])
    assert (state.pool, state.mode, state.mode_order.author) == (RATED, pb.POOL_MODE_PAUSED, "op-ada")
    ben = open_house.player("ben").seek()
    await waits_until(ann, {"paused": True, "players_waiting": 2})
    assert (await ben.is_waiting()).paused
    casual = [open_house.player(name).seek(CASUAL) for name in ("cyd", "dan")]
    await asyncio.gather(*(seek.matched() for seek in casual))
    # The wave that made that match has looked at the rated pool as well.
    assert await open_house.pool.fetchval("select count(*) from match where rated") == 0

    await order(open_house, pb.POOL_MODE_OPEN, pools=[RATED])
    matches = await asyncio.gather(ann.matched(), ben.matched())
    assert matches[0].match_id == matches[1].match_id
    assert await ordered(open_house) == [("rated", "pause", "op-ada"), ("rated", "resume", "op-ada")]


async def test_no_match_is_made_after_a_pause_was_acknowledged(open_house: House) -> None:
    """At the height of a rush: what is made by then stays, and not one match comes after."""
    seeks = [open_house.player(str(n)).seek() for n in range(80)]
    told = [asyncio.create_task(seek.ended()) for seek in seeks]

    async def begun() -> bool:
        return bool(await open_house.pool.fetchval("select exists (select from match)"))

    await eventually(begun)
    await order(open_house, pb.POOL_MODE_PAUSED)
    made = await open_house.pool.fetchval("select count(*) from match")
    probes = [open_house.player(f"probe-{n}").seek() for n in range(6)]
    for probe in probes:
        assert (await probe.is_waiting()).paused
        # A second one, so that a wave has been since.
        await probe.is_waiting()
    assert await open_house.pool.fetchval("select count(*) from match") == made
    await order(open_house, pb.POOL_MODE_OPEN)
    assert {str(code) for code in await asyncio.gather(*told)} == {str(grpc.StatusCode.OK)}
    await asyncio.gather(*(probe.matched() for probe in probes))


async def test_a_drained_pool_ends_open_seeks_takes_none_and_says_when_and_why(open_house: House) -> None:
    until = datetime.now(UTC) + timedelta(hours=1)
    await announce(open_house, "back at noon")
    name = str(uuid.uuid4())
    waiting = open_house.player("ann").seek(request_id=name)
    await waiting.is_waiting()
    (state, other) = await order(open_house, pb.POOL_MODE_DRAINING, until=until)
    assert [state.mode, other.mode] == [pb.POOL_MODE_DRAINING] * 2
    assert [state.players_waiting, state.announcement.announcement] == [0, "back at noon"]
    assert (await waiting.failed())[:2] == DRAINING
    with pytest.raises(grpc.RpcError) as error:
        await open_house.player("ben").seek().matched()
    assert reason(error.value)[:2] == DRAINING
    assert reason(error.value)[2]["announcement"] == "back at noon"
    said = datetime.fromisoformat(reason(error.value)[2]["until"])
    assert abs(said - until) < timedelta(milliseconds=2)
    asked = retry_seconds(error.value)
    assert asked is not None
    assert 0 < asked <= 3600
    assert await open_house.pool.fetchval("select count(*) from seek") == 0

    await order(open_house, pb.POOL_MODE_OPEN)
    again = await open_house.player("ann").seek(request_id=name).is_waiting()
    # It goes on: the time before the drain counts.
    assert again.waited_ms > 0
    assert await open_house.pool.fetchval("select count(*) from seek_memory") == 0


async def test_matches_made_before_a_drain_are_told_and_their_players_find_them_again(house: House) -> None:
    await house.start(placed_patience_seconds=60)
    game = await house.game(confirm=False)
    seeks = [house.player(name).seek() for name in ("ann", "ben")]

    async def placed() -> bool:
        return bool(game.places)

    await eventually(placed)
    await order(house, pb.POOL_MODE_DRAINING)
    (match_id, _), *_ = game.places
    game.placed(match_id)
    matches = await asyncio.gather(*(seek.matched() for seek in seeks))
    assert {match.match_id for match in matches} == {match_id}
    assert (await house.player("ann").seek().matched()).match_id == match_id
    assert (await house.player("cyd").seek().failed())[:2] == DRAINING


async def test_a_refused_seek_leaves_the_open_one_of_another_pool_alone(open_house: House) -> None:
    await order(open_house, pb.POOL_MODE_DRAINING, pools=[RATED])
    casual = open_house.player("ann").seek(CASUAL)
    await casual.is_waiting()
    assert (await open_house.player("ann").seek(RATED).failed())[:2] == DRAINING
    both = await asyncio.gather(casual.matched(), open_house.player("ben").seek(CASUAL).matched())
    assert both[0].match_id == both[1].match_id


async def test_an_announcement_reaches_those_who_wait_at_once_and_goes_when_it_is_taken_back(
    house: House,
) -> None:
    await house.start(news_period_seconds=60)
    seek = house.player("ann").seek()
    assert (await seek.is_waiting()).announcement == ""
    # Nothing is told by itself for longer than this.
    async with asyncio.timeout(50):
        await announce(house, "a new release at noon – matches go on", pools=[RATED])
        assert (await seek.is_waiting()).announcement == "a new release at noon – matches go on"
        await announce(house, "")
        assert (await seek.is_waiting()).announcement == ""


async def test_the_client_library_tells_of_a_drained_pool_and_does_not_wait_for_it(open_house: House) -> None:
    await announce(open_house, "back at noon")
    await order(open_house, pb.POOL_MODE_DRAINING)
    async with Client(open_house.address, open_house.player("ann").token) as client:
        # Sooner than the service wants to be asked again.
        async with asyncio.timeout(DRAINED_RETRY_SECONDS - 5):
            with pytest.raises(CallError) as error:
                await client.seek()
    assert (error.value.reason, error.value.metadata["announcement"]) == ("POOL_DRAINING", "back at noon")
    assert error.value.retry_after_seconds == DRAINED_RETRY_SECONDS


async def test_an_order_ends_by_itself(open_house: House) -> None:
    until = datetime.now(UTC) + timedelta(seconds=1)
    await announce(open_house, "a moment", until=until)
    await order(open_house, pb.POOL_MODE_PAUSED, until=until)
    matches = await asyncio.gather(*(open_house.player(name).seek().matched() for name in ("ann", "ben")))
    assert matches[0].match_id == matches[1].match_id
    made = await open_house.pool.fetchval("select created_at from match")
    assert made >= until
    seek = open_house.player("cyd").seek()
    await waits_until(seek, {"paused": False, "announcement": ""})


async def test_a_standby_that_takes_over_keeps_what_was_ordered(house: House) -> None:
    leader = await house.start("leader")
    await announce(house, "hold on")
    await order(house, pb.POOL_MODE_PAUSED, pools=[RATED])
    await order(house, pb.POOL_MODE_DRAINING, pools=[CASUAL])
    leader.kill()
    await house.start("successor")
    await house.game()
    seeks = [house.player(name).seek() for name in ("ann", "ben")]
    for seek in seeks:
        waiting = await seek.is_waiting()
        assert (waiting.paused, waiting.announcement) == (True, "hold on")
    assert (await house.player("cyd").seek(CASUAL).failed())[:2] == DRAINING
    async with operator(house) as calls:
        answer = await calls.GetPools(pb.GetPoolsRequest(orders=2), **authorized(house))
    assert [state.mode for state in answer.pools] == [pb.POOL_MODE_PAUSED, pb.POOL_MODE_DRAINING]
    assert [each.action for each in answer.orders] == ["drain", "pause"]


async def test_only_operators_give_orders_and_only_the_leader_takes_them(house: House) -> None:
    await house.start("leader")
    player = token(house)
    request = pb.SetPoolModeRequest(mode=pb.POOL_MODE_PAUSED, reason="a test")

    async def refused(bearer: str | None) -> tuple[grpc.StatusCode, str]:
        metadata = () if bearer is None else (("authorization", f"Bearer {bearer}"),)
        async with operator(house) as calls:
            with pytest.raises(grpc.RpcError) as error:
                await calls.SetPoolMode(request, metadata=metadata)
        return reason(error.value)[:2]

    for bearer in (None, SECRET, "nonsense"):
        assert await refused(bearer) == (grpc.StatusCode.UNAUTHENTICATED, "TOKEN_INVALID")
    assert await refused(player) == (grpc.StatusCode.PERMISSION_DENIED, "ROLE_MISSING")
    await house.start("standby", ready=False)
    assert await refused(token(house, "operator")) == (grpc.StatusCode.UNAVAILABLE, "TRY_AGAIN")
    assert await ordered(house) == []


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.SetPoolModeRequest(reason="x"), "mode"),
        (pb.SetPoolModeRequest(mode=pb.POOL_MODE_PAUSED), "reason"),
        (pb.SetPoolModeRequest(mode=pb.POOL_MODE_PAUSED, reason="x" * 501), "reason"),
        (pb.SetPoolModeRequest(mode=pb.POOL_MODE_PAUSED, reason="x", until=Timestamp(seconds=1)), "until"),
        (pb.SetPoolModeRequest(mode=pb.POOL_MODE_OPEN), "reason"),
        (pb.SetPoolModeRequest(mode=pb.POOL_MODE_OPEN, reason="x", until=LATE), "until"),
        (
            pb.SetPoolModeRequest(
                mode=pb.POOL_MODE_OPEN, reason="x", pools=[matchmaking_pb.POOL_UNSPECIFIED]
            ),
            "pools",
        ),
        (pb.AnnounceRequest(text="hello"), "reason"),
        (pb.AnnounceRequest(text="x" * 501), "text"),
        (pb.AnnounceRequest(text="two\nlines"), "text"),
        (pb.AnnounceRequest(text="\x1b[2J"), "text"),
        (pb.AnnounceRequest(until=LATE), "until"),
        (pb.GetPoolsRequest(orders=1001), "orders"),
    ],
)
async def test_an_order_that_makes_no_sense_names_the_field(
    unchanged_house: House, request_: Any, field: str
) -> None:
    async with operator(unchanged_house) as calls:
        call: Any = {
            pb.SetPoolModeRequest: calls.SetPoolMode,
            pb.AnnounceRequest: calls.Announce,
            pb.GetPoolsRequest: calls.GetPools,
        }[type(request_)]
        with pytest.raises(grpc.RpcError) as error:
            await call(request_, **authorized(unchanged_house))
    assert reason(error.value)[:2] == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED")
    assert str(error.value.details()).startswith(f"{field}: ")
    assert await ordered(unchanged_house) == []


async def test_the_command_orders_shows_and_finds_the_leader(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.start("leader")
    leader = house.internal
    await house.start("standby", ready=False)
    monkeypatch.setenv("SPECTACULAR_BID_OPERATOR_TOKEN", token(house, "operator"))
    monkeypatch.setenv("SPECTACULAR_BID_MATCHMAKING_ADDRESS", f"{house.internal},{leader}")

    async def command(*arguments: str) -> tuple[int, str]:
        result = await asyncio.to_thread(CliRunner().invoke, app, ["matchmaking", *arguments])
        return result.exit_code, result.output

    status, said = await command(
        "pause", "--pool", "rated", "--reason", "switch 3", "--until", "2100-01-01T00:00Z"
    )
    assert status == 0
    assert "paused" in said
    assert "2100-01-01 00:00:00" in said
    assert (await command("announce", "[red] soon", "--reason", "a release"))[0] == 0
    status, said = await command("status")
    assert status == 0
    for word in ("paused", "open", "op-ada", "switch 3", "[red] soon", "pause", "announce"):
        assert word in said
    assert (await command("drain", "--reason", "done"))[0] == 0
    assert (await command("resume", "--reason", "it holds"))[0] == 0
    assert (await command("resume", "--reason", " "))[0] == 2
    assert [action for _, action, _ in await ordered(house)] == [
        "pause",
        *["announce"] * 2,
        *["drain"] * 2,
        *["resume"] * 2,
    ]
    assert (await command("pause", "--reason", "x", "--until", "2000-01-01T00:00Z"))[0] == 1
    monkeypatch.setenv("SPECTACULAR_BID_OPERATOR_TOKEN", token(house))
    assert (await command("resume", "--reason", "mine"))[0] == 1


async def test_each_order_is_logged_with_its_row(open_house: House) -> None:
    await order(open_house, pb.POOL_MODE_PAUSED, pools=[CASUAL], reason="why not")
    (process,) = open_house.processes
    line = await process.event(
        "pool_ordered", pool="casual", action="pause", author="op-ada", reason="why not"
    )
    row = await open_house.row("select order_no, reason from pool_order")
    assert (line["order_no"], line["reason"]) == tuple(row)


async def test_the_rows_keep_an_order_in_its_form(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        wrong: dict[str, dict[str, Any]] = {
            "pause": {"announcement": "x"},
            "drain": {"reason": ""},
            "resume": {"until": datetime.now(UTC)},
            "announce": {"author": ""},
            "stop": {},
        }
        for action, fields in wrong.items():
            row = {"announcement": "", "author": "ada", "reason": "x", "until": None, **fields}
            with pytest.raises(asyncpg.CheckViolationError):
                await connection.execute(
                    """
                    insert into pool_order (pool, action, announcement, author, reason, until)
                    values ('rated', $1, $2, $3, $4, $5)
                    """,
                    action,
                    *row.values(),
                )
    finally:
        await connection.close()


async def stuck(house: House, openings: int) -> bool:
    """Whether so many seeks that are being opened wait for what a test has locked."""
    waiting = await house.pool.fetchval(
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query ~ 'seek_memory'"
    )
    return bool(waiting >= openings)


async def test_a_seek_that_was_being_opened_when_the_pool_was_drained_is_refused(open_house: House) -> None:
    async with open_house.pool.acquire() as connection, connection.transaction():
        await connection.execute("lock table seek_memory in access exclusive mode")
        # Signs of life wait for the table as well, on a connection of their own.
        await eventually(lambda: stuck(open_house, 1))
        late = open_house.player("ann").seek()
        await eventually(lambda: stuck(open_house, 2))
        await order(open_house, pb.POOL_MODE_DRAINING)
    assert (await late.failed())[:2] == DRAINING
    assert await open_house.pool.fetchval("select count(*) from seek") == 0


async def test_matches_are_made_while_those_who_come_wait_for_the_database(open_house: House) -> None:
    """A rush of arrivals does not take every connection: who waits already is matched."""
    await order(open_house, pb.POOL_MODE_PAUSED)
    waiting = [open_house.player(name).seek() for name in ("ann", "ben")]
    for seek in waiting:
        await seek.is_waiting()
    async with open_house.pool.acquire() as connection, connection.transaction():
        # What opening a seek reads, and making a match does not.
        await connection.execute("lock table seek_memory in access exclusive mode")
        arriving = [
            asyncio.create_task(open_house.player(f"late-{n}").seek().is_waiting()) for n in range(20)
        ]

        await eventually(lambda: stuck(open_house, 4))
        await order(open_house, pb.POOL_MODE_OPEN)
        await asyncio.gather(*(seek.matched() for seek in waiting))
        # Not one of them has given up or come through: they are waiting still.
        assert not any(task.done() for task in arriving)
    await asyncio.gather(*arriving)
