"""The game process's side of the clock's stream: one session at a time, and what a new one must be told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, assert_never

import grpc

from engine import clock
from engine.clock import MILLISECOND, SECOND
from services.common.channels import Connect, plain
from services.common.logs import get_logger
from services.game.clock_listener import ClockListener
from services.game.livetime import QUIET_NS, LiveTime
from services.game.metrics import LinkMetrics
from services.wire import clock as wire
from services.wire import clock_messages as m
from spectacularbid.internal.clock.v1 import clock_service_pb2 as pb
from spectacularbid.internal.clock.v1.clock_service_pb2_grpc import ClockServiceStub

SILENCE_MAX_NS: Final = 1 * SECOND
"""The clock pings four times a second; after this much live time without a word the session is given up."""
WELCOME_MAX_NS: Final = 3 * SECOND
"""The same for a session that has not been accepted yet."""
LOST_NS: Final = 1 * SECOND
"""Longer than this without a session is worth an incident."""
WATCH_SECONDS: Final = 0.25
HEARD_OUT_NS: Final = 250 * MILLISECOND
"""A probe is answered after so long even if its deadline has not been lived through."""
HEAR_AGAIN_NS: Final = MILLISECOND // 2
RETRY_SECONDS_MIN: Final = 0.05
RETRY_SECONDS_MAX: Final = 0.5
HEARD_AT_ONCE: Final = 32
"""Messages of the clock that are carried out in one turn of the loop: a long turn hears nobody."""
RIDE_SECONDS: Final = 0.005
"""How long what nobody waits for looks out for a message to travel with: each one wakes a dozen threads on either side."""
OUTBOX_MAX: Final = 100_000
"""More unsent messages than this: the clock does not read, and the session is given up."""

CHANNEL_OPTIONS: Final[list[tuple[str, Any]]] = [
    # Liveness is the application's pings; this is for a peer that died before the first of them. Without the
    # explicit ping timeout a frozen peer is noticed after a minute.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 1_000),
    ("grpc.http2.ping_timeout_ms", 1_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_retries", 0),
    # Each session makes its own connection, so that it may reach another clock.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
]

_RESUME: Final = m.OpenCause.RESUME

Call = grpc.aio.StreamStreamCall[pb.GovernRequest, pb.GovernResponse]


class _SessionOverError(Exception):
    """The session cannot go on; the text says why."""


@dataclass(slots=True)
class _Governed:
    """What a new session must be told about one match."""

    listener: ClockListener
    fence: int
    opened: m.Open | None
    arrival: m.Arrival | None = None
    verdict: m.Verdict | None = None


class ClockLink:
    """Keeps one session to the clock and remembers what the next one needs.

    For each match that is the newest Open without a committed end and its Arrival without a committed effect; rooms
    need not know about sessions at all. Everything said in one turn of the loop travels together; what nobody waits for,
    an Open or a commit, looks out a moment for a message that somebody does wait for.
    """

    def __init__(
        self,
        address: str,
        secret: str,
        engine_id: str,
        incarnation: str,
        live: LiveTime,
        *,
        lease_ok: Callable[[], bool],
        metrics: LinkMetrics,
        policy: m.Policy | None = None,
        connect: Connect = plain,
        reckons: bool = True,
    ) -> None:
        self._connect = connect
        self._reckons = reckons
        self.attached = False
        """Whether a clock has accepted the session."""
        self.clock_id = ""
        """The clock that governs, or governed last."""
        self.policy = policy or m.Policy()
        """As the clock last said."""
        self.on_regained: Callable[[int, int, int, int], None] = lambda *_: None
        """Told from when to when, on the kernel clock, there was no session, and how many decisions were open and
        commands held, after more than a second without one."""
        self.later: Callable[[float, Callable[[], None]], object] = lambda seconds, call: (
            asyncio.get_running_loop().call_later(seconds, call)
        )
        self._lost_at: int | None = None
        self._address = address
        self._secret = secret
        self._engine_id = engine_id
        self._incarnation = incarnation
        self._live = live
        self._lease_ok = lease_ok
        self._matches: dict[str, _Governed] = {}
        self._attach_no = 0
        self._speaking = False
        self._outbox: list[m.EngineMessage] = []
        self._wake = asyncio.Event()
        self._looking_out = False
        self._gaps_told = 0
        self._heard_at = 0
        self._heard_raw = 0
        self._metrics = metrics
        metrics.held_commands.set_function(self._held)
        metrics.gaps.set_function(lambda: live.gap_total_ns / SECOND)
        live.observe_stretch = lambda nanoseconds: metrics.stretches.observe(nanoseconds / SECOND)
        self._log = get_logger()

    # For the rooms.

    def open(self, opened: m.Open, listener: ClockListener) -> None:
        """A decision is open: it counts from `opened.start_ns`, stamped immediately before it was published.

        A match taken over, by another process or by this one after a restart, comes with a higher fence and, if its
        decision was open before, with RESUME.
        """
        key = opened.key
        self._matches[key.match_id] = _Governed(listener, key.fence, opened)
        last = self._outbox[-1] if self._outbox else None
        if isinstance(last, m.Applied) and last.key[:2] == key[:2]:
            self._outbox.pop()  # what was judged before is committed: this says so
        # A resume is a question.
        self._say(opened, waited_for=opened.cause is _RESUME)

    def arrive(self, arrival: m.Arrival) -> None:
        """A legal command of the deciding seat. The answer is a verdict or a timeout."""
        governed = self._governed(arrival.key.match_id, arrival.key.fence)
        if governed is None:
            return
        governed.arrival = arrival
        self._say(arrival)

    def applied(self, key: m.Key, command_id: str, event_seq: int) -> None:
        """The verdict's effect is committed."""
        governed = self._governed(key.match_id, key.fence)
        if governed is None or governed.arrival is None:
            return
        if (governed.arrival.key, governed.arrival.command_id) == (key, command_id):
            governed.opened = governed.arrival = governed.verdict = None
            self._say(m.Applied(key, command_id, event_seq), waited_for=False)

    def close(self, match_id: str, fence: int, reason: str) -> None:
        """The match needs no clock any more: it is over, or somebody else's."""
        if self._governed(match_id, fence) is not None:
            del self._matches[match_id]
        self._say(m.Close(match_id, fence, reason))

    def release(self, match_id: str, fence: int, at_ns: int) -> None:
        """The match goes to another process, which nobody listened for since `at_ns`."""
        if self._governed(match_id, fence) is not None:
            del self._matches[match_id]
        self._say(m.Release(match_id, fence, at_ns))

    def probe_reply(self, key: m.Key, probe_no: int, watermark_ns: int) -> None:
        """Everything that was heard before `watermark_ns` has been handed to `arrive`."""
        self._say(m.ProbeReply(key, probe_no, watermark_ns))

    def _governed(self, match_id: str, fence: int) -> _Governed | None:
        governed = self._matches.get(match_id)
        return governed if governed is not None and governed.fence == fence else None

    def _held(self) -> int:
        # Asked from the thread of the metrics page: what is a list already does not change under it.
        return sum(1 for governed in list(self._matches.values()) if governed.arrival is not None)

    def _say(self, message: m.EngineMessage, *, waited_for: bool = True) -> None:
        # Without a session there is nobody to tell; the next Hello carries what still matters.
        if not self._speaking:
            return
        self._outbox.append(message)
        if waited_for:
            self._wake.set()
        elif not self._looking_out:
            self._looking_out = True
            self.later(RIDE_SECONDS, self._go)

    def _go(self) -> None:
        self._looking_out = False
        if self._outbox:
            self._wake.set()

    # The session.

    async def run(self) -> None:
        """Keeps a session alive until cancelled; trouble with the connection only means another try."""
        wait = RETRY_SECONDS_MIN
        while True:
            try:
                await self._session()
            except (_SessionOverError, wire.MalformedClockMessageError) as error:
                why = str(error)
            except grpc.aio.AioRpcError as error:
                why = str(error.details())
            else:
                why = "ended"
            finally:
                was_attached, self.attached, self._speaking = self.attached, False, False
                if was_attached:
                    # Since it was last heard, not since that was noticed.
                    self._lost_at = self._heard_raw
                self._outbox.clear()
                self._metrics.attached.set(0)
            wait = RETRY_SECONDS_MIN if was_attached else min(2 * wait, RETRY_SECONDS_MAX)
            self._log.warning(
                "clock_session_over", why=why, attach_no=self._attach_no, open=len(self._matches)
            )
            await asyncio.sleep(wait)

    async def _session(self) -> None:
        self._attach_no += 1
        async with self._connect(self._address, CHANNEL_OPTIONS) as channel:
            metadata = (("authorization", f"Bearer {self._secret}"),)
            call: Call = ClockServiceStub(channel).Govern(metadata=metadata)
            self._outbox = [self._hello()]
            self._speaking = True
            self._heard_at = self._live.mark()
            self._gaps_told = 0
            self._wake.set()
            # Not a task group: before Python 3.13, one whose tasks fail as it is cancelled swallows the cancellation.
            parts = [
                asyncio.create_task(part, name=name)
                for part, name in (
                    (self._write(call), "clock-write"),
                    (self._read(call), "clock-read"),
                    (self._watch(), "clock-watch"),
                )
            ]
            try:
                ended, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            finally:
                call.cancel()
                for part in parts:
                    part.cancel()
                await asyncio.gather(*parts, return_exceptions=True)
            for part in ended:
                part.result()

    def _hello(self) -> m.Hello:
        live, mark = self._live, self._live.mark()
        opened, pending = [], []
        for governed in self._matches.values():
            if governed.opened is None:
                continue
            # A resume that no clock has worked out yet stays one.
            resuming = governed.opened.cause is m.OpenCause.RESUME
            cause = m.OpenCause.RESUME if resuming else m.OpenCause.REATTACH
            opened.append(governed.opened.again(cause, mark))
            if governed.arrival is not None:
                pending.append(governed.arrival)
        return m.Hello(
            engine_id=self._engine_id,
            incarnation=self._incarnation,
            attach_no=self._attach_no,
            timeline_id=live.timeline_id,
            clock_source=live.clock_source,
            raw_ns=live.raw(),
            mark_ns=mark,
            policy_version=self.policy.version,
            open=tuple(opened),
            pending=tuple(pending),
            reckons=self._reckons,
        )

    async def _write(self, call: Call) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            batch, self._outbox = self._outbox, []
            if len(batch) > OUTBOX_MAX:
                raise _SessionOverError("the clock does not read")
            if batch:
                try:
                    await call.write(wire.request_to_pb(batch, self._live.mark()))
                except asyncio.InvalidStateError:
                    raise _SessionOverError("the clock ended the session") from None

    async def _read(self, call: Call) -> None:
        while True:
            response = await call.read()
            if not isinstance(response, pb.GovernResponse):
                # Raises the status if there is one to tell.
                raise _SessionOverError(f"the clock ended the session: {await call.details() or 'no reason'}")
            self._heard_at, self._heard_raw = self._live.mark(), self._live.raw()
            for number, message in enumerate(wire.response_from_pb(response), 1):
                self._hear(message)
                if not number % HEARD_AT_ONCE:
                    await asyncio.sleep(0)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            # Live time: what came while this process itself stood still has not been read yet.
            silence = self._live.mark() - self._heard_at
            if silence > (SILENCE_MAX_NS if self.attached else WELCOME_MAX_NS):
                raise _SessionOverError("the clock is silent")

    def _hear(self, message: m.ClockMessage) -> None:
        match message:
            case m.Verdict():  # nearly always
                governed = self._governed(message.key.match_id, message.key.fence)
                if governed is not None:
                    self._tell(governed, message)
            case m.Ping(n):
                self._pong(n)
            case m.Welcome(session_id, clock_id, policy):
                self.attached, self.clock_id, self.policy = True, clock_id, policy
                self._metrics.attached.set(1)
                self._metrics.sessions.inc()
                self._regained()
                self._log.info(
                    "clock_attached", clock_id=clock_id, session_id=session_id, attach_no=self._attach_no
                )
            case m.Drain():
                raise _SessionOverError("the clock drains")
            case m.Void(match_id, fence) | m.Stale(match_id, fence):
                governed = self._governed(match_id, fence)
                if governed is not None:
                    self._tell(governed, message)
                    if isinstance(message, m.Stale):
                        self._matches.pop(match_id, None)
            case _:
                governed = self._governed(message.key.match_id, message.key.fence)
                if governed is not None:
                    self._tell(governed, message)

    def _regained(self) -> None:
        lost_at, now, self._lost_at = self._lost_at, self._live.raw(), None
        if lost_at is not None and now - lost_at > LOST_NS:
            opened = sum(1 for governed in self._matches.values() if governed.opened is not None)
            self.on_regained(lost_at, now, opened, self._held())

    def _pong(self, n: int) -> None:
        live = self._live
        gaps, self._gaps_told = live.gaps_since(self._gaps_told)
        self._say(m.Pong(n, live.raw(), live.mark(), self._lease_ok(), live.gap_total_ns, gaps))

    def _tell(
        self,
        governed: _Governed,
        message: m.Armed | m.Verdict | m.Probe | m.Timeout | m.Void | m.Stale | m.Mismatch,
    ) -> None:
        try:
            self._tell_or_fail(governed, message)
        except Exception:  # noqa: BLE001 - told to the log with its traceback
            # A bug in one room stops that match at its last stored revision, never the others.
            self._log.exception("clock_listener_failed", message=type(message).__name__)

    def _tell_or_fail(
        self,
        governed: _Governed,
        message: m.Armed | m.Verdict | m.Probe | m.Timeout | m.Void | m.Stale | m.Mismatch,
    ) -> None:
        listener, opened = governed.listener, governed.opened
        match message:
            case m.Verdict():
                self._judged(governed, message)
            case m.Void():
                listener.on_void(message)
            case m.Stale():
                listener.on_stale(message)
            case m.Mismatch():
                listener.on_mismatch(message)
            case _ if opened is None or opened.key != message.key:
                pass  # said before it knew that the decision is over
            case m.Armed() if not _fits(opened, message):
                pass  # said of the part of this turn before a draw
            case m.Armed():
                self._settle_resume(governed, opened, message)
                listener.on_armed(message)
            case m.Probe():
                self._hear_out(message, self._live.raw() + HEARD_OUT_NS)
            case m.Timeout():
                listener.on_timeout(message)
            case _:
                assert_never(message)

    def _judged(self, governed: _Governed, verdict: m.Verdict) -> None:
        opened, pending = governed.opened, governed.arrival
        if opened is None or opened.key != verdict.key:
            return  # said before it knew that the decision is over
        if pending is None or governed.verdict == verdict:
            return
        if pending.command_id != verdict.command_id:
            return  # a repeat of the verdict on the draw before
        governed.verdict = verdict
        waited = self._live.mark() - pending.arrive_ns
        self._metrics.verdict_seconds.observe(waited / SECOND if waited > 0 else 0.0)
        governed.listener.on_verdict(verdict)

    def _hear_out(self, probe: m.Probe, until_raw: int) -> None:
        """Hands a probe on once its deadline has been lived through: an earlier answer would only be asked for again."""
        governed = self._governed(probe.key.match_id, probe.key.fence)
        if governed is None or governed.opened is None or governed.opened.key != probe.key:
            return
        mark = self._live.mark()
        if mark >= probe.deadline_ns or self._live.raw() >= until_raw:
            # Taken after the commands that came before now on other streams: they carry this mark at most.
            governed.listener.on_probe(probe, mark)
        else:
            wait = min(max(HEAR_AGAIN_NS, probe.deadline_ns - self._live.soon()), HEARD_OUT_NS)
            if self._live.unheard_ns() > self.policy.stall_threshold_ns:
                # Behind a stall, asking again within QUIET_NS would itself keep live time from going on. All probes do
                # at the same instants, so that many of them wake the loop no more often than one.
                wait = 2 * QUIET_NS
                wait += -(self._live.raw() + wait) % wait
            self.later(wait / SECOND, partial(self._hear_out, probe, until_raw))

    def _settle_resume(self, governed: _Governed, opened: m.Open, armed: m.Armed) -> None:
        """The clock has worked out what a resume costs; another clock is told the result, not the question."""
        if opened.cause is m.OpenCause.RESUME:
            governed.opened = replace(
                opened,
                cause=m.OpenCause.REATTACH,
                consumed_ns=armed.consumed_ns,
                credited_total_ns=opened.credited_total_ns + armed.credited_ns,
                outage_hint_ns=0,
            )


def _fits(opened: m.Open, armed: m.Armed) -> bool:
    """Whether it speaks of this part of the turn; all parts of a turn have the same key."""
    deadline = clock.deadline(opened.start_ns, armed.consumed_ns, opened.bank_ns, opened.delay_ns)
    return armed.deadline_ns == deadline
