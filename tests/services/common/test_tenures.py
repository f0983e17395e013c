"""A stream ends when the token it was opened with counts no more: on a real server, at the next look."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, cast

import asyncpg
import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from services.common import tenures
from services.common.auth import Identity
from services.common.errors import ServiceError
from services.common.guard import Guard
from services.common.metrics import RpcMetrics
from services.common.revocations import Revocations
from services.common.tenures import Tenures
from services.game.massloss import MassLoss
from services.game.rpc import _Stream
from services.game.streams import Follower
from services.storage.revocations import Revocation
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1.match_service_pb2_grpc import (
    MatchServiceServicer,
    MatchServiceStub,
    add_MatchServiceServicer_to_server,
)
from tests.seats import eventually


class Desk(MatchServiceServicer):
    """Streams without an end, and what was done on them."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.over: list[bool] = []

    async def Watch(self, request: pb.WatchRequest, _context: Any) -> AsyncIterator[pb.WatchResponse]:
        """One message, or as large ones as fast as they are taken; then waits."""
        try:
            yield pb.WatchResponse()
            while request.match_id == "flood":
                yield pb.WatchResponse(reconnect=pb.Reconnect(address="x" * 50_000))
            await asyncio.Event().wait()
        finally:
            self.over.append(tenures.is_over())

    async def Play(self, requests: AsyncIterator[pb.PlayRequest], _context: Any) -> AsyncIterator[Any]:
        """Does what each message says, and takes its time to answer."""
        async for request in requests:
            task = asyncio.create_task(self._do(request.submit.request_id))
            yield pb.PlayResponse()
            await task
        yield pb.PlayResponse()

    async def _do(self, what: str) -> None:
        await asyncio.sleep(0)
        self.done.append(what)


class Served:
    """A server whose callers are called what their tokens say."""

    def __init__(self) -> None:
        self.desk = Desk()  # type: ignore[abstract]  # nobody calls the rest
        self.gone: dict[str, str] = {}
        """By player, why the token counts no more."""
        self.tenures = Tenures(self._ended)
        self.registry = CollectorRegistry()
        self.stub: Any = None

    def _ended(self, identity: Identity) -> ServiceError | None:
        reason = self.gone.get(identity.player_id)
        return reason and ServiceError(grpc.StatusCode.UNAUTHENTICATED, reason, "gone")  # type: ignore[return-value]

    def open(self, method: str, who: str, *requests: Any) -> Any:
        """A stream of somebody."""
        return getattr(self.stub, method)(*requests, metadata=(("authorization", f"Bearer {who}"),))


def gate(method: str, token: str | None) -> Identity | None:
    """Everybody is who they say they are."""
    return None if token is None else Identity(token, token, bot=False, roles=frozenset())


