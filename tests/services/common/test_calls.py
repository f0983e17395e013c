"""How calls are counted: on a real server, by the conventional labels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from structlog.testing import capture_logs

from services.common.auth import Identity
from services.common.errors import SlowReaderError, malformed
from services.common.guard import Guard
from services.common.metrics import RpcMetrics
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1.match_service_pb2_grpc import (
    MatchServiceServicer,
    MatchServiceStub,
    add_MatchServiceServicer_to_server,
)
from tests.seats import eventually

SERVICE = "spectacularbid.match.v1.MatchService"
WAITS = 0.05
"""After so many seconds a reader is slow here."""


def open_gate(method: str, token: str | None) -> Identity | None:
    """Anybody may call."""
    return None


class Desk(MatchServiceServicer):
    """Answers as each test needs it."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.closed = asyncio.Event()

    async def GetMatch(self, request: pb.GetMatchRequest, _context: Any) -> pb.GetMatchResponse:
        """Wrong without a match."""
        if not request.match_id:
            raise malformed("match_id: is missing")
        return pb.GetMatchResponse()

    async def Watch(self, request: pb.WatchRequest, _context: Any) -> AsyncIterator[pb.WatchResponse]:
        """As many messages as `resume_after` says; then waits."""
        try:
            for _ in range(request.resume_after):
                yield pb.WatchResponse(reconnect=pb.Reconnect(address="x" * 10_000))
            await self.goes_on.wait()
            if request.match_id == "behind":
                raise SlowReaderError("too far behind", 1.0)
        finally:
            self.closed.set()

    async def Play(self, requests: AsyncIterator[pb.PlayRequest], _context: Any) -> AsyncIterator[Any]:
        """Two answers to each message."""
        async for _ in requests:
            yield pb.PlayResponse()
            yield pb.PlayResponse()


class Counted:
    """A server that is called, and what it counts."""

    def __init__(self, address: str, guard: Guard, desk: Desk, registry: CollectorRegistry) -> None:
        self.guard = guard
        self.channel = grpc.aio.insecure_channel(address)
        self.stub: Any = MatchServiceStub(self.channel)
        self.desk = desk
        self.registry = registry

    async def over(self) -> None:
        """Waits until the calls are over for the server too: it counts behind its answer."""
        while self.guard.running:
            await asyncio.wait(self.guard.running)

    def standard(self, series: str, kind: str, method: str, **more: str) -> float | None:
        """The value of a series of grpc_server_*."""
        labels = {"grpc_type": kind, "grpc_service": SERVICE, "grpc_method": method, **more}
        return self.registry.get_sample_value(f"grpc_server_{series}", labels)

    def ours(self, series: str, method: str) -> float | None:
        """The value of another series of streams."""
        labels = {"grpc_service": SERVICE, "grpc_method": method}
        return self.registry.get_sample_value(f"spectacular_bid_{series}", labels)


