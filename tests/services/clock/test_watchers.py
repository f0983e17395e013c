"""Looking on: everything that goes wrong is told as it happens, and no reader costs the clock anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from prometheus_client import CollectorRegistry

from client.errors import from_rpc
from engine.clock import SECOND
from engine.seats import NORTH, SOUTH
from services.clock import watchers
from services.clock.metrics import WatcherMetrics
from services.clock.watchers import Watchers
from services.common.errors import ServiceError
from services.game.livetime import LiveTime
from services.wire import clock_messages as m
from services.wire import clock_news
from services.wire.clock_news import Bulletin, IncidentMatch, IncidentTold, News, SessionLost
from spectacularbid.internal.clock.v1 import clock_service_pb2 as pb
from spectacularbid.internal.clock.v1.clock_service_pb2_grpc import ClockServiceStub
from tests.services.clock.engines import SECRET, Room, new_link, run_live, with_link
from tests.services.clock.test_link import new_rpc, serving

KEY = m.Key("m1", 1, 1)
LOST = SessionLost("i1", "s1", "no answer to pings")


class Reader:
    """Somebody who looks on."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.news: list[News] = []

    async def bulletin(self) -> Bulletin:
        """The next message."""
        response = await self.call.read()
        assert isinstance(response, pb.WatchResponse)
        return clock_news.bulletin_from_pb(response)

    async def to_the_end(self) -> None:
        """Reads until the stream breaks."""
        while True:
            self.news += (await self.bulletin()).news

    async def hears(self, kind: type) -> Any:
        """What happened next of this kind; whatever comes before it is passed over."""
        async with asyncio.timeout(20):
            while True:
                for number, news in enumerate(self.news):
                    if isinstance(news.happened, kind):
                        del self.news[: number + 1]
                        return news.happened
                self.news += (await self.bulletin()).news


@asynccontextmanager
async def looking_on(address: str, secret: str = SECRET) -> AsyncIterator[Reader]:
    """A stream on a connection of its own."""
    async with grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        metadata = (("authorization", f"Bearer {secret}"),)
        yield Reader(ClockServiceStub(channel).Watch(pb.WatchRequest(), metadata=metadata))


def counted(registry: CollectorRegistry, series: str) -> float | None:
    return registry.get_sample_value(f"spectacular_bid_clock_{series}")


def test_everything_that_is_told_survives_the_wire() -> None:
    incident = IncidentTold("n1", "clock_disruption", "i1", "boot/i1", 1, 2, 3, "ahead", '{"size_ns": 3}')
    everything = (
        m.Timeout(KEY, NORTH, 13 * SECOND, m.Proof.WATERMARK, 14 * SECOND, "e1", SECOND, 0),
        m.Void("m1", 1, "gap_too_long", "e1", "31 s"),
        m.Mismatch(KEY, "bank_ns", "1", "2"),
        LOST,
        incident,
        replace(incident, from_ns=None, to_ns=None),
        replace(incident, from_ns=0, to_ns=0),
        IncidentMatch("n1", "m1"),
    )
    at = datetime(2026, 11, 30, 1, 2, 3, 456000, UTC)
    told = Bulletin("clock-1", 2, 30, tuple(News(at, "game-0", each) for each in everything))
    assert clock_news.bulletin_from_pb(clock_news.bulletin_to_pb(told)) == told


def test_news_of_a_newer_clock_are_left_out() -> None:
    response = clock_news.bulletin_to_pb(Bulletin("clock-1", 1, 1, (News(datetime.now(UTC), "e", LOST),)))
    response.news.add(engine_id="e")  # a kind that is not known has nothing set
    assert [news.happened for news in clock_news.bulletin_from_pb(response).news] == [LOST]


def test_a_timeout_a_void_and_the_end_of_a_session_are_told_as_they_happen() -> None:
    """The same messages that the game process gets, and whose they are."""

    async def main(live: LiveTime) -> None:
        async with serving(new_rpc()) as address, looking_on(address) as reader:
            assert await reader.bulletin() == Bulletin("clock-1", 0, 0)
            link = new_link(address, live, engine_id="game-7")

            async def play() -> None:
                late, wrong = Room(link, live), Room(link, live, match_id="m2")
                late.open(seat=SOUTH)
                timeout = await late.hears(m.Timeout)
                assert await reader.hears(m.Timeout) == timeout
                # An outage that is longer than any that can be credited.
                wrong.open(cause=m.OpenCause.RESUME, outage_hint_ns=31 * SECOND)
                assert await reader.hears(m.Void) == await wrong.hears(m.Void)

            await with_link(link, play)
            lost = await reader.hears(SessionLost)
            assert lost.incarnation == live.incarnation

    run_live(main)


def test_a_contradiction_is_told_with_both_sides() -> None:
    async def main(live: LiveTime) -> None:
        async with serving(new_rpc()) as address, looking_on(address) as reader:
            link = new_link(address, live)

            async def play() -> None:
                room = Room(link, live)
                opened = room.open()
                await room.hears(m.Armed)
                link.open(replace(opened, bank_ns=opened.bank_ns + 1), room)
                told = await reader.hears(m.Mismatch)
                assert told == await room.hears(m.Mismatch)
                assert told == m.Mismatch(opened.key, "state", "idle", "running")

            await with_link(link, play)

    run_live(main)


