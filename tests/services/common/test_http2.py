"""HTTP/2 spoken badly on purpose, against our options and the guard."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import grpc
import pytest
from hyperframe.frame import HeadersFrame

from services.common.allowance import Rate
from services.common.host import SERVER_OPTIONS
from services.common.limits import Limit
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests import rawhttp2
from tests.rawhttp2 import raw
from tests.seats import eventually
from tests.services.common.test_limits import POLICY, Served, ask, refused, served

CHECK = "/grpc.health.v1.Health/Check"
WATCH = "/spectacularbid.match.v1.MatchService/Watch"
ANN = [("authorization", "Bearer ann")]


class Talkative:
    """Says a lot to whoever watches."""

    def __init__(self) -> None:
        self.said = 0
        self.ended = asyncio.Event()

    async def __call__(self, _self: Any, _request: Any, _context: Any) -> AsyncIterator[Any]:
        """Messages without end."""
        try:
            while True:
                self.said += 1
                yield pb.WatchResponse(reconnect=pb.Reconnect(address="x" * 1000))
        finally:
            self.ended.set()


async def test_a_reader_with_a_window_of_nothing_ends_its_stream_and_learns_why() -> None:
    """It answers every ping and takes no byte: one message waits for it, no more are made, and the stream ends after a
    while. Its place stays taken until it reads, or its connection is gone: then it is told."""
    talkative = Talkative()
    async with served(write_seconds=0.1, watch=talkative) as made, raw(made.address, window=0) as reader:
        stream = reader.call(WATCH, ANN)
        await reader.pushed()
        async with asyncio.timeout(10):
            await talkative.ended.wait()
        assert talkative.said <= 2
        assert made.refused(Limit.SLOW_READER) == 1
        assert made.limits.open_calls.taken == 1
        reader.say(rawhttp2.window(stream, 100_000))
        trailers = await reader.ended(stream)
        assert trailers["grpc-status"] == str(grpc.StatusCode.RESOURCE_EXHAUSTED.value[0])
        await eventually(lambda: gone(made))


async def test_a_reader_that_hangs_up_while_it_is_told_leaves_nothing() -> None:
    """The refusal of a slow reader waits as well; the end of the connection is the end of it."""
    talkative = Talkative()
    async with served(write_seconds=0.1, watch=talkative) as made:
        async with raw(made.address, window=0) as reader:
            reader.call(WATCH, ANN)
            await reader.pushed()
            async with asyncio.timeout(10):
                await talkative.ended.wait()
        await eventually(lambda: gone(made))


async def gone(made: Served) -> bool:
    """Whether nothing is under way."""
    return made.limits.open_calls.taken == 0


async def test_rapid_resets_are_spent_and_leave_nothing_behind() -> None:
    """500 calls taken back in the breath that made them: what was let in is far less, the next call of the address is
    refused, and nothing of them is kept."""
    policy = replace(POLICY, address_calls=Rate(per_second=0.01, at_once=60.0))
    async with served(policy) as made, raw(made.address) as resetter:
        rawhttp2.rapid_resets(resetter, CHECK, 500)
        await resetter.pushed()

        async def spent() -> bool:
            return made.limits.address_calls.wait("127.0.0.1") > 0

        await eventually(spent)
        assert refused(Limit.ADDRESS_CALLS, await ask(made.channel, CHECK))
        await eventually(lambda: gone(made))


async def test_no_call_is_dropped_because_many_come_at_once() -> None:
    """The library takes calls faster than we look at them, here 2000 in one breath: each of them is answered."""
    async with served() as made, AsyncExitStack() as exits:
        crowd = [await exits.enter_async_context(raw(made.address)) for _ in range(8)]
        wanted = [{one.call(CHECK) for _ in range(250)} for one in crowd]
        found = await asyncio.gather(*(one.statuses(calls) for one, calls in zip(crowd, wanted, strict=True)))
        # Nothing but answers and refusals of our own: 1 would be CANCELLED.
        told = Counter(status for statuses in found for status in statuses)
        assert told.total() == 2000
        assert set(told) <= {"0", "8"}


@pytest.mark.parametrize(
    "flood", [rawhttp2.pings(20_000), rawhttp2.settings(20_000)], ids=["pings", "settings"]
)
async def test_others_are_answered_during_a_flood_of_frames_that_ask_for_an_answer(flood: bytes) -> None:
    """Whoever floods does not read the answers; they are not piled up for it without end."""
    async with served() as made, raw(made.address) as flooder:
        flooder.say_bytes(flood)
        answers = [await ask(made.channel, CHECK) for _ in range(5)]
        assert [answer.code for answer in answers] == [grpc.StatusCode.OK] * 5


async def test_headers_without_end_end_the_connection_or_the_call() -> None:
    """CONTINUATION after CONTINUATION, 40 MB of them; nobody else notices."""
    async with served() as made, raw(made.address) as flooder:
        flooder.say_bytes(rawhttp2.endless_headers(1, 10_000))
        closing = asyncio.create_task(flooder.closed())
        assert (await ask(made.channel, CHECK)).code is grpc.StatusCode.OK
        assert await closing


async def test_headers_that_grow_when_they_are_read_are_refused() -> None:
    """6 MB from 5 KB; the library refuses above its limit."""
    async with served() as made, raw(made.address) as bomber:
        block = rawhttp2.bomb(bomber, CHECK, 2_000)
        bomber.say(HeadersFrame(1, block, flags=["END_HEADERS", "END_STREAM"]))
        trailers = await bomber.ended(1)
        assert trailers["grpc-status"] == str(grpc.StatusCode.RESOURCE_EXHAUSTED.value[0])
        await eventually(lambda: gone(made))
        assert (await ask(made.channel, CHECK)).code is grpc.StatusCode.OK


async def test_who_connects_and_says_nothing_is_hung_up_on() -> None:
    """After ten seconds in a service; here sooner."""
    assert 0 < dict(SERVER_OPTIONS)["grpc.server_handshake_timeout_ms"] <= 10_000
    quick = [("grpc.server_handshake_timeout_ms", 200)]
    async with served(options=quick) as made, raw(made.address, speaks=False) as silent:
        assert await silent.closed()
