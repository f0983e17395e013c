"""A stream of a match as a careful client reads it: everything kept, and nothing accepted that is lost or repeated."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

import grpc

from client.conformance.bench import CALL_SECONDS, Guest
from client.conformance.check import BrokenError, expect
from client.errors import from_rpc
from engine.seats import Seat
from spectacularbid.match.v1 import match_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from client.conformance.bench import Bench
    from client.conformance.table import Table, Viewer
    from spectacularbid.match.v1 import event_pb2, table_pb2


_PARTING_SECONDS: Final = 2.0
"""How long a stream may take to end by itself when its match is over."""


@dataclass
class Heard:
    """What one receiver has of a match."""

    sequence: int = 0
    """The last number."""
    messages: list[pb.WatchResponse] = field(default_factory=list)
    events: dict[int, event_pb2.MatchEvent] = field(default_factory=dict)
    over: bool = False
    begun: bool = False
    """Whether a snapshot, or the number to go on after, says where the events begin."""

    def take(self, message: pb.WatchResponse) -> None:
        """The next message. Raises BrokenError when it does not continue exactly where the last one ended."""
        self.messages.append(message)
        if message.HasField("snapshot"):
            expect(
                message.snapshot.sequence >= self.sequence,
                f"a snapshot of event {message.snapshot.sequence} came after event {self.sequence}",
            )
            self.sequence = message.snapshot.sequence
            self.over = self.over or message.snapshot.table.HasField("outcome")
            self.begun = True
        for event in message.events:
            expect(self.begun, "a stream that resumes nothing did not begin with a snapshot")
            expect(
                event.sequence == self.sequence + 1,
                f"event {event.sequence} came after event {self.sequence}",
            )
            expect(not self.over, f"event {event.sequence} came after the end of the match")
            self.sequence = event.sequence
            self.events[event.sequence] = event
            self.over = event.HasField("match_ended")
        if message.HasField("prompt"):
            expect(
                message.prompt.sequence == self.sequence,
                f"a prompt after event {message.prompt.sequence} came with event {self.sequence}",
            )

    @property
    def prompts(self) -> list[table_pb2.Prompt]:
        """Every question heard, in order."""
        found = []
        for message in self.messages:
            if message.HasField("snapshot"):
                found.append(message.snapshot.table.prompt)
            if message.HasField("prompt"):
                found.append(message.prompt)
        return found

    @property
    def prompt(self) -> table_pb2.Prompt | None:
        """The last question heard."""
        for message in reversed(self.messages):
            if message.HasField("prompt"):
                return message.prompt
            if message.HasField("snapshot"):
                return message.snapshot.table.prompt
        return None


class Watching:
    """A Watch stream. An async context manager: it is closed at the end."""

    def __init__(
        self,
        bench: Bench,
        address: str,
        match_id: str,
        guest: Guest,
        resume_after: int = 0,
        *,
        slow: bool = False,
    ) -> None:
        self.heard = Heard(resume_after, begun=resume_after > 0)
        self._table: Table | None = None
        request = pb.WatchRequest(match_id=match_id, resume_after=resume_after)
        stub = bench.slow_matches(address) if slow else bench.matches(address)
        self._call = stub.Watch(request, metadata=guest.metadata)

    @classmethod
    def of(cls, table: Table, viewer: Viewer, resume_after: int = 0) -> Self:
        """Of a table of a check; a seat's stream is closed with the table."""
        made = cls(table.bench, table.address, table.match_id, table.guest(viewer), resume_after)
        if isinstance(viewer, Seat):
            made._table = table
        return made

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._table is not None:
            self._table.close_later(self._close)
        else:
            self._call.cancel()

    async def _close(self) -> None:
        """The match is over, or cannot be ended: the stream ends by itself, or is left."""
        with suppress(grpc.aio.AioRpcError, TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(_PARTING_SECONDS):
                while isinstance(await self._call.read(), pb.WatchResponse):
                    pass
        self._call.cancel()

    def cut(self) -> None:
        """Lose the stream."""
        self._call.cancel()

    async def read(self) -> pb.WatchResponse | None:
        """The next message; None at the orderly end. Raises BrokenError when it continues wrongly or none comes."""
        try:
            async with asyncio.timeout(CALL_SECONDS):
                message = await self._call.read()
        except TimeoutError:
            raise BrokenError(
                f"a stream said nothing for {CALL_SECONDS:.0f} s, not even a heartbeat"
            ) from None
        except grpc.aio.AioRpcError as error:
            raise from_rpc(error) from None
        if not isinstance(message, pb.WatchResponse):
            return None
        self.heard.take(message)
        return message

    async def until(self, wanted: Callable[[Heard], bool], what: str) -> Heard:
        """Read until `wanted` holds of what was heard. Raises BrokenError when the stream ends before."""
        while not wanted(self.heard):
            if await self.read() is None:
                raise BrokenError(f"the stream ended after event {self.heard.sequence}, before {what}")
        return self.heard

    async def reached(self, sequence: int) -> Heard:
        """Read until that many events are known."""
        return await self.until(lambda heard: heard.sequence >= sequence, f"event {sequence}")

    async def to_the_end(self) -> Heard:
        """Read to the orderly end of the stream."""
        while await self.read() is not None:
            pass
        return self.heard
