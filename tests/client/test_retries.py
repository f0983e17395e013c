"""The service config: a channel repeats on UNAVAILABLE what has one effect however often it is sent, and nothing else."""

from __future__ import annotations

import ast
import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor

from client.retries import SERVICE_CONFIG, may_repeat
from spectacularbid.identity.v1 import guest_service_pb2, player_service_pb2
from spectacularbid.ladder.v1 import ladder_service_pb2
from spectacularbid.match.v1 import match_service_pb2
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2
from spectacularbid.rules.v1 import rules_service_pb2

PUBLIC = (
    matchmaking_service_pb2,
    ladder_service_pb2,
    player_service_pb2,
    guest_service_pb2,
    match_service_pb2,
    rules_service_pb2,
)
NEVER = {("GuestService", "CreateGuest"), ("MatchService", "Play")}
FAILURES = 2


def methods() -> Iterator[MethodDescriptor]:
    for file in PUBLIC:
        for service in file.DESCRIPTOR.services_by_name.values():
            yield from service.methods


def path(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


def repeated(method: MethodDescriptor) -> bool:
    return may_repeat(method.containing_service.full_name, method.name)


class Flaky(grpc.GenericRpcHandler):
    """Every method of every service; each fails so many times before it answers, and the calls are counted."""

    def __init__(self, code: grpc.StatusCode) -> None:
        self.calls: Counter[str] = Counter()
        self._code = code

    def service(self, call: grpc.HandlerCallDetails) -> Any:
        name = str(call.method)

        async def handler(
            requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext[bytes, bytes]
        ) -> AsyncIterator[bytes]:
            self.calls[name] += 1
            if self.calls[name] <= FAILURES:
                await context.abort(self._code, "not now")
            async for _ in requests:
                break
            yield b""

        return grpc.stream_stream_rpc_method_handler(handler)


@asynccontextmanager
async def flaky(code: grpc.StatusCode) -> AsyncIterator[tuple[Flaky, grpc.aio.Channel]]:
    """A server that fails like that, and a channel with the service config."""
    servicer = Flaky(code)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((servicer,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    options = [("grpc.service_config", SERVICE_CONFIG)]
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options) as channel:
            yield servicer, channel
    finally:
        await server.stop(None)


async def call(channel: grpc.aio.Channel, method: MethodDescriptor) -> grpc.StatusCode:
    """One call as a client makes it, and how it ends."""
    made: Any
    kind: Any
    if method.client_streaming:
        kind = channel.stream_stream(path(method))
        made = kind(iter([b""]))
    elif method.server_streaming:
        kind = channel.unary_stream(path(method))
        made = kind(b"")
    else:
        kind = channel.unary_unary(path(method))
        made = kind(b"")
    try:
        if method.client_streaming or method.server_streaming:
            async for _ in made:
                pass
        else:
            await made
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def test_what_has_one_effect_is_repeated_and_nothing_else() -> None:
    async with flaky(grpc.StatusCode.UNAVAILABLE) as (servicer, channel):
        everything = list(methods())
        codes = await asyncio.gather(*(call(channel, method) for method in everything))
    for method, code in zip(everything, codes, strict=True):
        attempts = servicer.calls[path(method)]
        if repeated(method):
            assert (method.name, code, attempts) == (method.name, grpc.StatusCode.OK, FAILURES + 1)
        else:
            assert (method.name, code, attempts) == (method.name, grpc.StatusCode.UNAVAILABLE, 1)


@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAUTHENTICATED,
    ],
)
async def test_no_other_status_is_repeated(code: grpc.StatusCode) -> None:
    async with flaky(code) as (servicer, channel):
        codes = await asyncio.gather(*(call(channel, method) for method in methods()))
    assert set(codes) == {code}
    assert set(servicer.calls.values()) == {1}


def test_each_public_method_is_repeated_or_has_a_reason_not_to_be() -> None:
    """Who adds a call to the API decides which it is."""
    assert {
        (method.containing_service.name, method.name) for method in methods() if not repeated(method)
    } == NEVER


def test_the_library_repeats_what_the_list_allows_and_guests_without_a_name() -> None:
    stubs = {
        "matches": "spectacularbid.match.v1.MatchService",
        "matchmaking": "spectacularbid.matchmaking.v1.MatchmakingService",
        "ladder": "spectacularbid.ladder.v1.LadderService",
        "guests": "spectacularbid.identity.v1.GuestService",
        "players": "spectacularbid.identity.v1.PlayerService",
        "rules": "spectacularbid.rules.v1.RulesService",
    }
    found = set()
    for file in sorted((Path(__file__).resolve().parents[2] / "client").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="ask" | "call"),
                    args=[
                        _,
                        ast.Lambda(body=ast.Attribute(attr=method, value=ast.Attribute(attr=stub))),
                        *_,
                    ],
                ):
                    found.add((stubs[stub], method))
    assert len(found) > 10
    assert {(service, method) for service, method in found if not may_repeat(service, method)} == {
        ("spectacularbid.identity.v1.GuestService", "CreateGuest")
    }
