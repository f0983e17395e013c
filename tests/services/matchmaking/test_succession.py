"""A seek is known by its request id: it outlives its stream and its leader, and keeps the time it has waited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime

import grpc
import pytest

from client.errors import CallError
from client.session import Client
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as pb
from tests.processes import Process
from tests.services.matchmaking.house import SECONDS_MAX, House, Seek, eventually, reason

REPLACED = (grpc.StatusCode.ABORTED, "SEEK_REPLACED")
CANCELLED = (grpc.StatusCode.CANCELLED, "SEEK_CANCELLED")


async def since(house: House, name: str) -> datetime:
    """Since when an open seek has waited."""
    row = await house.row("select since from seek where player_id = $1", f"player-{name}")
    moment: datetime = row["since"]
    return moment


async def lost(house: House, seek: Seek, name: str) -> None:
    """The stream of a seek is lost, and the service knows."""
    seek.call.cancel()

    async def known() -> bool:
        return bool(
            await house.pool.fetchval(
                """
                select exists (select from seek_memory where player_id = $1 and how = 'lost')
                   and not exists (select from seek where player_id = $1)
                """,
                f"player-{name}",
            )
        )

    await eventually(known)


class Queue:
    """What a seek of the client library hears."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[pb.Waiting] = asyncio.Queue()

    async def news(self) -> pb.Waiting:
        async with asyncio.timeout(SECONDS_MAX):
            return await self.heard.get()


@asynccontextmanager
async def client(house: House, name: str, *addresses: str) -> AsyncIterator[Client]:
    async with Client(",".join(addresses), house.player(name).token) as made:
        yield made


async def end_by_kill(process: Process) -> None:
    process.kill()


async def end_in_order(process: Process) -> None:
    assert await process.terminate() == 0


@pytest.mark.parametrize("end", [end_by_kill, end_in_order])
async def test_clients_go_on_waiting_under_the_next_leader(
    house: House, end: Callable[[Process], Awaitable[None]]
) -> None:
    """The leader is gone; who waited comes again by herself, to the process that leads now, and since when she waits has
    not changed. Nobody is paired with her before, and she is matched with the next."""
    leader = await house.start("leader")
    first = house.address
    standby = await house.start("standby", ready=False)
    await standby.event("readiness", ready=False, missing=["lead"])
    queue = Queue()
    # The standby comes first: it sends the client on.
    async with client(house, "ann", house.address, first) as ann:
        seeking = asyncio.create_task(ann.seek(waiting=queue.heard.put_nowait))
        before = await queue.news()
        began = await since(house, "ann")
        await end(leader)
        await standby.ready()
        again = await queue.news()
        while again.waited_ms <= before.waited_ms:  # what was still on its way
            again = await queue.news()

        async def open_again() -> bool:
            return bool(await house.pool.fetchval("select count(*) = 1 from seek"))

        await eventually(open_again)
        assert await since(house, "ann") == began
        assert not seeking.done()
        await house.game()
        match, _ = await asyncio.gather(seeking, house.player("ben").seek().matched())
        assert match.opponent is not None
        assert match.opponent.player_id == "player-ben"


async def test_nobody_is_paired_with_a_seek_that_has_not_come_again(house: House) -> None:
    leader = await house.start("leader")
    ann = house.player("ann").seek(request_id="one")
    await ann.is_waiting()
    leader.kill()
    await house.start("successor")
    await house.game()
    ben = house.player("ben").seek()
    assert (await ben.is_waiting()).players_waiting == 1
    await ben.is_waiting()
    assert await house.pool.fetchval("select count(*) from match") == 0
    match, _ = await asyncio.gather(house.player("ann").seek(request_id="one").matched(), ben.matched())
    assert match.opponent.player_id == "player-ben"