@asynccontextmanager
async def served() -> AsyncIterator[Served]:
    made = Served()
    metrics = RpcMetrics(made.registry)
    server = grpc.aio.server(interceptors=[Guard(gate, metrics, tenures=made.tenures)])
    add_MatchServiceServicer_to_server(made.desk, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            made.stub = MatchServiceStub(channel)
            yield made
    finally:
        await server.stop(0)


async def reason(call: Any) -> str:
    """What a stream ends with; fails when it does not."""
    async with asyncio.timeout(30):
        with suppress(grpc.aio.AioRpcError):
            while await call.read() is not grpc.aio.EOF:
                pass
        assert await call.code() is grpc.StatusCode.UNAUTHENTICATED
    info = error_details_pb2.ErrorInfo()
    details = dict(await call.trailing_metadata())["grpc-status-details-bin"]
    assert status_pb2.Status.FromString(details).details[0].Unpack(info)
    return str(info.reason)


@pytest.mark.parametrize("why", ["TOKEN_EXPIRED", "TOKEN_REVOKED", "TOKEN_INVALID"])
async def test_a_stream_ends_with_its_token_and_others_go_on(why: str) -> None:
    async with served() as made:
        ann, ben = (made.open("Watch", who, pb.WatchRequest()) for who in ("ann", "ben"))
        await ann.read()
        await ben.read()
        made.tenures.look()
        made.gone["ann"] = why
        assert made.desk.over == [], "nothing happens before it is looked at"
        made.tenures.look()
        assert await reason(ann) == why
        assert made.desk.over == [True], "the stream knows that the service has ended it"
        made.tenures.look()
        assert not ben.done()
        ben.cancel()

        async def left() -> bool:
            return made.desk.over == [True, False]

        await eventually(left)
        assert not made.tenures._open


async def test_a_command_that_was_read_is_carried_out_and_none_after_it() -> None:
    async with served() as made:
        call = made.open("Play", "ann")
        await call.write(pb.PlayRequest(submit=pb.SubmitRequest(request_id="first")))
        await call.read()
        made.gone["ann"] = "TOKEN_EXPIRED"
        made.tenures.look()
        assert await reason(call) == "TOKEN_EXPIRED"
        assert made.desk.done == ["first"]


async def test_a_reader_that_does_not_read_ends_with_its_token_too() -> None:
    """The message that waits for it is given up."""
    async with served() as made:
        call = made.open("Watch", "ann", pb.WatchRequest(match_id="flood"))
        await call.read()
        made.gone["ann"] = "TOKEN_REVOKED"
        made.tenures.look()

        async def left() -> bool:
            return made.desk.over == [True]

        await eventually(left)
        assert await reason(call) == "TOKEN_REVOKED"


async def test_a_caller_who_leaves_in_the_same_moment_has_left() -> None:
    """Two wishes to end one stream: the caller's counts, and nothing fails."""
    with capture_logs() as said:
        async with served() as made:
            call = made.open("Watch", "ann", pb.WatchRequest())
            await call.read()
            made.gone["ann"] = "TOKEN_EXPIRED"
            call.cancel()
            made.tenures.look()

            async def left() -> bool:
                return len(made.desk.over) == 1

            await eventually(left)
    assert [line for line in said if line["event"] == "call_failed"] == []


class _Losses(MassLoss):
    """What it is told."""

    def __init__(self) -> None:
        self.broken: list[bool] = []

    def opened(self, place: Any) -> None:
        """Not looked at."""

    def ended(self, place: Any, *, broken: bool, running: bool) -> None:
        """As it is told."""
        self.broken.append(broken)


async def test_streams_that_end_with_their_tokens_are_no_losses() -> None:
    """Many tokens of one issuer expire at once: no network is broken, so nobody's clock stands still for it."""
    losses = _Losses()
    gone: list[ServiceError] = []
    held = Tenures(lambda _identity: gone[0] if gone else None)

    async def stream() -> None:
        with held.held(Identity("ann", "Ann", bot=False, roles=frozenset())):
            counted = _Stream("ann", "127.0.0.1", losses)
            follower: Any = type("F", (), {"plays": True, "rated": True, "finished": False, "running": True})
            follower.match_id = "m"
            counted.follow(cast(Follower, follower))
            try:
                await asyncio.Event().wait()
            finally:
                counted.end()

    expired, left = asyncio.create_task(stream()), asyncio.create_task(stream())
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    gone.append(ServiceError(grpc.StatusCode.UNAUTHENTICATED, "TOKEN_EXPIRED", "gone"))
    held.look()
    await asyncio.gather(expired, return_exceptions=True)
    assert isinstance(expired.exception(), ServiceError)
    assert losses.broken == [True, False]


async def test_what_was_revoked_is_followed_and_holds_while_the_database_is_away() -> None:
    """In the order of numbers; tokens of the same second are revoked too; nobody is let in before anything is known."""
    at = datetime(2026, 12, 2, 12, 0, 0, 400_000, UTC)
    second = int(at.timestamp())
    rows = [Revocation(1, "ann", at), Revocation(2, "ann", at.replace(second=5)), Revocation(3, "ben", at)]
    broken = True
    asked = []

    async def after(number: int) -> list[Revocation]:
        asked.append(number)
        if broken:
            raise asyncpg.CannotConnectNowError
        return [row for row in rows if row.revocation_no > number]

    found = Revocations(after)
    assert not await found.look()
    with pytest.raises(ServiceError) as error:
        found.cover("ann", second)
    assert error.value.reason == "TRY_AGAIN"
    broken = False
    assert await found.look()
    cases = [("ann", 5, True), ("ann", 6, False), ("ben", 0, True), ("ben", 1, False), ("cay", -9, False)]
    assert [found.cover(who, second + after_s) for who, after_s, _ in cases] == [case[2] for case in cases]
    broken = True
    assert not await found.look()
    assert found.cover("ann", second)
    broken = False
    assert not await found.look()
    assert asked == [0, 0, 3, 3]
