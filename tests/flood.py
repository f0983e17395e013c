"""`python -m tests.flood WHAT ADDRESS TOKEN MATCH_ID DECISION_ID`: one client that asks as fast as it can.

WHAT is `commands`, illegal ones on a stream, or `records`, calls for the record of a match that is being played. It logs
`flooding` with its first message and `flooded` with its figures at the end of the match. Nothing is encoded twice and
answers are only counted, so one process can send more than one game process reads.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import uuid
from collections.abc import Iterator

import grpc

from client.wire import command_to_pb
from engine.command import Play
from engine.seats import NORTH
from engine.tiles import Tile
from spectacularbid.match.v1 import match_service_pb2 as pb

SERVICE = "/spectacularbid.match.v1.MatchService"
CALLS_AT_ONCE = 900


def say(event: str, **figures: float) -> None:
    """One log line."""
    print(json.dumps({"event": event, **figures}), flush=True)


def commands(address: str, token: str, match_id: str, decision_id: int) -> None:
    """Floods until the match is over."""
    join = pb.PlayRequest(join=pb.WatchRequest(match_id=match_id)).SerializeToString()
    command = command_to_pb(Play(NORTH, Tile.parse("1|2"), None))
    submit = pb.PlayRequest(
        submit=pb.SubmitRequest(
            match_id=match_id, request_id=str(uuid.uuid4()), decision_id=decision_id, command=command
        )
    ).SerializeToString()
    sent = answered = streams = 0
    over = False

    def requests() -> Iterator[bytes]:
        nonlocal sent
        yield join
        while not over:
            sent += 1
            yield submit

    with grpc.insecure_channel(address) as channel:
        play: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(f"{SERVICE}/Play")
        say("flooding")
        began = time.monotonic()
        while not over:
            streams += 1
            try:
                for raw in play(requests(), metadata=(("authorization", f"Bearer {token}"),)):
                    message = pb.PlayResponse.FromString(raw)
                    answered += len(message.answers)
                    news = message.news
                    over = over or any(event.HasField("match_ended") for event in news.events)
                    over = over or news.snapshot.table.HasField("outcome")
            except grpc.RpcError as error:
                over = over or error.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.CANCELLED)
        say("flooded", sent=sent, answered=answered, streams=streams, seconds=time.monotonic() - began)


def records(address: str, token: str, match_id: str) -> None:
    """Floods until the match is over."""
    request = pb.GetRecordRequest(match_id=match_id).SerializeToString()
    sent = answered = 0
    over = threading.Event()
    places = threading.Semaphore(CALLS_AT_ONCE)

    def done(call: grpc.Future[bytes]) -> None:
        nonlocal answered
        places.release()
        error = call.exception()
        if error is None:
            over.set()
        elif isinstance(error, grpc.RpcError) and error.code() is grpc.StatusCode.FAILED_PRECONDITION:
            answered += 1

    with grpc.insecure_channel(address) as channel:
        ask: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"{SERVICE}/GetRecord")
        say("flooding")
        began = time.monotonic()
        while not over.is_set():
            if places.acquire(timeout=0.1):
                sent += 1
                ask.future(request, metadata=(("authorization", f"Bearer {token}"),)).add_done_callback(done)
        say("flooded", sent=sent, answered=answered, streams=0, seconds=time.monotonic() - began)


if __name__ == "__main__":
    # Clients have machines of their own: what this costs here must not be taken from the services.
    os.nice(19)
    what, to, by, about, question = sys.argv[1:]
    if what == "commands":
        commands(to, by, about, int(question))
    else:
        records(to, by, about)