@asynccontextmanager
async def counted() -> AsyncIterator[Counted]:
    """Such a server."""
    registry = CollectorRegistry()
    desk = Desk()  # type: ignore[abstract]  # who calls the rest gets UNIMPLEMENTED
    metrics = RpcMetrics(registry)
    metrics.prepare(SERVICE)
    guard = Guard(open_gate, metrics, slow_seconds=WAITS)
    server = grpc.aio.server(interceptors=[guard])
    add_MatchServiceServicer_to_server(desk, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    made = Counted(f"127.0.0.1:{port}", guard, desk, registry)
    try:
        yield made
    finally:
        await made.channel.close()
        await server.stop(0)


async def test_every_method_is_there_at_zero_by_its_kind() -> None:
    """Before anybody has called: a rate is never without its first increase."""
    async with counted() as made:
        for kind, method in (("unary", "GetMatch"), ("server_stream", "Watch"), ("bidi_stream", "Play")):
            for series in ("started_total", "msg_received_total", "msg_sent_total", "handling_seconds_count"):
                assert made.standard(series, kind, method) == 0
            for code in grpc.StatusCode:
                assert made.standard("handled_total", kind, method, grpc_code=code.name) == 0
        assert (made.ours("streams", "Watch"), made.ours("slow_consumers_total", "Watch")) == (0, 0)
        # What is not a stream has none open.
        assert made.ours("streams", "GetMatch") is None


async def test_a_call_is_counted_with_its_messages_and_its_status() -> None:
    async with counted() as made:
        await made.stub.GetMatch(pb.GetMatchRequest(match_id="m"))
        with pytest.raises(grpc.aio.AioRpcError):
            await made.stub.GetMatch(pb.GetMatchRequest())
        await made.over()
        read = [
            made.standard(f"{series}_total", "unary", "GetMatch") for series in ("started", "msg_received")
        ]
        assert read == [2, 2]
        assert made.standard("msg_sent_total", "unary", "GetMatch") == 1
        codes = ("OK", "INVALID_ARGUMENT", "UNKNOWN")
        handled = [made.standard("handled_total", "unary", "GetMatch", grpc_code=code) for code in codes]
        assert handled == [1, 1, 0]
        assert made.standard("handling_seconds_count", "unary", "GetMatch") == 2


async def test_a_stream_is_open_until_it_ends_and_takes_as_long_as_that() -> None:
    async with counted() as made:
        loop = asyncio.get_running_loop()
        call = made.stub.Watch(pb.WatchRequest(resume_after=3))
        for _ in range(3):
            await call.read()
        read_all = loop.time()
        assert (made.ours("streams", "Watch"), made.standard("msg_sent_total", "server_stream", "Watch")) == (
            1,
            3,
        )
        # It has been handled when it is over.
        assert made.standard("started_total", "server_stream", "Watch") == 1
        assert made.standard("handling_seconds_count", "server_stream", "Watch") == 0
        lasted_at_least = loop.time() - read_all
        made.desk.goes_on.set()
        assert await call.code() is grpc.StatusCode.OK
        await made.over()
        assert made.ours("streams", "Watch") == 0
        assert made.standard("handled_total", "server_stream", "Watch", grpc_code="OK") == 1
        assert made.standard("handling_seconds_count", "server_stream", "Watch") == 1
        seconds = made.standard("handling_seconds_sum", "server_stream", "Watch")
        assert seconds is not None
        assert seconds >= lasted_at_least
        assert made.ours("slow_consumers_total", "Watch") == 0


async def test_both_directions_of_a_stream_are_counted() -> None:
    async with counted() as made:
        call = made.stub.Play()
        for _ in range(2):
            await call.write(pb.PlayRequest())
            await call.read()
            await call.read()
        await call.done_writing()
        assert await call.code() is grpc.StatusCode.OK
        await made.over()
        sums = [made.standard(f"msg_{way}_total", "bidi_stream", "Play") for way in ("received", "sent")]
        assert sums == [2, 4]


async def test_a_reader_that_does_not_read_is_counted_once_for_the_message_it_does_not_take() -> None:
    """While it is so, not only when the stream is over: nobody else may notice."""
    async with counted() as made:
        call = made.stub.Watch(pb.WatchRequest(resume_after=1_000_000))
        await call.read()

        async def noticed() -> bool:
            return made.ours("slow_consumers_total", "Watch") == 1

        await eventually(noticed)
        assert made.ours("streams", "Watch") == 1
        call.cancel()
        await made.desk.closed.wait()
        assert made.ours("slow_consumers_total", "Watch") == 1


async def test_a_reader_that_goes_away_while_a_message_waits_for_it_is_no_fault() -> None:
    """It has cancelled the call, whatever was on its way to it."""
    with capture_logs() as said:
        await _leave_a_message_behind()
    assert [line for line in said if line["event"] == "call_failed"] == []


async def _leave_a_message_behind() -> None:
    async with counted() as made:
        call = made.stub.Watch(pb.WatchRequest(resume_after=1_000_000))
        await call.read()

        async def stuck() -> bool:
            return made.ours("slow_consumers_total", "Watch") == 1

        async def handled() -> bool:
            return made.standard("handling_seconds_count", "server_stream", "Watch") == 1

        await eventually(stuck)
        call.cancel()
        await eventually(handled)
        assert made.standard("handled_total", "server_stream", "Watch", grpc_code="CANCELLED") == 1
        assert made.standard("handled_total", "server_stream", "Watch", grpc_code="INTERNAL") == 0


async def test_a_stream_that_is_ended_because_it_is_behind_is_counted() -> None:
    async with counted() as made:
        made.desk.goes_on.set()
        call = made.stub.Watch(pb.WatchRequest(match_id="behind"))
        assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await made.over()
        assert made.ours("slow_consumers_total", "Watch") == 1


async def test_methods_that_do_not_exist_are_not_counted() -> None:
    """Whatever a caller makes up would be a label."""
    async with counted() as made:
        before = generate_latest(made.registry)
        nothing: Any = made.channel.unary_unary(f"/{SERVICE}/Nothing")
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await nothing(b"")
        assert unknown.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert generate_latest(made.registry) == before
