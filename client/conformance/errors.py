"""Errors about calls: statuses with reasons a program can branch on, and limits that say when to come back."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import grpc

from client.conformance.bench import CALL_SECONDS, expect_error, failure, new_id
from client.conformance.check import NotHereError, checks_of, expect
from client.conformance.table import Table
from engine.seats import NORTH
from spectacularbid.identity.v1 import player_service_pb2
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2

if TYPE_CHECKING:
    from client.conformance.bench import Bench
    from client.errors import CallError

_STREAMS: Final = 40
_CALLS_AT_ONCE: Final = 50
_CALLS: Final = 600
_NOBODY: Final = "00000000-0000-4000-8000-000000000000"


async def a_call_without_a_good_token_is_refused(bench: Bench) -> None:
    """Without a token, or with one that is none, every service says TOKEN_INVALID."""
    stub = bench.matches(await bench.game())
    calls: tuple[tuple[Any, Any], ...] = (
        (stub.ListMyMatches, pb.ListMyMatchesRequest()),
        (stub.Submit, pb.SubmitRequest(match_id=_NOBODY)),
        (bench.players.GetProfile, player_service_pb2.GetProfileRequest()),
        (bench.seeks.CancelSeek, matchmaking_service_pb2.CancelSeekRequest()),
    )
    for method, request in calls:
        for metadata in ((), (("authorization", "Bearer none"),), (("authorization", "none"),)):
            error = await failure(method(request, metadata=metadata, timeout=CALL_SECONDS))
            expect_error(error, grpc.StatusCode.UNAUTHENTICATED, "TOKEN_INVALID")


async def what_is_not_there_is_not_found(bench: Bench) -> None:
    """A match or a player nobody knows is MATCH_NOT_FOUND or PLAYER_NOT_FOUND, in every call."""
    guest = await bench.guest()
    stub = bench.matches(await bench.game())
    submit = pb.SubmitRequest(
        match_id=_NOBODY, request_id=new_id(), decision_id=1, command=pb.Command(draw=pb.Draw())
    )
    calls: tuple[tuple[Any, Any], ...] = (
        (stub.GetMatch, pb.GetMatchRequest(match_id=_NOBODY)),
        (stub.Submit, submit),
        (stub.GetRecord, pb.GetRecordRequest(match_id=_NOBODY)),
        (bench.seeks.LocateMatch, matchmaking_service_pb2.LocateMatchRequest(match_id=_NOBODY)),
    )
    missing = grpc.StatusCode.NOT_FOUND
    for method, request in calls:
        expect_error(await failure(bench.ask(method, request, guest)), missing, "MATCH_NOT_FOUND")
    watch = stub.Watch(pb.WatchRequest(match_id=_NOBODY), metadata=guest.metadata, timeout=CALL_SECONDS)
    expect_error(await failure(watch.read()), missing, "MATCH_NOT_FOUND")
    profile = player_service_pb2.GetProfileRequest(player_id=_NOBODY)
    expect_error(
        await failure(bench.ask(bench.players.GetProfile, profile, guest)), missing, "PLAYER_NOT_FOUND"
    )
    expect_error(await failure(bench.create(guest, player_id=_NOBODY)), missing, "PLAYER_NOT_FOUND")


async def a_stream_begins_with_join(bench: Bench) -> None:
    """A Play stream that does not begin with `join` ends with MALFORMED."""
    guest = await bench.guest()
    call = bench.matches(await bench.game()).Play(metadata=guest.metadata, timeout=CALL_SECONDS)
    with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
        await call.write(pb.PlayRequest(submit=pb.SubmitRequest()))
    expect_error(await failure(call.read()), grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED")


async def a_name_belongs_to_one_player(bench: Bench) -> None:
    """A name is registered once; in other case it is taken; its owner may repeat the call and not change it."""
    one, other = await bench.guest(), await bench.guest()
    name = "N" + new_id().replace("-", "")[:15]

    async def register(guest: Any, wanted: str) -> Any:
        return await bench.ask(bench.players.Register, player_service_pb2.RegisterRequest(name=wanted), guest)

    for _ in range(2):
        expect((await register(one, name)).profile.name == name, "the name is not what was registered")
    exists = grpc.StatusCode.ALREADY_EXISTS
    expect_error(await failure(register(other, name.lower())), exists, "NAME_TAKEN")
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    expect_error(await failure(register(other, "admin")), invalid, "NAME_INVALID")
    chosen = await failure(register(one, name[::-1]))
    expect_error(chosen, grpc.StatusCode.FAILED_PRECONDITION, "NAME_CHOSEN")


async def a_request_creates_one_match(bench: Bench) -> None:
    """The same CreateMatch again answers with the same match; with another payload it is REQUEST_ID_REUSED."""
    guest = await bench.guest()
    request_id = new_id()
    made = await bench.create(guest, same_device=True, request_id=request_id)
    again = await bench.create(guest, same_device=True, request_id=request_id)
    expect(again == made, "the repeat created another match")
    other = await bench.guest()
    error = await failure(bench.create(guest, player_id=other.player_id, request_id=request_id))
    expect_error(error, grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_ID_REUSED")
    await bench.resign(made.address, made.match_id, guest)


async def too_many_streams_are_refused_with_a_time(bench: Bench) -> None:
    """Beyond the limit of streams a player gets LIMIT_REACHED with RetryInfo; the streams that are open stay."""
    async with await Table.create(bench, start=False) as table:
        guest = await bench.guest()
        request = pb.WatchRequest(match_id=table.match_id)
        calls = [table.stub.Watch(request, metadata=guest.metadata) for _ in range(_STREAMS)]
        try:
            async with asyncio.timeout(CALL_SECONDS):
                answers = await asyncio.gather(*(call.read() for call in calls), return_exceptions=True)
            errors = [answer for answer in answers if isinstance(answer, grpc.aio.AioRpcError)]
            if not errors:
                raise NotHereError(f"{_STREAMS} streams of one player are allowed")
            expect(len(errors) < _STREAMS, "not one stream was allowed")
            for error in errors:
                _limited(await failure(_raised(error)))
        finally:
            for call in calls:
                call.cancel()


async def too_many_calls_are_refused_with_a_time(bench: Bench) -> None:
    """Who asks faster than anybody needs to gets LIMIT_REACHED with RetryInfo; others are answered meanwhile."""
    async with await Table.create(bench, start=False) as table:
        flooder = await bench.guest()
        request = pb.ListMyMatchesRequest()
        errors: list[CallError] = []

        async def ask(count: int) -> None:
            for _ in range(count):
                try:
                    await table.stub.ListMyMatches(request, metadata=flooder.metadata, timeout=CALL_SECONDS)
                except grpc.aio.AioRpcError as error:
                    errors.append(await failure(_raised(error)))
                    return

        async with asyncio.timeout(3 * CALL_SECONDS):
            await asyncio.gather(*(ask(_CALLS // _CALLS_AT_ONCE) for _ in range(_CALLS_AT_ONCE)))
        if not errors:
            raise NotHereError(f"{_CALLS} calls of one player in a moment are allowed")
        for error in errors:
            _limited(error)
        await table.view(NORTH)


async def _raised(error: grpc.aio.AioRpcError) -> None:
    raise error


def _limited(error: CallError) -> None:
    expect_error(error, grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_REACHED")
    expect(error.retry_after_seconds is not None, "LIMIT_REACHED comes without RetryInfo")


CHECKS: Final = checks_of(
    "errors",
    a_call_without_a_good_token_is_refused,
    what_is_not_there_is_not_found,
    a_stream_begins_with_join,
    a_name_belongs_to_one_player,
    a_request_creates_one_match,
    too_many_streams_are_refused_with_a_time,
    too_many_calls_are_refused_with_a_time,
)
