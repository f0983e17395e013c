"""The two ways a match is connected: Watch with Submit, or everything on one Play stream. Same promises.

A line carries one attachment at a time; `client.match` attaches it again and again. A command handed to `send` gets
its answer however often the line breaks in between, because it goes out again under the same request id.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import grpc

from client.errors import CallError, from_refused
from spectacularbid.match.v1 import match_service_pb2 as pb

if TYPE_CHECKING:
    from client.connection import Connections, Service


@dataclass(frozen=True, slots=True)
class Applied:
    """A command was carried out and is stored: the numbers of the events it caused."""

    first_sequence: int
    last_sequence: int


class Line(Protocol):
    """A connection to one match that can be attached again."""

    async def attach(self, service: Service, resume_after: int) -> None:
        """Open the stream. May raise AioRpcError; so may `read`."""

    async def read(self) -> pb.WatchResponse | None:
        """The next news, None at the orderly end of the stream."""

    async def send(self, address: str, request: pb.SubmitRequest) -> Applied:
        """Have one command carried out. Raises CallError."""

    def detach(self) -> None:
        """Give the stream up."""

    def finish(self, error: Exception | None) -> None:
        """There will be no further attachment."""


class WatchLine:
    """Watch for the events, Submit for each command."""

    def __init__(self, connections: Connections, match_id: str) -> None:
        self._connections = connections
        self._match_id = match_id
        self._call: grpc.aio.UnaryStreamCall[pb.WatchRequest, pb.WatchResponse] | None = None

    async def attach(self, service: Service, resume_after: int) -> None:
        """Open the stream."""
        request = _join(self._match_id, resume_after)
        self._call = service.matches.Watch(request, metadata=self._connections.metadata)

    async def read(self) -> pb.WatchResponse | None:
        """The next news."""
        assert self._call is not None, "attached"
        message = await self._call.read()
        return message if isinstance(message, pb.WatchResponse) else None

    async def send(self, address: str, request: pb.SubmitRequest) -> Applied:
        """Have one command carried out."""
        return await submit(self._connections, address, request)

    def detach(self) -> None:
        """Give the stream up."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def finish(self, error: Exception | None) -> None:
        """Commands are calls of their own: nothing waits here."""


class _Finished(Exception):  # noqa: N818  a turn of events, not an error
    """The stream has ended for good; what is still unanswered goes out as calls of its own."""


class PlayLine:
    """Commands and events on one stream."""

    def __init__(self, connections: Connections, match_id: str) -> None:
        self._connections = connections
        self._match_id = match_id
        self._call: grpc.aio.StreamStreamCall[pb.PlayRequest, pb.PlayResponse] | None = None
        self._writing = asyncio.Lock()  # a call takes one write at a time
        self._waiting: dict[str, tuple[pb.SubmitRequest, asyncio.Future[Applied]]] = {}
        self._end: Exception | None = None

    async def attach(self, service: Service, resume_after: int) -> None:
        """Open the stream and send every unanswered command again."""
        call = service.matches.Play(metadata=self._connections.metadata)
        async with self._writing:
            self._call = call
            join = _join(self._match_id, resume_after)
            if await _write(call, pb.PlayRequest(join=join)):
                for request, _ in list(self._waiting.values()):
                    await _write(call, pb.PlayRequest(submit=request))

    async def read(self) -> pb.WatchResponse | None:
        """The next news; answers on the way go to those who wait for them."""
        assert self._call is not None, "attached"
        message = await self._call.read()
        if not isinstance(message, pb.PlayResponse):
            return None
        for answer in message.answers:
            self._answer(answer)
        return message.news

    def _answer(self, answer: pb.Answer) -> None:
        waiting = self._waiting.pop(answer.request_id, None)
        if waiting is None or waiting[1].done():
            return  # answered before: it had gone out twice
        if answer.WhichOneof("result") == "applied":
            waiting[1].set_result(Applied(answer.applied.first_sequence, answer.applied.last_sequence))
        else:
            waiting[1].set_exception(from_refused(answer.refused))

    async def send(self, address: str, request: pb.SubmitRequest) -> Applied:
        """Have one command carried out."""
        if self._end is None:
            answer: asyncio.Future[Applied] = asyncio.get_running_loop().create_future()
            self._waiting[request.request_id] = request, answer
            try:
                call = self._call
                if call is not None:
                    async with self._writing:
                        await _write(call, pb.PlayRequest(submit=request))
                return await answer
            except _Finished:
                pass
            finally:
                self._waiting.pop(request.request_id, None)
        elif not isinstance(self._end, _Finished):
            raise self._end
        return await submit(self._connections, address, request)

    def detach(self) -> None:
        """Give the stream up; unanswered commands wait for the next one."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def finish(self, error: Exception | None) -> None:
        """There will be no further attachment."""
        self._end = error or _Finished()
        for _, answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._end)


async def submit(connections: Connections, address: str, request: pb.SubmitRequest) -> Applied:
    """One command as a call of its own, repeated until it is answered. Raises CallError."""
    response = await connections.call(address, lambda service: service.matches.Submit, request)
    return Applied(response.applied.first_sequence, response.applied.last_sequence)


def _join(match_id: str, resume_after: int) -> pb.WatchRequest:
    return pb.WatchRequest(match_id=match_id, resume_after=resume_after)


async def _write(
    call: grpc.aio.StreamStreamCall[pb.PlayRequest, pb.PlayResponse], message: pb.PlayRequest
) -> bool:
    """Write to a stream that may be breaking; its reader learns why and attaches anew."""
    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, asyncio.CancelledError):
        await call.write(message)
        return True
    if (task := asyncio.current_task()) is not None and task.cancelling():
        raise asyncio.CancelledError
    return False


__all__ = ["Applied", "CallError", "Line", "PlayLine", "WatchLine", "submit"]
