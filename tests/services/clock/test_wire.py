"""The clock's messages survive the wire, and nonsense does not get in."""

from __future__ import annotations

import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.clock import Effect
from engine.seats import Seat
from services.wire import clock as wire
from services.wire import clock_messages as m
from spectacularbid.internal.clock.v1 import clock_service_pb2 as pb

INSTANTS = st.integers(-wire.INSTANT_MAX_NS, wire.INSTANT_MAX_NS)
SPANS = st.integers(0, wire.SPAN_MAX_NS)
NUMBERS = st.integers(1, 2**63 - 1)
WORDS = st.text(min_size=1, max_size=20)
SEATS = st.sampled_from(Seat)
KEYS = st.builds(m.Key, WORDS, NUMBERS, NUMBERS)
OPENS = st.builds(
    m.Open,
    KEYS,
    st.sampled_from(m.OpenCause),
    SEATS,
    WORDS,
    INSTANTS,
    INSTANTS,
    INSTANTS,
    SPANS,
    SPANS,
    SPANS,
    SPANS,
    SPANS,
    SPANS,
)
ARRIVALS = st.builds(m.Arrival, KEYS, WORDS, INSTANTS, INSTANTS, SPANS, st.sampled_from(Effect))
ENGINE_MESSAGES = st.one_of(
    OPENS,
    ARRIVALS,
    st.builds(
        m.Hello,
        WORDS,
        WORDS,
        NUMBERS,
        WORDS,
        WORDS,
        INSTANTS,
        INSTANTS,
        WORDS,
        st.lists(OPENS, max_size=2).map(tuple),
        st.lists(ARRIVALS, max_size=2).map(tuple),
    ),
    st.builds(m.Applied, KEYS, WORDS, INSTANTS),
    st.builds(m.Close, WORDS, NUMBERS, WORDS),
    st.builds(m.ProbeReply, KEYS, NUMBERS, INSTANTS),
    st.builds(
        m.Pong,
        NUMBERS,
        INSTANTS,
        INSTANTS,
        st.booleans(),
        SPANS,
        st.lists(st.builds(m.Gap, INSTANTS, INSTANTS, WORDS), max_size=2).map(tuple),
    ),
    st.builds(m.Stalled, KEYS, INSTANTS, st.sampled_from(m.StallCause)),
    st.builds(m.Release, WORDS, NUMBERS, INSTANTS),
)
CLOCK_MESSAGES = st.one_of(
    st.builds(m.Welcome, WORDS, WORDS, st.builds(m.Policy, WORDS, SPANS, SPANS, SPANS, SPANS, SPANS)),
    st.builds(m.Ping, NUMBERS, INSTANTS),
    st.builds(m.Armed, KEYS, INSTANTS, SPANS, SPANS, SPANS),
    st.builds(m.Verdict, KEYS, WORDS, SPANS, SPANS, SPANS, SPANS, SPANS),
    st.builds(m.Probe, KEYS, NUMBERS, INSTANTS),
    st.builds(m.Timeout, KEYS, SEATS, INSTANTS, st.sampled_from(m.Proof), INSTANTS, WORDS, INSTANTS, SPANS),
    st.builds(m.Void, WORDS, NUMBERS, WORDS, WORDS, WORDS),
    st.builds(m.Stale, WORDS, NUMBERS, NUMBERS),
    st.builds(m.Mismatch, KEYS, WORDS, WORDS, WORDS),
    st.builds(m.Drain, SPANS),
)


@given(st.lists(ENGINE_MESSAGES, max_size=5))
def test_what_an_engine_says_arrives_unchanged_and_in_order(messages: list[m.EngineMessage]) -> None:
    sent = wire.request_to_pb(messages).SerializeToString()
    assert wire.request_from_pb(pb.GovernRequest.FromString(sent)) == messages


@given(st.lists(CLOCK_MESSAGES, max_size=5))
def test_what_the_clock_says_arrives_unchanged_and_in_order(messages: list[m.ClockMessage]) -> None:
    sent = wire.response_to_pb(messages).SerializeToString()
    assert wire.response_from_pb(pb.GovernResponse.FromString(sent)) == messages


def test_every_kind_of_message_has_its_place_on_the_wire() -> None:
    assert len(pb.EngineMessage.DESCRIPTOR.fields) == len(typing.get_args(m.EngineMessage))
    assert len(pb.ClockMessage.DESCRIPTOR.fields) == len(typing.get_args(m.ClockMessage))


KEY = pb.Key(match_id="m", fence=1, decision_no=1)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (pb.EngineMessage(), "content"),
        (pb.EngineMessage(applied=pb.Applied(command_id="c")), "key"),
        (pb.EngineMessage(open=pb.Open(key=KEY, seat="north")), "open.cause"),
        (pb.EngineMessage(open=pb.Open(key=KEY, cause=pb.OPEN_CAUSE_NEW, seat="east")), "seat"),
        (
            pb.EngineMessage(open=pb.Open(key=KEY, cause=pb.OPEN_CAUSE_NEW, seat="north", bank_ns=-1)),
            "open.bank_ns",
        ),
        (pb.EngineMessage(arrival=pb.Arrival(key=KEY, command_id="c")), "arrival.effect"),
        (pb.EngineMessage(arrival=pb.Arrival(key=KEY, effect=pb.EFFECT_ENDS)), "arrival.command_id"),
        (pb.EngineMessage(hello=pb.Hello(engine_id="e")), "hello"),
        (pb.EngineMessage(close=pb.Close(match_id="m")), "fence"),
        (pb.EngineMessage(stalled=pb.Stalled(key=KEY)), "stalled.cause"),
    ],
)
def test_nonsense_is_refused_by_the_name_of_its_field(message: pb.EngineMessage, field: str) -> None:
    with pytest.raises(wire.MalformedClockMessageError, match=field):
        wire.request_from_pb(pb.GovernRequest(messages=[message]))
