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
SEAT_FROM_PB: Final = {seat.value: seat for seat in Seat}


def request_to_pb(messages: Iterable[m.EngineMessage]) -> pb.GovernRequest:
    """What an engine says in one loop turn."""
    return pb.GovernRequest(messages=[_engine_to_pb(message) for message in messages])


def request_from_pb(request: pb.GovernRequest) -> list[m.EngineMessage]:
    """The messages of a request, in order. Raises MalformedClockMessageError."""
    return [_engine_from_pb(message) for message in request.messages]


def response_to_pb(messages: Iterable[m.ClockMessage]) -> pb.GovernResponse:
    """What the clock says in one loop turn."""
    return pb.GovernResponse(messages=[_clock_to_pb(message) for message in messages])


def response_from_pb(response: pb.GovernResponse) -> list[m.ClockMessage]:
    """The messages of a response, in order. Raises MalformedClockMessageError."""
    return [_clock_from_pb(message) for message in response.messages]


def _key_to_pb(key: m.Key) -> pb.Key:
    return pb.Key(match_id=key.match_id, fence=key.fence, decision_no=key.decision_no)


def _key_from_pb(key: pb.Key) -> m.Key:
    if not key.match_id or key.fence < 1 or key.decision_no < 1:
        raise MalformedClockMessageError("key: match_id, fence and decision_no are required")
    return m.Key(key.match_id, key.fence, key.decision_no)


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
    if abs(value) > INSTANT_MAX_NS:
        raise MalformedClockMessageError(f"{field}: {value} is no instant of any timeline")
    return value


def _open_to_pb(message: m.Open) -> pb.Open:
    return pb.Open(
        key=_key_to_pb(message.key),
        cause=CAUSE_TO_PB[message.cause],
        seat=message.seat.value,
        kind=message.kind,
        start_ns=message.start_ns,
        start_raw_ns=message.start_raw_ns,
        mark_ns=message.mark_ns,
        gap_total_ns=message.gap_total_ns,
        bank_ns=message.bank_ns,
        delay_ns=message.delay_ns,
        consumed_ns=message.consumed_ns,
        credited_total_ns=message.credited_total_ns,
        outage_hint_ns=message.outage_hint_ns,
    )


def _open_from_pb(message: pb.Open) -> m.Open:
    cause = CAUSE_FROM_PB.get(message.cause)
    if cause is None:
        raise MalformedClockMessageError(f"open.cause: {message.cause} is none")
    return m.Open(
        key=_key_from_pb(message.key),
        cause=cause,
        seat=_seat_from_pb(message.seat),
        kind=message.kind,
        start_ns=_instant("open.start_ns", message.start_ns),
        start_raw_ns=_instant("open.start_raw_ns", message.start_raw_ns),
        mark_ns=_instant("open.mark_ns", message.mark_ns),
        gap_total_ns=_span("open.gap_total_ns", message.gap_total_ns),
        bank_ns=_span("open.bank_ns", message.bank_ns),
        delay_ns=_span("open.delay_ns", message.delay_ns),
        consumed_ns=_span("open.consumed_ns", message.consumed_ns),
        credited_total_ns=_span("open.credited_total_ns", message.credited_total_ns),
        outage_hint_ns=_span("open.outage_hint_ns", message.outage_hint_ns),
    )


def _arrival_to_pb(message: m.Arrival) -> pb.Arrival:
    return pb.Arrival(
        key=_key_to_pb(message.key),
        command_id=message.command_id,
        arrive_ns=message.arrive_ns,
        read_raw_ns=message.read_raw_ns,
        gap_total_ns=message.gap_total_ns,
        effect=EFFECT_TO_PB[message.effect],
        traceparent=str(message.trace or ""),
    )


