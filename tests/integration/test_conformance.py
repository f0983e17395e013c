"""The conformance script: a stack that keeps its promises passes every check, one that breaks a promise fails the one
that looks at it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
import pytest_asyncio

from client.conformance.bench import Bench
from client.conformance.catalogue import catalogue, chosen
from client.conformance.check import Verdict, run_checks
from client.conformance.refusals import UNREACHABLE, scenes, status_of
from client.conformance.report import status
from engine.refusal import Refusal
from services.wire.commands import STATUS
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.faultyfront import Fault, Front, faithful, front_door
from tests.processes import SECONDS_MAX
from tests.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_stack_keeps_every_promise(shared: Stack) -> None:
    """As it is run by whoever has a stack: with nothing but an address."""
    command = ("-m", "client.conformance", "--server", shared.address("matchmaking"))
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(6 * SECONDS_MAX):
            told, complained = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = told.decode().splitlines()
    assert lines[-1:] == [f"{len(catalogue())} passed, 0 failed, 0 skipped"], told.decode()
    assert (process.returncode, complained) == (0, b"")


async def test_a_check_for_each_refusal_that_can_be_reached(shared: Stack) -> None:
    """The scenes, with what cannot be reached, are all refusals; the statuses are those of the service."""
    assert {scene.refusal for scene in scenes()} == set(Refusal) - set(UNREACHABLE)
    assert {refusal: status_of(refusal) for refusal in Refusal} == dict(STATUS)
    names = [check.name for check in catalogue()]
    assert len(names) == len(set(names))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def front(shared: Stack) -> AsyncIterator[Front]:
    """A front door before the shared stack; each test sets its fault."""
    async with front_door(shared.address("matchmaking"), shared.address("game")) as made:
        yield made


def repeated_event(method: str, message: bytes) -> Sequence[bytes]:
    """The message with the event of a pass, draw or placement comes twice."""
    if not method.endswith("/Watch"):
        return [message]
    news = pb.WatchResponse.FromString(message)
    twice = any(event.HasField("turn_timed") for event in news.events)
    return [message, pb.WatchResponse(events=news.events).SerializeToString()] if twice else [message]


def lost_event(method: str, message: bytes) -> Sequence[bytes]:
    """The last event of a message with several is lost."""
    if not method.endswith("/Watch"):
        return [message]
    news = pb.WatchResponse.FromString(message)
    if len(news.events) > 1:
        del news.events[-1]
        news.ClearField("prompt")
    return [news.SerializeToString()]


def forgetful() -> Fault:
    """A repeated command is answered as if it were new: the same numbers never come twice."""
    told: set[bytes] = set()

    def fault(method: str, message: bytes) -> Sequence[bytes]:
        if not method.endswith("/Submit"):
            return [message]
        answer = pb.SubmitResponse.FromString(message)
        while answer.SerializeToString() in told:
            answer.applied.first_sequence += 1
            answer.applied.last_sequence += 1
        told.add(answer.SerializeToString())
        return [answer.SerializeToString()]

    return fault


def indiscreet(method: str, message: bytes) -> Sequence[bytes]:
    """Everybody is told which tile was drawn: one that lies elsewhere is named where the tile is left out."""
    if not method.endswith(("/Watch", "/Play")):
        return [message]
    play = method.endswith("/Play")
    whole = pb.PlayResponse.FromString(message) if play else pb.WatchResponse.FromString(message)
    news = whole.news if isinstance(whole, pb.PlayResponse) else whole
    for event in news.events:
        if event.HasField("hand_dealt"):
            held = {(tile.low, tile.high) for tile in event.hand_dealt.hand}
            other = next((low, 6) for low in range(7) if (low, 6) not in held)
            event.hand_dealt.hand.append(table_pb2.Tile(low=other[0], high=other[1]))
    return [whole.SerializeToString()]


def generous(method: str, message: bytes) -> Sequence[bytes]:
    """The clock is shown with ten seconds more than there are."""
    if not method.endswith("/GetMatch"):
        return [message]
    answer = pb.GetMatchResponse.FromString(message)
    answer.snapshot.table.prompt.clock.remaining_ms += 10_000
    return [answer.SerializeToString()]


def oblivious(method: str, message: bytes) -> Sequence[bytes]:
    """No turn is counted for any time."""
    if not method.endswith("/Watch"):
        return [message]
    news = pb.WatchResponse.FromString(message)
    for event in news.events:
        if event.HasField("turn_timed"):
            event.turn_timed.elapsed_ms = event.turn_timed.charge_ms = 0
    return [news.SerializeToString()]


def forger(method: str, message: bytes) -> Sequence[bytes]:
    """The record claims that the other seat won."""
    if not method.endswith("/GetRecord"):
        return [message]
    first, rest = pb.GetRecordResponse.FromString(message).record.split("\n", 1)
    match = json.loads(first)
    match["outcome"]["winner"] = {"north": "south", "south": "north"}[match["outcome"]["winner"]]
    return [pb.GetRecordResponse(record=f"{json.dumps(match)}\n{rest}").SerializeToString()]


Make = Callable[[], Fault]


@pytest.mark.parametrize(
    ("make", "name", "reason"),
    [
        (lambda: repeated_event, "a-watch-resumes-from-any-number", "came after event"),
        (lambda: lost_event, "a-stream-broken-again-and-again-loses-nothing", "came after event"),
        (forgetful, "a-repeated-request-has-its-first-answer", "the repeat got"),
        (lambda: indiscreet, "a-spectator-is-told-the-table", "tells a spectator of"),
        (lambda: generous, "a-clock-that-runs-out-loses", "are shown of"),
        (lambda: oblivious, "a-command-before-the-deadline-counts", "none was counted"),
        (lambda: forger, "a-record-proves-the-match", "the record does not verify"),
    ],
    ids=["repeated", "lost", "forgetful", "indiscreet", "generous", "oblivious", "forger"],
)
async def test_a_broken_promise_is_found(front: Front, make: Make, name: str, reason: str) -> None:
    """Each fault alone makes the check fail that looks at it, and the check says what it found."""
    front.fault = make()
    try:
        async with Bench(front.address) as bench:
            (result,) = await run_checks(chosen([name]), bench)
    finally:
        front.fault = faithful
    assert result.verdict is Verdict.FAILED
    assert reason in result.reason
    assert status([result]) == 1


async def test_errors_without_their_reasons_are_found(front: Front) -> None:
    """A proxy that loses the details of statuses: a program could not branch on anything."""
    front.strips_details = True
    try:
        async with Bench(front.address) as bench:
            (result,) = await run_checks(chosen(["refusal-not-started"]), bench)
    finally:
        front.strips_details = False
    assert result.verdict is Verdict.FAILED
    assert "ErrorInfo" in result.reason


async def test_behind_a_faithful_front_door_the_same_checks_pass(front: Front) -> None:
    """It was the faults, not the door."""
    names = [
        "a-watch-resumes-from-any-number",
        "a-stream-broken-again-and-again-loses-nothing",
        "a-repeated-request-has-its-first-answer",
        "a-spectator-is-told-the-table",
        "a-clock-that-runs-out-loses",
        "a-command-before-the-deadline-counts",
        "a-record-proves-the-match",
        "refusal-not-started",
    ]
    async with Bench(front.address) as bench:
        results = await run_checks(chosen(names), bench)
    assert [(result.check.name, result.verdict, result.reason) for result in results] == [
        (check.name, Verdict.PASSED, "") for check in chosen(names)
    ]
    assert status(results) == 0