async def test_a_lost_stream_costs_no_waiting_time(house: House) -> None:
    await house.start()
    ann = house.player("ann")
    seek = ann.seek(request_id="one")
    await seek.is_waiting()
    began = await since(house, "ann")
    await lost(house, seek, "ann")
    assert await house.pool.fetchval("select count(*) from seek") == 0
    again = ann.seek(request_id="one")
    assert (await again.is_waiting()).waited_ms > 0
    assert await since(house, "ann") == began
    # While the older stream is open, as far as the service knows: the newer one of the two stays.
    third = ann.seek(request_id="one")
    await third.is_waiting()
    assert (await again.failed())[:2] == REPLACED
    assert await since(house, "ann") == began


async def test_another_seek_begins_to_wait_anew(house: House) -> None:
    await house.start()
    ann = house.player("ann")
    seek = ann.seek(request_id="one")
    await seek.is_waiting()
    began = await since(house, "ann")
    await lost(house, seek, "ann")
    other_pool = ann.seek(pb.POOL_CASUAL, request_id="one")
    await other_pool.is_waiting()
    assert await since(house, "ann") > began
    await lost(house, other_pool, "ann")
    other = ann.seek(pb.POOL_CASUAL, request_id="two")
    await other.is_waiting()
    began = await since(house, "ann")
    await lost(house, other, "ann")
    await house.pool.execute("update seek_memory set ended_at = ended_at - interval '60 s'")
    await ann.seek(pb.POOL_CASUAL, request_id="two").is_waiting()
    assert await since(house, "ann") > began


async def test_seeks_are_not_remembered_for_ever(house: House) -> None:
    await house.start()
    for name in ("ann", "ben"):
        seek = house.player(name).seek()
        await seek.is_waiting()
        await lost(house, seek, name)
    await house.pool.execute(
        "update seek_memory set ended_at = ended_at - interval '60 s' where player_id = 'player-ann'"
    )

    async def forgotten() -> bool:
        rows = await house.pool.fetch("select player_id from seek_memory")
        return [row["player_id"] for row in rows] == ["player-ben"]

    await eventually(forgotten)


async def test_a_cancelled_seek_does_not_open_again(house: House) -> None:
    await house.start()
    ann = house.player("ann")
    seek = ann.seek(request_id="one")
    await seek.is_waiting()
    await ann.cancel()
    assert (await seek.failed())[:2] == CANCELLED
    assert (await ann.seek(request_id="one").failed())[:2] == CANCELLED
    assert await house.pool.fetchval("select count(*) from seek") == 0
    await ann.seek(request_id="two").is_waiting()


async def test_a_seek_can_be_cancelled_before_it_has_come_again(house: House) -> None:
    """Another device cancels while nobody leads or the stream is broken: it is cancelled all the same."""
    leader = await house.start("leader")
    ann = house.player("ann")
    await ann.seek(request_id="one").is_waiting()
    leader.kill()
    await house.start("successor")
    ann = house.player("ann")
    await ann.cancel()
    assert (await ann.seek(request_id="one").failed())[:2] == CANCELLED
    with pytest.raises(grpc.RpcError) as error:
        await ann.cancel()
    assert reason(error.value)[1] == "NO_SEEK"


async def test_a_replaced_seek_does_not_push_out_the_newer_one(house: House) -> None:
    """The older of two devices has lost its stream and comes again: it is told, and the newer one waits on."""
    await house.start()
    ann = house.player("ann")
    older = ann.seek(request_id="older")
    await older.is_waiting()
    began = await since(house, "ann")
    newer = ann.seek(request_id="newer")
    await newer.is_waiting()
    assert (await older.failed())[:2] == REPLACED
    assert await since(house, "ann") > began
    began = await since(house, "ann")
    assert (await ann.seek(request_id="older").failed())[:2] == REPLACED
    await newer.is_waiting()
    assert await since(house, "ann") == began


