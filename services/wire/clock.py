"""The clock's messages on the wire: `clock_messages` to the generated classes and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never

from engine.clock import Effect
from engine.fields import shown
from engine.seats import Seat
from services.common.tracing import TraceContext
from services.wire import clock_messages as m
from spectacularbid.internal.clock.v1 import clock_service_pb2 as pb


class MalformedClockMessageError(ValueError):
    """A message makes no sense in any state; the text names the field."""


INSTANT_MAX_NS: Final = 2**61
SPAN_MAX_NS: Final = 2**59
"""73 years either way, and 18. The clock adds a few of them, and what comes of that still fits 64 bits."""

CAUSE_TO_PB: Final = {
    m.OpenCause.NEW: pb.OPEN_CAUSE_NEW,
    m.OpenCause.CONTINUE: pb.OPEN_CAUSE_CONTINUE,
    m.OpenCause.RESUME: pb.OPEN_CAUSE_RESUME,
    m.OpenCause.REATTACH: pb.OPEN_CAUSE_REATTACH,
}
EFFECT_TO_PB: Final = {Effect.ENDS: pb.EFFECT_ENDS, Effect.CONTINUES: pb.EFFECT_CONTINUES}
STALL_TO_PB: Final = {
    m.StallCause.COMMIT: pb.STALL_CAUSE_COMMIT,
    m.StallCause.HANDOFF: pb.STALL_CAUSE_HANDOFF,
}
PROOF_TO_PB: Final = {m.Proof.ARRIVAL: pb.PROOF_ARRIVAL, m.Proof.WATERMARK: pb.PROOF_WATERMARK}

CAUSE_FROM_PB: Final = {number: cause for cause, number in CAUSE_TO_PB.items()}
EFFECT_FROM_PB: Final = {number: effect for effect, number in EFFECT_TO_PB.items()}
STALL_FROM_PB: Final = {number: cause for cause, number in STALL_TO_PB.items()}
PROOF_FROM_PB: Final = {number: proof for proof, number in PROOF_TO_PB.items()}
OPEN_TIMES: Final = tuple(m.Open.__annotations__)[4:]
"""The fields of an Open that are times: three instants, then spans."""
SEAT_FROM_PB: Final = {seat.value: seat for seat in Seat}


def request_to_pb(messages: Iterable[m.EngineMessage], mark_ns: int | None = None) -> pb.GovernRequest:
    """What an engine says together. `mark_ns` is its mark now: an Open may have waited for company."""
    request = pb.GovernRequest()
    # Written into their place: a message that is made by itself is copied into the one around it, several times over.
    for message in messages:
        to = request.messages.add()
        _put_engine(to, message)
        if mark_ns is not None and isinstance(message, m.Open):
            to.open.mark_ns = mark_ns
    return request


def request_from_pb(request: pb.GovernRequest) -> list[m.EngineMessage]:
    """The messages of a request, in order. Raises MalformedClockMessageError."""
    return [_engine_from_pb(message) for message in request.messages]


def response_to_pb(messages: Iterable[m.ClockMessage]) -> pb.GovernResponse:
    """What the clock says in one loop turn."""
    response = pb.GovernResponse()
    place = response.messages.add
    for message in messages:
        _put_clock(place(), message)
    return response


def response_from_pb(response: pb.GovernResponse) -> list[m.ClockMessage]:
    """The messages of a response, in order. Raises MalformedClockMessageError."""
    return [_clock_from_pb(message) for message in response.messages]


def _put_key(to: pb.Key, key: m.Key) -> None:
    to.match_id, to.fence, to.decision_no = key


def _key_from_pb(key: pb.Key) -> m.Key:
    match_id, fence, decision_no = key.match_id, key.fence, key.decision_no
    if not match_id or fence < 1 or decision_no < 1:
        raise MalformedClockMessageError("key: match_id, fence and decision_no are required")
    return m.Key(match_id, fence, decision_no)


def _match_from_pb(match_id: str, fence: int) -> tuple[str, int]:
    if not match_id or fence < 1:
        raise MalformedClockMessageError("match_id and fence are required")
    return match_id, fence


def _seat_from_pb(seat: str) -> Seat:
    known = SEAT_FROM_PB.get(seat)
    if known is None:
        raise MalformedClockMessageError(f"seat: {shown(seat)} is none")
    return known


def _span(field: str, value: int) -> int:
    if not 0 <= value <= SPAN_MAX_NS:
        raise MalformedClockMessageError(f"{field}: {value} is negative or longer than anything lasts")
    return value


def _instant(field: str, value: int) -> int:
    if not -INSTANT_MAX_NS <= value <= INSTANT_MAX_NS:
        raise MalformedClockMessageError(f"{field}: {value} is no instant of any timeline")
    return value


def _put_open(to: pb.Open, message: m.Open) -> None:
    _put_key(to.key, message.key)
    to.cause = CAUSE_TO_PB[message.cause]
    to.seat = message.seat
    to.kind = message.kind
    to.start_ns = message.start_ns
    to.start_raw_ns = message.start_raw_ns
    to.mark_ns = message.mark_ns
    to.gap_total_ns = message.gap_total_ns
    to.bank_ns = message.bank_ns
    to.delay_ns = message.delay_ns
    to.consumed_ns = message.consumed_ns
    to.credited_total_ns = message.credited_total_ns
    to.outage_hint_ns = message.outage_hint_ns


def _open_from_pb(message: pb.Open) -> m.Open:
    cause = CAUSE_FROM_PB.get(message.cause)
    if cause is None:
        raise MalformedClockMessageError(f"open.cause: {message.cause} is none")
    instants = (message.start_ns, message.start_raw_ns, message.mark_ns)
    spans = (
        message.gap_total_ns,
        message.bank_ns,
        message.delay_ns,
        message.consumed_ns,
        message.credited_total_ns,
        message.outage_hint_ns,
    )
    # All at once: a call for each takes as long as all the rest of it.
    right = min(instants) >= -INSTANT_MAX_NS and max(instants) <= INSTANT_MAX_NS
    if not right or min(spans) < 0 or max(spans) > SPAN_MAX_NS:
        for field, value in zip(OPEN_TIMES, instants + spans, strict=True):
            (_instant if field in OPEN_TIMES[:3] else _span)(f"open.{field}", value)
    return m.Open(
        _key_from_pb(message.key), cause, _seat_from_pb(message.seat), message.kind, *instants, *spans
    )


def _put_arrival(to: pb.Arrival, message: m.Arrival) -> None:
    _put_key(to.key, message.key)
    to.command_id = message.command_id
    to.arrive_ns = message.arrive_ns
    to.read_raw_ns = message.read_raw_ns
    to.gap_total_ns = message.gap_total_ns
    to.effect = EFFECT_TO_PB[message.effect]
    if message.trace is not None:
        to.traceparent = str(message.trace)


def _arrival_from_pb(message: pb.Arrival) -> m.Arrival:
    effect = EFFECT_FROM_PB.get(message.effect)
    if effect is None:
        raise MalformedClockMessageError(f"arrival.effect: {message.effect} is none")
    command_id, traceparent = message.command_id, message.traceparent
    if not command_id:
        raise MalformedClockMessageError("arrival.command_id is required")
    return m.Arrival(
        _key_from_pb(message.key),
        command_id,
        _instant("arrival.arrive_ns", message.arrive_ns),
        _instant("arrival.read_raw_ns", message.read_raw_ns),
        _span("arrival.gap_total_ns", message.gap_total_ns),
        effect,
        TraceContext.parse(traceparent) if traceparent else None,
    )


def _put_hello(to: pb.Hello, message: m.Hello) -> None:
    to.engine_id = message.engine_id
    to.incarnation = message.incarnation
    to.attach_no = message.attach_no
    to.timeline_id = message.timeline_id
    to.clock_source = message.clock_source
    to.raw_ns = message.raw_ns
    to.mark_ns = message.mark_ns
    to.policy_version = message.policy_version
    to.reckons_deadlines = message.reckons
    for opened in message.open:
        _put_open(to.open.add(), opened)
    for arrival in message.pending:
        _put_arrival(to.pending.add(), arrival)


def _hello_from_pb(message: pb.Hello) -> m.Hello:
    if not message.engine_id or not message.incarnation or message.attach_no < 1 or not message.timeline_id:
        raise MalformedClockMessageError(
            "hello: engine_id, incarnation, attach_no and timeline_id are required"
        )
    return m.Hello(
        engine_id=message.engine_id,
        incarnation=message.incarnation,
        attach_no=message.attach_no,
        timeline_id=message.timeline_id,
        clock_source=message.clock_source,
        raw_ns=_instant("hello.raw_ns", message.raw_ns),
        mark_ns=_instant("hello.mark_ns", message.mark_ns),
        policy_version=message.policy_version,
        open=tuple(_open_from_pb(opened) for opened in message.open),
        pending=tuple(_arrival_from_pb(arrival) for arrival in message.pending),
        reckons=message.reckons_deadlines,
    )


def _put_pong(to: pb.Pong, message: m.Pong) -> None:
    to.n = message.n
    to.raw_ns = message.raw_ns
    to.mark_ns = message.mark_ns
    to.lease_ok = message.lease_ok
    to.gap_total_ns = message.gap_total_ns
    for gap in message.gaps:
        to.gaps.add(from_raw_ns=gap.from_raw_ns, to_raw_ns=gap.to_raw_ns, cause=gap.cause)


def _pong_from_pb(message: pb.Pong) -> m.Pong:
    return m.Pong(
        n=message.n,
        raw_ns=_instant("pong.raw_ns", message.raw_ns),
        mark_ns=_instant("pong.mark_ns", message.mark_ns),
        lease_ok=message.lease_ok,
        gap_total_ns=_span("pong.gap_total_ns", message.gap_total_ns),
        gaps=tuple(
            m.Gap(
                _instant("pong.gaps.from_raw_ns", gap.from_raw_ns),
                _instant("pong.gaps.to_raw_ns", gap.to_raw_ns),
                gap.cause,
            )
            for gap in message.gaps
        ),
    )


def _put_engine(to: pb.EngineMessage, message: m.EngineMessage) -> None:
    match message:
        case m.Arrival():
            _put_arrival(to.arrival, message)
        case m.Open():
            _put_open(to.open, message)
        case m.Applied(key, command_id, event_seq):
            applied = to.applied
            _put_key(applied.key, key)
            applied.command_id, applied.event_seq = command_id, event_seq
        case m.Hello():
            _put_hello(to.hello, message)
        case m.Close(match_id, fence, reason):
            close = to.close
            close.match_id, close.fence, close.reason = match_id, fence, reason
        case m.ProbeReply(key, probe_no, watermark_ns):
            reply = to.probe_reply
            _put_key(reply.key, key)
            reply.probe_no, reply.watermark_ns = probe_no, watermark_ns
        case m.Pong():
            _put_pong(to.pong, message)
        case m.Stalled(key, since_raw_ns, cause):
            stalled = to.stalled
            _put_key(stalled.key, key)
            stalled.since_raw_ns, stalled.cause = since_raw_ns, STALL_TO_PB[cause]
        case m.Release(match_id, fence, at_ns):
            release = to.release
            release.match_id, release.fence, release.at_ns = match_id, fence, at_ns
        case _:
            assert_never(message)


def _engine_from_pb(message: pb.EngineMessage) -> m.EngineMessage:
    match message.WhichOneof("message"):
        case "arrival":
            return _arrival_from_pb(message.arrival)
        case "open":
            return _open_from_pb(message.open)
        case "applied":
            applied = message.applied
            return m.Applied(_key_from_pb(applied.key), applied.command_id, applied.event_seq)
        case "hello":
            return _hello_from_pb(message.hello)
        case "close":
            return m.Close(*_match_from_pb(message.close.match_id, message.close.fence), message.close.reason)
        case "probe_reply":
            reply = message.probe_reply
            watermark_ns = _instant("probe_reply.watermark_ns", reply.watermark_ns)
            return m.ProbeReply(_key_from_pb(reply.key), reply.probe_no, watermark_ns)
        case "pong":
            return _pong_from_pb(message.pong)
        case "stalled":
            cause = STALL_FROM_PB.get(message.stalled.cause)
            if cause is None:
                raise MalformedClockMessageError(f"stalled.cause: {message.stalled.cause} is none")
            since_raw_ns = _instant("stalled.since_raw_ns", message.stalled.since_raw_ns)
            return m.Stalled(_key_from_pb(message.stalled.key), since_raw_ns, cause)
        case "release":
            release = message.release
            at_ns = _instant("release.at_ns", release.at_ns)
            return m.Release(*_match_from_pb(release.match_id, release.fence), at_ns)
        case _:
            raise MalformedClockMessageError("an engine message without content")


def _put_policy(to: pb.Policy, policy: m.Policy) -> None:
    to.version = policy.version
    to.stall_threshold_ns = policy.stall_threshold_ns
    to.gap_max_ns = policy.gap_max_ns
    to.credit_total_max_ns = policy.credit_total_max_ns
    to.hold_max_ns = policy.hold_max_ns
    to.resume_floor_ns = policy.resume_floor_ns


def _policy_from_pb(policy: pb.Policy) -> m.Policy:
    return m.Policy(
        version=policy.version,
        stall_threshold_ns=policy.stall_threshold_ns,
        gap_max_ns=policy.gap_max_ns,
        credit_total_max_ns=policy.credit_total_max_ns,
        hold_max_ns=policy.hold_max_ns,
        resume_floor_ns=policy.resume_floor_ns,
    )


def _put_verdict(to: pb.Verdict, message: m.Verdict) -> None:
    _put_key(to.key, message.key)
    to.command_id = message.command_id
    to.elapsed_ns = message.elapsed_ns
    to.consumed_ns = message.consumed_ns
    to.charge_ns = message.charge_ns
    to.bank_after_ns = message.bank_after_ns
    to.credited_ns = message.credited_ns


def _put_timeout(to: pb.Timeout, message: m.Timeout) -> None:
    _put_key(to.key, message.key)
    to.seat = message.seat
    to.deadline_ns = message.deadline_ns
    to.proof = PROOF_TO_PB[message.proof]
    to.proof_ns = message.proof_ns
    to.evidence_id = message.evidence_id
    to.start_ns = message.start_ns
    to.consumed_ns = message.consumed_ns


def _timeout_from_pb(message: pb.Timeout) -> m.Timeout:
    proof = PROOF_FROM_PB.get(message.proof)
    if proof is None:
        raise MalformedClockMessageError(f"timeout.proof: {message.proof} is none")
    return m.Timeout(
        key=_key_from_pb(message.key),
        seat=_seat_from_pb(message.seat),
        deadline_ns=message.deadline_ns,
        proof=proof,
        proof_ns=message.proof_ns,
        evidence_id=message.evidence_id,
        start_ns=message.start_ns,
        consumed_ns=message.consumed_ns,
    )


def _put_clock(to: pb.ClockMessage, message: m.ClockMessage) -> None:
    match message:
        case m.Verdict():
            _put_verdict(to.verdict, message)
        case m.Armed(key, deadline_ns, remaining_ns, consumed_ns, credited_ns):
            armed = to.armed
            _put_key(armed.key, key)
            armed.deadline_ns, armed.remaining_ns = deadline_ns, remaining_ns
            armed.consumed_ns, armed.credited_ns = consumed_ns, credited_ns
        case m.Welcome(session_id, clock_id, policy):
            welcome = to.welcome
            welcome.session_id, welcome.clock_id = session_id, clock_id
            _put_policy(welcome.policy, policy)
        case m.Ping(n, clock_ns):
            ping = to.ping
            ping.n, ping.clock_ns = n, clock_ns
        case m.Probe(key, probe_no, deadline_ns):
            probe = to.probe
            _put_key(probe.key, key)
            probe.probe_no, probe.deadline_ns = probe_no, deadline_ns
        case m.Timeout():
            _put_timeout(to.timeout, message)
        case m.Void(match_id, fence, reason, evidence_id, summary):
            void = to.void
            void.match_id, void.fence, void.reason = match_id, fence, reason
            void.evidence_id, void.summary = evidence_id, summary
        case m.Stale(match_id, fence, current_fence):
            stale = to.stale
            stale.match_id, stale.fence, stale.current_fence = match_id, fence, current_fence
        case m.Mismatch(key, field, expected, got):
            mismatch = to.mismatch
            _put_key(mismatch.key, key)
            mismatch.field, mismatch.expected, mismatch.got = field, expected, got
        case m.Drain(grace_ms):
            to.drain.grace_ms = grace_ms
        case _:
            assert_never(message)


def _clock_from_pb(message: pb.ClockMessage) -> m.ClockMessage:
    match message.WhichOneof("message"):
        case "verdict":
            verdict = message.verdict
            return m.Verdict(
                _key_from_pb(verdict.key),
                verdict.command_id,
                verdict.elapsed_ns,
                verdict.consumed_ns,
                verdict.charge_ns,
                verdict.bank_after_ns,
                verdict.credited_ns,
            )
        case "armed":
            armed = message.armed
            return m.Armed(
                _key_from_pb(armed.key),
                armed.deadline_ns,
                armed.remaining_ns,
                armed.consumed_ns,
                armed.credited_ns,
            )
        case "welcome":
            welcome = message.welcome
            return m.Welcome(welcome.session_id, welcome.clock_id, _policy_from_pb(welcome.policy))
        case "ping":
            return m.Ping(message.ping.n, message.ping.clock_ns)
        case "probe":
            return m.Probe(_key_from_pb(message.probe.key), message.probe.probe_no, message.probe.deadline_ns)
        case "timeout":
            return _timeout_from_pb(message.timeout)
        case "void":
            void = message.void
            match_id, fence = _match_from_pb(void.match_id, void.fence)
            return m.Void(match_id, fence, void.reason, void.evidence_id, void.summary)
        case "stale":
            match_id, fence = _match_from_pb(message.stale.match_id, message.stale.fence)
            return m.Stale(match_id, fence, message.stale.current_fence)
        case "mismatch":
            mismatch = message.mismatch
            return m.Mismatch(_key_from_pb(mismatch.key), mismatch.field, mismatch.expected, mismatch.got)
        case "drain":
            return m.Drain(message.drain.grace_ms)
        case _:
            raise MalformedClockMessageError("a clock message without content")