def _arrival_from_pb(message: pb.Arrival) -> m.Arrival:
    effect = EFFECT_FROM_PB.get(message.effect)
    if effect is None:
        raise MalformedClockMessageError(f"arrival.effect: {message.effect} is none")
    if not message.command_id:
        raise MalformedClockMessageError("arrival.command_id is required")
    return m.Arrival(
        key=_key_from_pb(message.key),
        command_id=message.command_id,
        arrive_ns=_instant("arrival.arrive_ns", message.arrive_ns),
        read_raw_ns=_instant("arrival.read_raw_ns", message.read_raw_ns),
        gap_total_ns=_span("arrival.gap_total_ns", message.gap_total_ns),
        effect=effect,
        trace=TraceContext.parse(message.traceparent) if message.traceparent else None,
    )


def _hello_to_pb(message: m.Hello) -> pb.Hello:
    return pb.Hello(
        engine_id=message.engine_id,
        incarnation=message.incarnation,
        attach_no=message.attach_no,
        timeline_id=message.timeline_id,
        clock_source=message.clock_source,
        raw_ns=message.raw_ns,
        mark_ns=message.mark_ns,
        policy_version=message.policy_version,
        open=[_open_to_pb(opened) for opened in message.open],
        pending=[_arrival_to_pb(arrival) for arrival in message.pending],
    )


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
    )


def _pong_to_pb(message: m.Pong) -> pb.Pong:
    return pb.Pong(
        n=message.n,
        raw_ns=message.raw_ns,
        mark_ns=message.mark_ns,
        lease_ok=message.lease_ok,
        gap_total_ns=message.gap_total_ns,
        gaps=[pb.Gap(from_raw_ns=g.from_raw_ns, to_raw_ns=g.to_raw_ns, cause=g.cause) for g in message.gaps],
    )


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


def _engine_to_pb(message: m.EngineMessage) -> pb.EngineMessage:
    match message:
        case m.Hello():
            return pb.EngineMessage(hello=_hello_to_pb(message))
        case m.Open():
            return pb.EngineMessage(open=_open_to_pb(message))
        case m.Arrival():
            return pb.EngineMessage(arrival=_arrival_to_pb(message))
        case m.Applied(key, command_id, event_seq):
            applied = pb.Applied(key=_key_to_pb(key), command_id=command_id, event_seq=event_seq)
            return pb.EngineMessage(applied=applied)
        case m.Close(match_id, fence, reason):
            return pb.EngineMessage(close=pb.Close(match_id=match_id, fence=fence, reason=reason))
        case m.ProbeReply(key, probe_no, watermark_ns):
            reply = pb.ProbeReply(key=_key_to_pb(key), probe_no=probe_no, watermark_ns=watermark_ns)
            return pb.EngineMessage(probe_reply=reply)
        case m.Pong():
            return pb.EngineMessage(pong=_pong_to_pb(message))
        case m.Stalled(key, since_raw_ns, cause):
            stalled = pb.Stalled(key=_key_to_pb(key), since_raw_ns=since_raw_ns, cause=STALL_TO_PB[cause])
            return pb.EngineMessage(stalled=stalled)
        case m.Release(match_id, fence, at_ns):
            return pb.EngineMessage(release=pb.Release(match_id=match_id, fence=fence, at_ns=at_ns))
        case _:
            assert_never(message)


def _engine_from_pb(message: pb.EngineMessage) -> m.EngineMessage:
    match message.WhichOneof("message"):
        case "hello":
            return _hello_from_pb(message.hello)
        case "open":
            return _open_from_pb(message.open)
        case "arrival":
            return _arrival_from_pb(message.arrival)
        case "applied":
            applied = message.applied
            return m.Applied(_key_from_pb(applied.key), applied.command_id, applied.event_seq)
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


def _policy_to_pb(policy: m.Policy) -> pb.Policy:
    return pb.Policy(
        version=policy.version,
        stall_threshold_ns=policy.stall_threshold_ns,
        gap_max_ns=policy.gap_max_ns,
        credit_total_max_ns=policy.credit_total_max_ns,
        hold_max_ns=policy.hold_max_ns,
        resume_floor_ns=policy.resume_floor_ns,
    )