async def test_a_lost_seek_does_not_push_out_one_that_was_opened_meanwhile(house: House) -> None:
    """One device is in a tunnel; the player seeks on another and cancels there. Out of the tunnel, the first device
    comes again by itself: nobody seeks for her behind her back."""
    await house.start()
    ann = house.player("ann")
    tunnel = ann.seek(request_id="tunnel")
    await tunnel.is_waiting()
    await lost(house, tunnel, "ann")
    other = ann.seek(request_id="other")
    await other.is_waiting()
    assert (await ann.seek(request_id="tunnel").failed())[:2] == REPLACED
    await other.is_waiting()
    await ann.cancel()
    assert (await other.failed())[:2] == CANCELLED
    assert (await ann.seek(request_id="tunnel").failed())[:2] == REPLACED
    assert (await ann.seek(request_id="other").failed())[:2] == CANCELLED
    assert await house.pool.fetchval("select count(*) from seek") == 0


async def test_a_matched_seek_is_answered_with_its_match_and_not_opened_again(open_house: House) -> None:
    ann, ben = open_house.player("ann"), open_house.player("ben")
    match, _ = await asyncio.gather(ann.seek(request_id="one").matched(), ben.seek().matched())
    again = ann.seek(request_id="one")
    assert await again.matched() == match
    assert again.waiting == []
    assert await open_house.pool.fetchval("select count(*) from seek") == 0
    # Its waiting is over with it.
    await open_house.finish(match.match_id, "north")
    began = await open_house.pool.fetchval("select clock_timestamp()")
    await ann.seek(request_id="one").is_waiting()
    assert await since(open_house, "ann") >= began


async def test_a_match_that_was_made_before_the_leader_died_is_told_by_the_next(house: House) -> None:
    """FC-40, with clients of the library: the row is there, nobody was told; the same seek is answered with it."""
    leader = await house.start("leader", placed_patience_seconds=60)
    first = house.address
    game = await house.game(confirm=False)
    standby = await house.start("standby", ready=False)
    async with (
        client(house, "ann", first, house.address) as ann,
        client(house, "ben", first, house.address) as ben,
    ):
        seeking = [asyncio.create_task(each.seek()) for each in (ann, ben)]

        async def placed() -> bool:
            return bool(game.places)

        await eventually(placed)
        leader.kill()
        await standby.ready()
        back = await house.game()
        matches = await asyncio.gather(*seeking)
        assert [match.match_id for match in matches] == [game.places[0][0]] * 2
        assert {match.address for match in matches} == {back.address}
    assert await house.pool.fetchval("select count(*) from match") == 1


async def test_the_library_tells_of_a_cancel_and_does_not_come_again(house: House) -> None:
    await house.start()
    queue = Queue()
    async with client(house, "ann", house.address) as ann:
        seeking = asyncio.create_task(ann.seek(waiting=queue.heard.put_nowait, request_id="one"))
        await queue.news()
        await house.player("ann").cancel()
        with pytest.raises(CallError) as error:
            await seeking
        assert error.value.reason == "SEEK_CANCELLED"


async def test_that_nobody_led_is_an_incident(house: House) -> None:
    """From the last sign of life of the leader that died until the next one leads. An orderly change is none."""
    first = await house.start("first")
    leader = await house.start("second", ready=False)
    await leader.event("readiness", ready=False, missing=["lead"])
    await first.terminate()
    await leader.ready()
    assert await house.pool.fetchval("select count(*) from incident") == 0
    seen = await house.pool.fetchval("select renewed_at from lead")
    leader.kill()
    killed = await house.pool.fetchval("select clock_timestamp()")
    third = await house.start("third")
    vacant = await third.event("lead_was_vacant", seeks=0)
    row = await house.row("select * from incident")
    assert (row["kind"], row["noticed_by"], row["engine_id"]) == ("takeover", "matchmaking", None)
    assert seen <= row["began_at"] <= killed <= row["ended_at"]
    assert vacant["seconds"] == pytest.approx((row["ended_at"] - row["began_at"]).total_seconds(), abs=0.001)
    # A leader that left in order and had no successor for long.
    await third.terminate()
    await house.pool.execute("update lead set left_at = left_at - interval '6 s'")
    await house.start("fourth")
    assert await house.pool.fetchval("select count(*) from incident") == 2
