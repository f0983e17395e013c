"""One match, followed and played: nothing is lost, nothing comes twice, however often the connection breaks."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

import grpc

from client import table as fold
from client.connection import Backoff, persist
from client.errors import CallError, ClientError, UnreachableError, from_rpc
from client.fairness import Fairness
from client.lines import Applied, PlayLine, WatchLine
from client.wire import command_to_pb, evolve, prompt_from_pb, seat_to_pb, table_from_pb
from spectacularbid.match.v1 import match_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from types import TracebackType

    from client.connection import Connections
    from client.lines import Line
    from client.table import TableState
    from engine.command import Command
    from engine.seats import Seat
    from spectacularbid.match.v1.event_pb2 import MatchEvent

HEARTBEAT_SECONDS_MAX: Final = 15.0
"""Silence after which a stream is taken for dead."""
HOP_SECONDS: Final = 1.0
"""A stream that is led to another process goes there at once, but not from one to the next without end."""
RECONNECT_PATIENCE_SECONDS: Final = 300.0
"""How long a match is attached again without a word of the service before UnreachableError."""


LOCATE_SECONDS: Final = 2.0
"""How long to ask where a match is played before trying the known address again."""


class Transport(StrEnum):
    """How a match is connected."""

    PLAY = "play"
    """One stream for everything: cheapest."""
    WATCH = "watch"
    """Watch for the events and a call a command: for what cannot do bidirectional streams."""


class _BrokenError(Exception):
    """This attachment cannot be trusted any more; the next one may be."""


@dataclass(frozen=True, slots=True)
class News:
    """Something happened. `table` is the table after it."""

    table: TableState
    events: tuple[MatchEvent, ...]
    """New events in order; each is told once."""
    snapshot: bool
    """Whether the table was told anew: events before it may be missing from what this stream told."""
    doubts: tuple[str, ...] = ()
    """What shows by these news that a deal was not made as the service had committed to; see `client.fairness`."""


class MatchStream:
    """A match as one seat or a spectator follows it. An async context manager and an async iterator of News.

    Ends after the end of the match. Iterate from one task; `submit` may be called from any.
    """

    def __init__(
        self,
        connections: Connections,
        match_id: str,
        address: str,
        *,
        transport: Transport = Transport.PLAY,
        seat: Seat | None = None,
        resume: TableState | None = None,
        heartbeat_seconds_max: float = HEARTBEAT_SECONDS_MAX,
        patience_seconds: float = RECONNECT_PATIENCE_SECONDS,
        locate: Callable[[str], Awaitable[str]] | None = None,
        house_bot: bool = False,
    ) -> None:
        """`seat` matters only where one device holds both. With `resume`, goes on after that table. A `house_bot` adds
        nothing to deals."""
        self.match_id = match_id
        self.reattached = 0
        """How often the stream was attached again."""
        self.attached = False
        """Whether the stream stands: the service has spoken since it was attached last."""
        self.fairness = Fairness(match_id, house_bot=house_bot)
        """What this client adds to the deals, and whether the service keeps to what it says about them."""
        self._connections = connections
        self._address = address
        self._seat = seat
        kind = PlayLine if transport is Transport.PLAY else WatchLine
        self._line: Line = kind(connections, match_id)
        self._heartbeat_seconds_max = heartbeat_seconds_max
        self._patience_seconds = patience_seconds
        self._locate = locate
        self._table = resume
        if resume is not None:
            self.fairness.table(resume)
        # What has been received, as numbers; `_table` is what has been told.
        self._begun = resume is not None
        self._sequence = 0 if resume is None else resume.sequence
        self._over = resume is not None and resume.outcome is not None
        self._heard = 0.0
        self._answered = 0
        self._doubted = 0
        self._inbox: deque[tuple[pb.WatchResponse, float]] = deque()
        self._arrived = asyncio.Event()
        self._runner: asyncio.Task[None] | None = None

    # Following

    async def __aenter__(self) -> Self:
        self._runner = asyncio.create_task(self._run(), name=f"match {self.match_id}")
        self._runner.add_done_callback(lambda _: self._arrived.set())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None, "entered"
        self._runner.cancel()
        # Its own error was raised from the iteration, or there is a more important one on its way.
        with contextlib.suppress(asyncio.CancelledError, ClientError):
            await self._runner

    @property
    def table(self) -> TableState:
        """The table as last told. Raises LookupError before the first news."""
        if self._table is None:
            raise LookupError("nothing has been told of this match yet")
        return self._table

    @property
    def heard(self) -> float:
        """When the service spoke last, heartbeats included, in seconds on the monotonic clock; 0 for not yet."""
        return self._heard

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> News:
        assert self._runner is not None, "async with comes first"
        while not self._inbox:
            if self._runner.done():
                self._runner.result()
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._tell(*self._inbox.popleft())

    def _tell(self, message: pb.WatchResponse, received: float) -> News:
        snapshot = message.HasField("snapshot")
        table = table_from_pb(message.snapshot, received) if snapshot else self.table
        if snapshot:
            self.fairness.table(table)
        for event in message.events:
            table = evolve(table, event)
            self.fairness.hear(event, table.round_no)
        if message.HasField("prompt"):
            table = fold.prompted(table, prompt_from_pb(message.prompt, received))
        self._table = table
        doubts = tuple(self.fairness.doubts[self._doubted :])
        self._doubted += len(doubts)
        return News(table, tuple(message.events), snapshot, doubts)

    async def questions(self, hear: Callable[[News], None] | None = None) -> AsyncIterator[TableState]:
        """The table each time this seat is asked something, until the match is over; `hear` gets all the news.

        A question that `submit` has answered does not come again.
        """
        async for news in self:
            if hear is not None:
                hear(news)
            table = news.table
            # Later news may have come meanwhile: a question that is answered already is not asked.
            if not self._inbox and table.asks_me and table.prompt.decision_id != self._answered:
                yield table

    # Playing

    async def submit(
        self, command: Command, *, decision_id: int | None = None, request_id: str | None = None
    ) -> Applied:
        """Have a command carried out exactly once, whatever the network does.

        It answers the question of `table` unless `decision_id` says which. Raises Refused when the rules do not allow
        it, CallError for everything else the service says, UnreachableError when nobody answers. Start and Continue
        take along what this client adds to the deal, unless they have a contribution of their own.
        """
        if decision_id is None:
            decision_id = self.table.prompt.decision_id
        one_device = self._table is not None and self._table.same_device
        command = self.fairness.with_contribution(command, self._table, decision_id)
        round_no = 0 if self._table is None else self._table.round_no + 1
        request = pb.SubmitRequest(
            match_id=self.match_id,
            request_id=request_id or str(uuid.uuid4()),
            decision_id=decision_id,
            command=command_to_pb(command),
            seat=seat_to_pb(command.seat if one_device else None),
        )
        applied = await persist(
            lambda: self._line.send(self._address, request),
            patience_seconds=self._connections.patience_seconds,
        )
        self._answered = max(self._answered, decision_id)
        self.fairness.carried_out(command, round_no)
        return applied

    # Staying attached

    async def _run(self) -> None:
        try:
            await self._stay_attached()
        except BaseException as error:
            self._line.finish(error if isinstance(error, Exception) else None)
            raise
        else:
            self._line.finish(None)
        finally:
            self._line.detach()

    async def _stay_attached(self) -> None:
        backoff = Backoff()
        self._heard = time.monotonic()
        led_at = -HOP_SECONDS
        failures = 0
        while True:
            heard = self._heard
            asked: float | None = None
            led = False
            problem: Exception = _BrokenError("the stream ended before the match")
            metadata = self._connections.metadata
            try:
                led = await self._attachment(backoff)
            except grpc.aio.AioRpcError as error:
                failure = from_rpc(error)
                led = await self._connections.renewed(failure, metadata)
                if not (self._over or failure.retryable or led or self._moved(failure)):
                    raise failure from None
                asked, problem = failure.retry_after_seconds, failure
            except (_BrokenError, TimeoutError) as error:
                problem = error
            finally:
                self.attached = False
                self._line.detach()
            if self._over:
                return
            if time.monotonic() - self._heard > self._patience_seconds:
                raise UnreachableError(f"match {self.match_id} cannot be reached: {problem}") from problem
            if led and time.monotonic() - led_at >= HOP_SECONDS:
                led_at = time.monotonic()  # somebody waits for us there
            else:
                await asyncio.sleep(backoff.next_seconds(asked))
            failures = failures + 1 if isinstance(problem, CallError) and self._heard == heard else 0
            # A process that hangs takes connections and says nothing: silence was long enough a failure.
            if failures > 1 or isinstance(problem, TimeoutError):
                await self._look_for_it()
            self.reattached += 1

    async def _attachment(self, backoff: Backoff) -> bool:
        """One stream from its beginning to its end. Whether it has led to another address."""
        service = self._connections.at(self._address)
        try:
            async with asyncio.timeout(self._heartbeat_seconds_max):
                await self._line.attach(service, self._sequence)
            while True:
                async with asyncio.timeout(self._heartbeat_seconds_max):
                    message = await self._line.read()
                if message is None:
                    return False
                self._heard = time.monotonic()
                self.attached = True
                backoff.reset()
                self._receive(message)
                if message.HasField("reconnect"):
                    before, self._address = self._address, message.reconnect.address or self._address
                    return self._address != before
        except TimeoutError:
            # The connection may be long dead without a word: do not wait for it to find out.
            self._connections.renew(self._address, service)
            raise

    def _receive(self, message: pb.WatchResponse) -> None:
        """Take over what is new. Raises _BrokenError when something is missing."""
        news = pb.WatchResponse()
        sequence = self._sequence
        if message.HasField("snapshot"):
            if message.snapshot.sequence < sequence:
                raise _BrokenError(f"the service is behind: {message.snapshot.sequence} after {sequence}")
            sequence = message.snapshot.sequence
            news.snapshot.CopyFrom(message.snapshot)
            self._over = self._over or message.snapshot.table.HasField("outcome")
            self._begun = True
        elif not self._begun and (message.events or message.HasField("prompt")):
            raise _BrokenError("the stream did not begin with a snapshot")
        for event in message.events:
            if event.sequence <= sequence:
                continue  # told before
            if event.sequence != sequence + 1:
                raise _BrokenError(f"event {event.sequence} came after {sequence}")
            sequence = event.sequence
            news.events.append(event)
            self._over = self._over or event.HasField("match_ended")
        if message.HasField("prompt") and message.prompt.sequence == sequence:
            news.prompt.CopyFrom(message.prompt)
        self._sequence = sequence
        if news.ByteSize():
            self._inbox.append((news, time.monotonic()))
            self._arrived.set()

    async def _look_for_it(self) -> None:
        """The process does not answer, again: another may have taken the match up."""
        if self._locate is None:
            return
        with contextlib.suppress(ClientError, TimeoutError):
            async with asyncio.timeout(LOCATE_SECONDS):
                self._address = await self._locate(self.match_id) or self._address

    def _moved(self, failure: CallError) -> bool:
        """Whether another process has the match now; the next attachment goes there."""
        if failure.reason != "WRONG_ADDRESS":
            return False
        self._address = failure.metadata.get("address") or self._address
        return True