def _policy_from_pb(policy: pb.Policy) -> m.Policy:
    return m.Policy(
        version=policy.version,
        stall_threshold_ns=policy.stall_threshold_ns,
        gap_max_ns=policy.gap_max_ns,
        credit_total_max_ns=policy.credit_total_max_ns,
        hold_max_ns=policy.hold_max_ns,
        resume_floor_ns=policy.resume_floor_ns,
    )


def _verdict_to_pb(message: m.Verdict) -> pb.Verdict:
    return pb.Verdict(
        key=_key_to_pb(message.key),
        command_id=message.command_id,
        elapsed_ns=message.elapsed_ns,
        consumed_ns=message.consumed_ns,
        charge_ns=message.charge_ns,
        bank_after_ns=message.bank_after_ns,
        credited_ns=message.credited_ns,
    )


def _timeout_to_pb(message: m.Timeout) -> pb.Timeout:
    return pb.Timeout(
        key=_key_to_pb(message.key),
        seat=message.seat.value,
        deadline_ns=message.deadline_ns,
        proof=PROOF_TO_PB[message.proof],
        proof_ns=message.proof_ns,
        evidence_id=message.evidence_id,
        start_ns=message.start_ns,
        consumed_ns=message.consumed_ns,
    )


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


def _clock_to_pb(message: m.ClockMessage) -> pb.ClockMessage:
    match message:
        case m.Welcome(session_id, clock_id, policy):
            welcome = pb.Welcome(session_id=session_id, clock_id=clock_id, policy=_policy_to_pb(policy))
            return pb.ClockMessage(welcome=welcome)
        case m.Ping(n, clock_ns):
            return pb.ClockMessage(ping=pb.Ping(n=n, clock_ns=clock_ns))
        case m.Armed(key, deadline_ns, remaining_ns, consumed_ns, credited_ns):
            armed = pb.Armed(
                key=_key_to_pb(key),
                deadline_ns=deadline_ns,
                remaining_ns=remaining_ns,
                consumed_ns=consumed_ns,
                credited_ns=credited_ns,
            )
            return pb.ClockMessage(armed=armed)
        case m.Verdict():
            return pb.ClockMessage(verdict=_verdict_to_pb(message))
        case m.Probe(key, probe_no, deadline_ns):
            probe = pb.Probe(key=_key_to_pb(key), probe_no=probe_no, deadline_ns=deadline_ns)
            return pb.ClockMessage(probe=probe)
        case m.Timeout():
            return pb.ClockMessage(timeout=_timeout_to_pb(message))
        case m.Void(match_id, fence, reason, evidence_id, summary):
            void = pb.Void(
                match_id=match_id, fence=fence, reason=reason, evidence_id=evidence_id, summary=summary
            )
            return pb.ClockMessage(void=void)
        case m.Stale(match_id, fence, current_fence):
            stale = pb.Stale(match_id=match_id, fence=fence, current_fence=current_fence)
            return pb.ClockMessage(stale=stale)
        case m.Mismatch(key, field, expected, got):
            mismatch = pb.Mismatch(key=_key_to_pb(key), field=field, expected=expected, got=got)
            return pb.ClockMessage(mismatch=mismatch)
        case m.Drain(grace_ms):
            return pb.ClockMessage(drain=pb.Drain(grace_ms=grace_ms))
        case _:
            assert_never(message)


def _clock_from_pb(message: pb.ClockMessage) -> m.ClockMessage:
    match message.WhichOneof("message"):
        case "welcome":
            welcome = message.welcome
            return m.Welcome(welcome.session_id, welcome.clock_id, _policy_from_pb(welcome.policy))
        case "ping":
            return m.Ping(message.ping.n, message.ping.clock_ns)
        case "armed":
            return m.Armed(
                _key_from_pb(message.armed.key),
                message.armed.deadline_ns,
                message.armed.remaining_ns,
                message.armed.consumed_ns,
                message.armed.credited_ns,
            )
        case "verdict":
            return m.Verdict(
                _key_from_pb(message.verdict.key),
                message.verdict.command_id,
                message.verdict.elapsed_ns,
                message.verdict.consumed_ns,
                message.verdict.charge_ns,
                message.verdict.bank_after_ns,
                message.verdict.credited_ns,
            )
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
