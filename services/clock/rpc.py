"""The stream between engines and the timekeeper."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any, Final
from uuid import uuid4

import grpc

from services.clock.alarm import Alarm
from services.clock.keeping import Keeping
from services.clock.metrics import ClockMetrics
from services.clock.notices import Notice, told_of
from services.clock.timekeeper import Hangup, Said, Timekeeper
from services.clock.watchers import Watchers
from services.common import tracing
from services.common.errors import malformed, try_again
from services.common.logs import get_logger
from services.common.tracing import Kind, NoTracer, TraceContext, Tracer
from services.wire import clock as wire
from services.wire import clock_messages as m
from services.wire.clock_news import Bulletin, News, SessionLost, bulletin_to_pb
from spectacularbid.internal.clock.v1 import clock_service_pb2 as pb
from spectacularbid.internal.clock.v1.clock_service_pb2_grpc import ClockServiceServicer

SERVICE_NAME: Final = "spectacularbid.internal.clock.v1.ClockService"
DRAIN_SECONDS_MAX: Final = 2.0
_FINDINGS: Final = (m.Void, m.Mismatch, m.Stale, m.Timeout)
"""What a match does not go on after: logged."""


class _Outbox:
    """What one session is still to be told. Everything of one loop turn travels together."""

    def __init__(self) -> None:
        self._waiting: list[m.ClockMessage] = []
        self._wake = asyncio.Event()
        self._ended = False
        self.reckons = False
        """Deadlines that are counted as they were asked are not worth a message."""

    def put(self, message: m.ClockMessage) -> None:
        """To be told."""
        if not self._waiting:
            self._wake.set()
        self._waiting.append(message)

    def end(self) -> None:
        """Nothing will be told after what is waiting."""
        self._ended = True
        self._wake.set()

    async def take(self) -> list[m.ClockMessage]:
        """Everything that waits; empty at the end."""
        while not self._waiting and not self._ended:
            self._wake.clear()
            await self._wake.wait()
        batch, self._waiting = self._waiting, []
        return batch


class ClockRpc(ClockServiceServicer):
    """Passes messages between the sessions and the one timekeeper."""

    def __init__(
        self,
        keeper: Timekeeper,
        metrics: ClockMetrics,
        keeping: Keeping | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self._tracer = tracer or NoTracer()
        self._keeper = keeper
        self._keeping = keeping
        self._metrics = metrics
        metrics.follow(keeper)
        self._alarm = Alarm(keeper, time.monotonic_ns, self._publish, self._metrics.rang)
        self._outboxes: dict[str, _Outbox] = {}
        self._attached: dict[str, m.Hello] = {}
        """Whose session it is, by its name, until its end has been told."""
        self._watchers = Watchers(metrics.watchers)
        self._draining = False
        self._empty = asyncio.Event()
        self._log = get_logger()

    async def Govern(
        self, request_iterator: AsyncIterator[pb.GovernRequest], context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pb.GovernResponse]:
        """One session of one engine."""
        if self._draining:
            raise try_again("this clock stops")
        name, outbox = uuid4().hex, _Outbox()
        self._outboxes[name] = outbox
        self._empty.clear()
        listening = asyncio.create_task(
            self._listen(name, request_iterator, context.peer()), name=f"session-{name}"
        )
        listening.add_done_callback(lambda _: outbox.end())
        try:
            while batch := await outbox.take():
                yield wire.response_to_pb(batch)
            if listening.done() and not listening.cancelled() and (fault := listening.exception()):
                raise fault
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await listening
            self._leave(name)

    # A coroutine that writes, not an iterator that yields: it must be able to leave a write that gets stuck.
    async def Watch(  # type: ignore[override]
        self,
        request: pb.WatchRequest,  # noqa: ARG002 - nothing to choose from
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> None:
        """News for somebody who looks on."""
        if self._draining:
            raise try_again("this clock stops")

        async def write(news: Sequence[News]) -> None:
            keeper = self._keeper
            bulletin = Bulletin(keeper.clock_id, keeper.sessions, keeper.matches, tuple(news))
            await context.write(bulletin_to_pb(bulletin))

        await self._watchers.follow(write)

    async def drain(self) -> None:
        """Tell every engine to attach elsewhere and wait a moment for that."""
        self._draining = True
        for outbox in self._outboxes.values():
            outbox.put(m.Drain(int(DRAIN_SECONDS_MAX * 1000)))
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS_MAX):
                while self._outboxes:
                    self._empty.clear()
                    await self._empty.wait()
        for outbox in self._outboxes.values():
            outbox.end()
        for name in list(self._attached):
            self._tell_lost(name, "this clock stops")
        self._watchers.end()

    async def _listen(self, name: str, requests: AsyncIterator[pb.GovernRequest], peer: str) -> None:
        attached = False
        async for request in requests:
            try:
                messages = wire.request_from_pb(request)
            except wire.MalformedClockMessageError as fault:
                raise malformed(str(fault)) from None
            now = time.monotonic_ns()
            said: Said = []
            try:
                for message in messages:
                    if isinstance(message, m.Hello) == attached:
                        raise malformed("a session begins with its only Hello")
                    if isinstance(message, m.Hello):
                        attached = True
                        self._attach(name, message, peer)
                    elif isinstance(message, m.ProbeReply):
                        self._metrics.replied(message, now)
                    elif isinstance(message, m.Arrival) and message.trace is not None:
                        self._publish(said)
                        said = []
                        self._judge_traced(name, message, message.trace, now)
                        continue
                    said += self._keeper.handle(name, message, now)
            finally:
                self._publish(said)
                self._alarm.rearm()

    def _attach(self, name: str, hello: m.Hello, peer: str) -> None:
        self._attached[name] = hello
        self._outboxes[name].reckons = hello.reckons
        self._log.info(
            "engine_attached",
            engine_id=hello.engine_id,
            incarnation=hello.incarnation,
            attach_no=hello.attach_no,
            clock_source=hello.clock_source,
            policy_version=hello.policy_version,
            session_id=name,
            peer=peer,
            open=len(hello.open),
            pending=len(hello.pending),
        )

    def _judge_traced(self, name: str, arrival: m.Arrival, trace: TraceContext, now: int) -> None:
        span = self._tracer.begin("verdict", trace, Kind.CONSUMER, match_id=arrival.key.match_id)
        with tracing.within(span.context):
            said = self._keeper.handle(name, arrival, now)
            self._publish(said)
        told = [type(message).__name__ for to, message in said if to == name]
        span.end(turn=arrival.key.decision_no, told=" ".join(told))

    def _publish(self, said: Said) -> None:
        for notice in self._keeper.take_notices():
            self._notice(notice)
        now = time.monotonic_ns()
        for name, message in said:
            outbox = self._outboxes.get(name)
            if isinstance(message, m.Armed) and message.as_asked and outbox is not None and outbox.reckons:
                continue
            self._metrics.said(message, now)
            if isinstance(message, m.Verdict):
                if outbox is not None:
                    outbox.put(message)
                continue
            if isinstance(message, Hangup):
                self._log.warning("engine_hung_up", session_id=name, reason=message.reason)
                self._tell_lost(name, message.reason)
                if outbox is not None:
                    outbox.end()
                continue
            if outbox is not None:
                outbox.put(message)
            if isinstance(message, _FINDINGS):
                if not isinstance(message, m.Stale) and name in self._attached:
                    self._watchers.tell(self._attached[name].engine_id, message)
                self._log_finding(name, message)

    def _notice(self, notice: Notice) -> None:
        self._metrics.noticed(notice)
        for happened in told_of(notice):
            self._watchers.tell(notice.engine_id, happened)
        if notice.kind:
            self._log.warning(
                "incident",
                incident_id=notice.incident_id,
                kind=notice.kind,
                engine_id=notice.engine_id,
                lasted_ns=notice.lasted_ns,
                reason=notice.reason,
            )
        if self._keeping is not None:
            self._keeping.keep([notice])

    def _log_finding(self, session: str, message: m.Void | m.Mismatch | m.Stale | m.Timeout) -> None:
        log = self._log.bind(session_id=session)
        match message:
            case m.Void(match_id, fence, reason, evidence_id, summary):
                log.warning(
                    "void",
                    match_id=match_id,
                    fence=fence,
                    reason=reason,
                    evidence_id=evidence_id,
                    summary=summary,
                )
            case m.Mismatch(key, field, expected, got):
                log.error("mismatch", **key._asdict(), field=field, expected=expected, got=got)
            case m.Stale(match_id, fence, current_fence):
                log.warning("stale", match_id=match_id, fence=fence, current_fence=current_fence)
            case m.Timeout(key, seat, deadline_ns, proof, proof_ns, evidence_id):
                log.info(
                    "timeout",
                    **key._asdict(),
                    seat=seat,
                    deadline_ns=deadline_ns,
                    proof=proof,
                    proof_ns=proof_ns,
                    evidence_id=evidence_id,
                )

    def _leave(self, name: str) -> None:
        del self._outboxes[name]
        self._keeper.detach(name, time.monotonic_ns())
        self._alarm.rearm()
        self._log.info("engine_detached", session_id=name)
        self._tell_lost(name, "this clock stops" if self._draining else "the stream has ended")
        if not self._outboxes:
            self._empty.set()

    def _tell_lost(self, name: str, reason: str) -> None:
        hello = self._attached.pop(name, None)
        if hello is not None:
            self._watchers.tell(hello.engine_id, SessionLost(hello.incarnation, name, reason))
