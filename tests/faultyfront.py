"""A gRPC front door for tests that passes everything on, whatever the calls are, and breaks the contract as told.

On the wire every call is a stream of messages with a status behind it, so one handler serves them all. A fault sees each
answer of the service and says what comes out instead: nothing, the answer, or several.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc

from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as matchmaking_pb

Context = grpc.aio.ServicerContext[bytes, bytes]
Fault = Callable[[str, bytes], Sequence[bytes]]
"""What becomes of one message of the answer of a method, both as they are on the wire."""
_OWN_METADATA = ("grpc-", "user-agent", "content-type", "te")


def faithful(method: str, message: bytes) -> Sequence[bytes]:
    """No fault at all."""
    return [message]


class Front(grpc.GenericRpcHandler):
    """Passes calls on: those of matches to a game process, all others to matchmaking."""

    def __init__(self, matchmaking: str, game: str) -> None:
        self.fault: Fault = faithful
        self.strips_details = False
        """Whether the details of statuses, ErrorInfo among them, are lost on the way."""
        self.loses = 0
        """So many more calls are carried out, and their answers lost: UNAVAILABLE instead."""
        self.calls: Counter[str] = Counter()
        """Of each method, so far."""
        self.address = ""
        self._channels = {address: grpc.aio.insecure_channel(address) for address in {matchmaking, game}}
        self._matchmaking, self._game = matchmaking, game

    async def close(self) -> None:
        """Close the connections to the services."""
        for channel in self._channels.values():
            await channel.close()

    def service(self, call: grpc.HandlerCallDetails) -> Any:
        """One handler for every method."""
        method = str(call.method)

        async def handler(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
            async for message in self._pass_on(method, requests, context):
                yield message

        return grpc.stream_stream_rpc_method_handler(handler)

    async def _pass_on(
        self, method: str, requests: AsyncIterator[bytes], context: Context
    ) -> AsyncIterator[bytes]:
        self.calls[method] += 1
        lost, self.loses = self.loses > 0, max(0, self.loses - 1)
        address = self._game if "/spectacularbid.match." in method else self._matchmaking
        metadata = [
            (key, value)
            for key, value in context.invocation_metadata() or ()
            if not key.startswith(_OWN_METADATA)
        ]
        call: grpc.aio.StreamStreamCall[bytes, bytes] = self._channels[address].stream_stream(method)(
            metadata=metadata, timeout=context.time_remaining()
        )

        async def forward() -> None:
            async for request in requests:
                await call.write(request)
            await call.done_writing()

        up = asyncio.create_task(forward())
        try:
            while isinstance(message := await call.read(), bytes):
                for told in self.fault(method, self._readdressed(method, message)):
                    if not lost:
                        yield told
            if lost:
                context.set_code(grpc.StatusCode.UNAVAILABLE)
                context.set_details("the answer was lost")
        except grpc.aio.AioRpcError as error:
            if not self.strips_details:
                context.set_trailing_metadata(tuple(error.trailing_metadata() or ()))
            context.set_code(error.code())
            context.set_details(error.details() or "")
        finally:
            up.cancel()
            call.cancel()

    def _readdressed(self, method: str, message: bytes) -> bytes:
        """Where the service says where a match is played, the front door says itself."""
        if method.endswith("/CreateMatch"):
            created = pb.CreateMatchResponse.FromString(message)
            created.address = self.address
            return created.SerializeToString()
        if method.endswith("/Seek"):
            news = matchmaking_pb.SeekResponse.FromString(message)
            if news.HasField("matched"):
                news.matched.address = self.address
            return news.SerializeToString()
        if method.endswith("/LocateMatch"):
            return matchmaking_pb.LocateMatchResponse(address=self.address).SerializeToString()
        return message


@asynccontextmanager
async def front_door(matchmaking: str, game: str) -> AsyncIterator[Front]:
    """A front door that listens on `address`."""
    front = Front(matchmaking, game)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((front,))
    front.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield front
    finally:
        await server.stop(None)
        await front.close()
