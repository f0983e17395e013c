"""A match stream loses nothing and repeats nothing, whatever the connection does; a command has one request id."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator

import grpc
import pytest

from client import CallError, Client, MatchStream, Refused, Transport, UnreachableError
from client.bots import greedy
from client.connection import Backoff, Connections, persist
from client.errors import call_error
from engine.command import Accept, Start
from engine.refusal import Refusal
from engine.seats import NORTH
from services.common.errors import ServiceError, try_again
from services.game.story import HISTORY_MAX, Audience, Story
from services.wire.commands import refusal_error
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.client.scripted import HangUp, Script, Scripted, serving
from tests.client.tables import carry_out, new_story, news, told
from tests.told import events_of, snapshot_of

MATCH_ID = "3f1f7a3e-96a5-4e9e-9f0d-5bb24c2f9a10"
both_transports = pytest.mark.parametrize("transport", list(Transport))


def whole_story(seed: int) -> Story | None:
    """A finished match of two greedy bots; None when it gets too long for the service to keep all of it."""
    story, rng = new_story(), random.Random(seed)
    tables = {audience: told(None, news(story, audience, 0)) for audience in (Audience.NORTH, Audience.SOUTH)}
    while not story.over:
        asking = next(audience for audience in tables if tables[audience].asks_me)
        command = greedy.choose(tables[asking])
        assert command is not None
        carry_out(story, command, rng)
        if story.sequence >= HISTORY_MAX:
            return None
        tables = {
            audience: told(table, news(story, audience, table.sequence)) for audience, table in tables.items()
        }
    return story


STORY = next(story for seed in itertools.count() if (story := whole_story(seed)) is not None)
EVENTS = events_of(STORY, Audience.NORTH, 0)
FIRST = snapshot_of(new_story(), Audience.NORTH)
LAST = STORY.sequence


def snapshot() -> pb.WatchResponse:
    """The table before the first event."""
    return pb.WatchResponse(snapshot=FIRST)


def events(first: int, last: int) -> pb.WatchResponse:
    """Some events, by number."""
    return pb.WatchResponse(events=EVENTS[first - 1 : last])


def says(*messages: pb.WatchResponse, then: HangUp | str = "end") -> Script:
    """A stream that says this, and then ends, breaks, or is silent for ever."""

    async def script(request: pb.WatchRequest) -> AsyncIterator[pb.WatchResponse]:
        for message in messages:
            yield message
        if isinstance(then, HangUp):
            raise then
        if then == "silence":
            await asyncio.Event().wait()

    return script


def tells(to: int, then: HangUp | str = "end") -> Script:
    """A stream that goes on after whatever the reader has: what is under way when a stream breaks may be lost."""

    async def script(request: pb.WatchRequest) -> AsyncIterator[pb.WatchResponse]:
        first = [] if request.resume_after else [snapshot()]
        async for message in says(*first, events(request.resume_after + 1, to), then=then)(request):
            yield message

    return script


async def follow(
    servicer: Scripted, transport: Transport, *, heartbeat_seconds_max: float = 15.0
) -> tuple[MatchStream, list[int]]:
    """Follow to the end; the numbers of all events told."""
    heard: list[int] = []
    async with serving(servicer) as address:
        connections = Connections("a token")
        try:
            stream = MatchStream(
                connections,
                MATCH_ID,
                address,
                transport=transport,
                heartbeat_seconds_max=heartbeat_seconds_max,
            )
            async with stream as match:
                async for each in match:
                    heard += [event.sequence for event in each.events]
        finally:
            await connections.close()
    return stream, heard


@both_transports
async def test_every_event_is_told_once_however_often_the_stream_breaks(transport: Transport) -> None:
    cuts = [1, 2, 10, 50, LAST - 1]
    servicer = Scripted(*(tells(cut, then=HangUp()) for cut in cuts), tells(LAST))
    stream, heard = await follow(servicer, transport)
    assert heard == list(range(1, LAST + 1))
    resumed = [join.resume_after for join in servicer.joins]
    assert resumed == sorted(resumed)
    assert all(after <= cut for after, cut in zip(resumed, [0, *cuts], strict=True))
    assert stream.reattached == len(cuts)
    assert stream.table == told(told(None, snapshot()), events(1, LAST))
    assert servicer.tokens == {"Bearer a token"}


@both_transports
async def test_what_comes_twice_is_told_once(transport: Transport) -> None:
    servicer = Scripted(says(snapshot(), events(1, 5), events(3, 9), events(9, LAST)))
    _, heard = await follow(servicer, transport)
    assert heard == list(range(1, LAST + 1))


@both_transports
async def test_a_gap_is_never_told_but_asked_for_again(transport: Transport) -> None:
    servicer = Scripted(says(snapshot(), events(1, 5), events(7, 9), then="silence"), says(events(6, LAST)))
    _, heard = await follow(servicer, transport)
    assert heard == list(range(1, LAST + 1))
    assert [join.resume_after for join in servicer.joins] == [0, 5]


@both_transports
async def test_a_stream_that_ends_before_the_match_is_attached_again(transport: Transport) -> None:
    servicer = Scripted(tells(3), tells(LAST))
    _, heard = await follow(servicer, transport)
    assert heard == list(range(1, LAST + 1))


@both_transports
async def test_silence_is_noticed_and_met_with_a_new_connection(transport: Transport) -> None:
    """FC-30: no heartbeat means dead, and the dead connection is not used again."""
    servicer = Scripted(says(snapshot(), events(1, 3), then="silence"), says(events(4, LAST)))
    began = time.monotonic()
    _, heard = await follow(servicer, transport, heartbeat_seconds_max=0.5)
    assert heard == list(range(1, LAST + 1))
    assert 0.5 <= time.monotonic() - began < 5
    assert servicer.peers[0] != servicer.peers[1]


async def test_heartbeats_keep_a_quiet_stream() -> None:
    async def quiet(request: pb.WatchRequest) -> AsyncIterator[pb.WatchResponse]:
        yield snapshot()
        for _ in range(5):
            await asyncio.sleep(0.2)
            yield pb.WatchResponse(heartbeat=pb.Heartbeat())
        yield events(1, LAST)

    stream, heard = await follow(Scripted(quiet), Transport.WATCH, heartbeat_seconds_max=0.8)
    assert heard == list(range(1, LAST + 1))
    assert stream.reattached == 0


@both_transports
async def test_reconnect_leads_to_the_address_it_names(transport: Transport) -> None:
    second = Scripted(says(events(4, LAST)))
    async with serving(second) as elsewhere:
        moved = pb.WatchResponse(reconnect=pb.Reconnect(address=elsewhere))
        _, heard = await follow(Scripted(says(snapshot(), events(1, 3), moved)), transport)
    assert heard == list(range(1, LAST + 1))
    assert [join.resume_after for join in second.joins] == [3]


@both_transports
async def test_a_snapshot_after_a_long_absence_takes_the_place_of_the_events(transport: Transport) -> None:
    late = pb.WatchResponse(snapshot=snapshot_of(STORY, Audience.NORTH))
    stream, heard = await follow(Scripted(says(snapshot(), events(1, 3)), says(late)), transport)
    assert heard == [1, 2, 3]
    assert stream.table.sequence == LAST
    assert stream.table.outcome is not None


async def test_a_service_that_is_behind_is_not_believed() -> None:
    """A process with an older log must not take the table back."""
    servicer = Scripted(
        says(snapshot(), events(1, 9), then=HangUp()), says(snapshot()), says(events(10, LAST))
    )
    _, heard = await follow(servicer, Transport.WATCH)
    assert heard == list(range(1, LAST + 1))


@both_transports
async def test_what_the_service_forbids_is_raised_and_not_repeated(transport: Transport) -> None:
    servicer = Scripted(says(then=HangUp(grpc.StatusCode.NOT_FOUND)), says(snapshot()))
    with pytest.raises(CallError) as raised:
        await follow(servicer, transport)
    assert raised.value.code is grpc.StatusCode.NOT_FOUND
    assert len(servicer.joins) == 1


async def test_a_service_that_is_gone_for_good_is_unreachable() -> None:
    # Nothing listens on a port that was just given back.
    async with serving(Scripted()) as address:
        pass
    connections = Connections("a token")
    try:
        async with MatchStream(connections, MATCH_ID, address, patience_seconds=0.5) as match:
            with pytest.raises(UnreachableError):
                await anext(match)
    finally:
        await connections.close()


# Commands


class Commanding:
    """A match that waits for Start, with a service that answers commands as told."""

    def __init__(self, servicer: Scripted, transport: Transport) -> None:
        self.servicer = servicer
        self.transport = transport

    async def submit(self, times: int = 1) -> list[tuple[int, int]]:
        async with (
            serving(self.servicer) as address,
            Client(address, "a token") as client,
            client.play(MATCH_ID, transport=self.transport) as match,
        ):
            await anext(match)
            answers = []
            for _ in range(times):
                applied = await match.submit(Start(NORTH))
                answers.append((applied.first_sequence, applied.last_sequence))
            return answers


@both_transports
async def test_a_command_is_answered_and_names_its_decision(transport: Transport) -> None:
    async def answer(request: pb.SubmitRequest) -> pb.Applied:
        return pb.Applied(first_sequence=1, last_sequence=1)

    servicer = Scripted(says(snapshot(), then="silence"), answer=answer)
    assert await Commanding(servicer, transport).submit(times=2) == [(1, 1), (1, 1)]
    assert [submit.decision_id for submit in servicer.submits] == [1, 1]
    assert {submit.command.WhichOneof("action") for submit in servicer.submits} == {"start"}
    assert len({submit.request_id for submit in servicer.submits}) == 2


@both_transports
async def test_unavailable_is_repeated_with_the_same_id_and_not_before_it_is_time(
    transport: Transport,
) -> None:
    times: list[float] = []

    async def answer(request: pb.SubmitRequest) -> pb.Applied:
        times.append(time.monotonic())
        if len(times) < 3:
            raise try_again("not now", after_seconds=0.3)
        return pb.Applied(first_sequence=1, last_sequence=2)

    servicer = Scripted(says(snapshot(), then="silence"), answer=answer)
    assert await Commanding(servicer, transport).submit() == [(1, 2)]
    assert len({submit.request_id for submit in servicer.submits}) == 1
    assert len(times) == 3
    assert all(later - earlier >= 0.3 for earlier, later in itertools.pairwise(times))


@both_transports
async def test_a_refusal_is_the_same_whichever_way_it_comes(transport: Transport) -> None:
    async def answer(request: pb.SubmitRequest) -> pb.Applied:
        raise refusal_error(Refusal.BID_STANDS)

    servicer = Scripted(says(snapshot(), then="silence"), answer=answer)
    with pytest.raises(Refused) as raised:
        await Commanding(servicer, transport).submit()
    assert (raised.value.reason, raised.value.rule) == ("BID_STANDS", "5.3")
    assert raised.value.code is grpc.StatusCode.FAILED_PRECONDITION
    assert len(servicer.submits) == 1


@both_transports
async def test_what_the_service_cannot_do_is_no_refusal(transport: Transport) -> None:
    async def answer(request: pb.SubmitRequest) -> pb.Applied:
        raise ServiceError(grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_ID_REUSED", "another payload")

    servicer = Scripted(says(snapshot(), then="silence"), answer=answer)
    with pytest.raises(CallError) as raised:
        await Commanding(servicer, transport).submit()
    assert raised.value.reason == "REQUEST_ID_REUSED"
    assert not isinstance(raised.value, Refused)


async def test_a_command_whose_answer_was_lost_goes_out_again_under_its_id() -> None:
    """FC-28: the stream breaks after the command was read and before its answer."""

    async def answer(request: pb.SubmitRequest) -> pb.Applied:
        if len(servicer.submits) == 1:
            raise HangUp
        return pb.Applied(first_sequence=1, last_sequence=1)

    servicer = Scripted(says(snapshot(), then="silence"), says(events(1, 1), then="silence"), answer=answer)
    assert await Commanding(servicer, Transport.PLAY).submit() == [(1, 1)]
    assert len(servicer.submits) == 2
    assert len({submit.request_id for submit in servicer.submits}) == 1


async def test_a_command_still_unanswered_at_the_end_of_the_stream_is_asked_for_by_a_call() -> None:
    ended = asyncio.Event()

    async def answer(request: pb.SubmitRequest) -> pb.Applied | None:
        if not ended.is_set():
            ended.set()
            return None
        return pb.Applied(first_sequence=LAST, last_sequence=LAST)

    async def script(request: pb.WatchRequest) -> AsyncIterator[pb.WatchResponse]:
        yield snapshot()
        await ended.wait()
        yield events(1, LAST)

    servicer = Scripted(script, answer=answer)
    assert await Commanding(servicer, Transport.PLAY).submit() == [(LAST, LAST)]
    assert len({submit.request_id for submit in servicer.submits}) == 1


async def test_a_question_is_asked_once_until_it_changes() -> None:
    async def answer(request: pb.SubmitRequest) -> pb.Applied:
        pressed.set()
        return pb.Applied(first_sequence=1, last_sequence=1)

    pressed = asyncio.Event()

    async def script(request: pb.WatchRequest) -> AsyncIterator[pb.WatchResponse]:
        yield snapshot()
        await pressed.wait()
        # The same prompt once more, as after a credit of time, and then the rest.
        yield pb.WatchResponse(prompt=FIRST.table.prompt)
        yield events(1, LAST)

    asked = []
    async with (
        serving(Scripted(script, answer=answer)) as address,
        Client(address, "a token") as client,
        client.play(MATCH_ID) as match,
    ):
        async for table in match.questions():
            asked.append(table.prompt.decision_id)
            await match.submit(Start(NORTH))
    assert asked == [1]


# The small print


async def test_a_call_is_not_repeated_for_longer_than_wanted() -> None:
    async def fail() -> None:
        raise call_error(grpc.StatusCode.UNAVAILABLE, "TRY_AGAIN", "never", retry_after_seconds=0.05)

    began = time.monotonic()
    with pytest.raises(UnreachableError):
        await persist(fail, patience_seconds=0.4)
    assert time.monotonic() - began < 1


def test_pauses_grow_stay_below_the_longest_and_never_below_what_is_asked() -> None:
    backoff = Backoff(0.1, 2.0)
    pauses = [backoff.next_seconds() for _ in range(40)]
    assert all(0.05 <= pause <= 2.0 for pause in pauses)
    assert min(pauses[10:]) >= 1.0
    assert all(backoff.next_seconds(3.0) >= 3.0 for _ in range(20))
    backoff.reset()
    assert backoff.next_seconds() <= 0.1


@pytest.mark.parametrize(
    ("code", "reason", "retry_after", "retryable"),
    [
        (grpc.StatusCode.UNAVAILABLE, "", None, True),
        (grpc.StatusCode.UNAVAILABLE, "TRY_AGAIN", 0.5, True),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_REACHED", 1.0, True),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "", None, False),
        # A connection that breaks looks like this; a service that says so gives a reason.
        (grpc.StatusCode.CANCELLED, "", None, True),
        (grpc.StatusCode.CANCELLED, "SEEK_CANCELLED", None, False),
        (grpc.StatusCode.INTERNAL, "", None, True),
        (grpc.StatusCode.INTERNAL, "INTERNAL", None, False),
        (grpc.StatusCode.ABORTED, "STALE_DECISION", None, False),
        (grpc.StatusCode.FAILED_PRECONDITION, "NOT_YOUR_TURN", None, False),
        (grpc.StatusCode.UNAUTHENTICATED, "TOKEN_EXPIRED", None, False),
    ],
)
def test_what_may_be_sent_again(
    code: grpc.StatusCode, reason: str, retry_after: float | None, retryable: bool
) -> None:
    assert call_error(code, reason, "", retry_after_seconds=retry_after).retryable is retryable


def test_the_table_is_not_there_before_it_was_told() -> None:
    stream = MatchStream(Connections(None), MATCH_ID, "127.0.0.1:1")
    with pytest.raises(LookupError):
        _ = stream.table


async def test_a_command_before_any_news_needs_its_decision_named() -> None:
    async with Client("127.0.0.1:1", "a token") as client, client.play(MATCH_ID) as match:
        with pytest.raises(LookupError):
            await match.submit(Accept(NORTH))


@both_transports
async def test_a_stream_says_whether_it_stands(transport: Transport) -> None:
    """A screen tells its player at once that the connection is gone, and not only after a long silence."""
    cut, attached_again, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def breaks(request: pb.WatchRequest) -> AsyncIterator[pb.WatchResponse]:
        yield snapshot()
        await cut.wait()
        raise HangUp

    async def returns(request: pb.WatchRequest) -> AsyncIterator[pb.WatchResponse]:
        attached_again.set()
        await go_on.wait()
        yield events(1, LAST)

    async with serving(Scripted(breaks, returns)) as address:
        connections = Connections("a token")
        async with MatchStream(connections, MATCH_ID, address, transport=transport) as match:
            stands = [match.attached]
            await anext(match)
            stands.append(match.attached)
            heard = match.heard
            cut.set()
            await attached_again.wait()
            stands.append(match.attached)
            assert match.heard == heard
            go_on.set()
            await anext(match)
            assert match.heard > heard
        await connections.close()
    assert stands == [False, True, False]