def test_a_session_that_comes_back_is_an_incident_that_says_how_long() -> None:
    """Fault 6: told when it is lost, and again, with its length, when it is back."""

    async def main(live: LiveTime) -> None:
        async with serving(new_rpc()) as address, looking_on(address) as reader:

            async def nothing() -> None:
                pass

            await with_link(new_link(address, live, engine_id="game-7"), nothing)
            await reader.hears(SessionLost)
            again = new_link(address, live, engine_id="game-7")
            again._attach_no = 1
            await with_link(again, nothing)
            told = await reader.hears(IncidentTold)
            assert told.kind == "clock_lost"
            assert told.lasted_ns > 0

    run_live(main)


async def test_a_wrong_secret_sees_nothing() -> None:
    async with serving(new_rpc()) as address, looking_on(address, "a wrong secret for tests") as reader:
        assert await reader.call.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_reader_that_does_not_keep_up_is_dropped_with_a_count_and_costs_nobody_anything() -> None:
    """What waits for it is bounded, telling never waits, and who reads hears everything."""
    registry = CollectorRegistry()
    rpc = new_rpc(registry)
    async with serving(rpc) as address, looking_on(address) as slow, looking_on(address) as quick:
        await slow.bulletin()
        await quick.bulletin()
        heard, told = 0, 0
        while counted(registry, "watchers_dropped_total") == 0:
            for _ in range(500):
                rpc._watchers.tell("game-0", LOST)
            told += 500
            assert told < 500_000, "it is never dropped"
            while heard < told:
                heard += len((await quick.bulletin()).news)
        assert counted(registry, "watchers") == 1
        missed = counted(registry, "watchers_missed_total")
        assert missed is not None
        assert watchers.KEPT_MAX < missed <= told
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await slow.to_the_end()
        assert len(slow.news) + missed == told
        error = from_rpc(ended.value)
        assert (error.code, error.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_REACHED")
        assert error.metadata == {"missed": str(int(missed))}


async def test_a_reader_may_fall_behind_by_all_matches_of_a_clock() -> None:
    """Ten thousand timeouts in one turn of the loop are no reader's fault."""
    registry = CollectorRegistry()
    rpc = new_rpc(registry)
    async with serving(rpc) as address, looking_on(address) as reader:
        await reader.bulletin()
        for _ in range(10_000):
            rpc._watchers.tell("game-0", LOST)
        heard = 0
        while heard < 10_000:
            heard += len((await reader.bulletin()).news)
        assert counted(registry, "watchers_missed_total") == 0


async def test_only_so_many_may_look_on() -> None:
    async def write(_news: object) -> None:
        pass

    looking = Watchers(WatcherMetrics(CollectorRegistry()))
    tasks = [asyncio.create_task(looking.follow(write)) for _ in range(watchers.WATCHERS_MAX)]
    try:
        await asyncio.sleep(0)
        with pytest.raises(ServiceError) as refused:
            await asyncio.wait_for(looking.follow(write), 20)
        assert refused.value.reason == "LIMIT_REACHED"
        tasks[0].cancel()
        await asyncio.wait(tasks[:1])
        tasks.append(asyncio.create_task(looking.follow(write)))
        await asyncio.sleep(0)
        assert not tasks[-1].done()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_quiet_clock_shows_life() -> None:
    said: asyncio.Queue[list[News]] = asyncio.Queue()

    async def write(news: Any) -> None:
        said.put_nowait(list(news))

    looking = Watchers(WatcherMetrics(CollectorRegistry()), heartbeat_seconds=0.01)
    task = asyncio.create_task(looking.follow(write))
    try:
        async with asyncio.timeout(20):
            assert [await said.get() for _ in range(3)] == [[], [], []]
            looking.tell("game-0", LOST)
            while not (heard := await said.get()):
                pass
        assert [news.happened for news in heard] == [LOST]
    finally:
        task.cancel()


async def test_a_clock_that_leaves_ends_the_stream_when_all_is_told() -> None:
    rpc = new_rpc()
    async with serving(rpc) as address, looking_on(address) as reader:
        await reader.bulletin()
        rpc._watchers.tell("game-0", LOST)
        await rpc.drain()
        assert await reader.hears(SessionLost) == LOST
        assert await reader.call.read() is grpc.aio.EOF
        assert await reader.call.code() is grpc.StatusCode.OK
        async with looking_on(address) as late:
            assert await late.call.code() is grpc.StatusCode.UNAVAILABLE


async def test_whoever_goes_away_is_not_told_any_more() -> None:
    registry = CollectorRegistry()
    rpc = new_rpc(registry)
    async with serving(rpc) as address:
        async with looking_on(address) as reader:
            await reader.bulletin()
            assert counted(registry, "watchers") == 1
            reader.call.cancel()
        async with asyncio.timeout(20):
            while counted(registry, "watchers"):  # noqa: ASYNC110 - the server learns of it soon
                await asyncio.sleep(0.01)
