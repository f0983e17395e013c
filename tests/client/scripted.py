"""A game service over real gRPC that misbehaves as told: what no healthy service would do on demand.

Each attachment (Watch or Play) takes the next script; a script is an async generator of messages that may end the
stream, break it, or say nothing. Commands go to `answer`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc

from services.common.errors import ServiceError
from services.wire.commands import refused_to_pb
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import match_service_pb2_grpc as pb_grpc

Context = grpc.aio.ServicerContext[Any, Any]
Script = Callable[[pb.WatchRequest], AsyncIterator[pb.WatchResponse]]
Answer = Callable[[pb.SubmitRequest], Awaitable[pb.Applied | None]]


class HangUp(Exception):
    """The server cuts the stream with this status."""

    def __init__(self, code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE) -> None:
        self.code = code


async def _exhausted(request: pb.WatchRequest) -> AsyncIterator[pb.WatchResponse]:
    """More attachments than were expected: a test must fail, not wait."""
    for code in (grpc.StatusCode.OUT_OF_RANGE,):
        raise HangUp(code)
    yield pb.WatchResponse()


class Scripted(pb_grpc.MatchServiceServicer):
    """The servicer; what it saw is on record."""

    def __init__(self, *scripts: Script, answer: Answer | None = None) -> None:
        self.scripts = list(scripts)
        self.answer = answer
        self.joins: list[pb.WatchRequest] = []
        self.submits: list[pb.SubmitRequest] = []
        self.tokens: set[str] = set()
        self.peers: list[str] = []

    def _join(self, request: pb.WatchRequest, context: Context) -> AsyncIterator[pb.WatchResponse]:
        self.joins.append(request)
        self.peers.append(context.peer())
        self.tokens |= {
            str(value) for key, value in context.invocation_metadata() or () if key == "authorization"
        }
        script = self.scripts.pop(0) if self.scripts else _exhausted
        return script(request)

    async def _nothing(self, request: Any, context: Context) -> Any:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not in this script")

    GetMatch = GetRecord = ListMyMatches = CreateMatch = _nothing

    async def Watch(self, request: pb.WatchRequest, context: Context) -> AsyncIterator[pb.WatchResponse]:
        try:
            async for message in self._join(request, context):
                yield message
        except HangUp as cut:
            await context.abort(cut.code, "cut")

    async def Submit(self, request: pb.SubmitRequest, context: Context) -> pb.SubmitResponse:
        self.submits.append(request)
        assert self.answer is not None
        try:
            applied = await self.answer(request)
        except ServiceError as error:
            await context.abort_with_status(error.status())
        assert applied is not None, "a unary call is answered or fails"
        return pb.SubmitResponse(applied=applied)

    async def Play(
        self, request_iterator: AsyncIterator[pb.PlayRequest], context: Context
    ) -> AsyncIterator[pb.PlayResponse]:
        outgoing: asyncio.Queue[pb.PlayResponse | HangUp | None] = asyncio.Queue()

        async def tell(join: pb.WatchRequest) -> None:
            try:
                async for message in self._join(join, context):
                    outgoing.put_nowait(pb.PlayResponse(news=message))
            except HangUp as cut:
                outgoing.put_nowait(cut)
            else:
                outgoing.put_nowait(None)

        async def listen() -> None:
            async for request in request_iterator:
                submit = request.submit
                self.submits.append(submit)
                assert self.answer is not None
                answer = pb.Answer(request_id=submit.request_id)
                try:
                    applied = await self.answer(submit)
                except ServiceError as error:
                    answer.refused.CopyFrom(refused_to_pb(error))
                except HangUp as cut:
                    outgoing.put_nowait(cut)
                    return
                else:
                    if applied is None:
                        continue
                    answer.applied.CopyFrom(applied)
                outgoing.put_nowait(pb.PlayResponse(answers=[answer]))

        first = await anext(request_iterator)
        tasks = [asyncio.create_task(tell(first.join)), asyncio.create_task(listen())]
        try:
            while True:
                message = await outgoing.get()
                if message is None:
                    return
                if isinstance(message, HangUp):
                    await context.abort(message.code, "cut")
                yield message
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def serving(servicer: Scripted) -> AsyncIterator[str]:
    """The address of a server with this servicer."""
    server = grpc.aio.server()
    pb_grpc.add_MatchServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)
