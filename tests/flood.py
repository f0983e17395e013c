"""`python -m tests.flood ADDRESS TOKEN MATCH_ID DECISION_ID`: one client that sends illegal commands as fast as it can.

It logs `flooding` with its first message and `flooded` with its figures at the end of the match. Nothing is encoded twice
and answers are only counted, so one process can send more than one game process reads.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections.abc import Iterator

import grpc

from client.wire import command_to_pb
from engine.command import Play
from engine.seats import NORTH
from engine.tiles import Tile
from spectacularbid.match.v1 import match_service_pb2 as pb

METHOD = "/spectacularbid.match.v1.MatchService/Play"


def say(event: str, **figures: float) -> None:
    """One log line."""
    print(json.dumps({"event": event, **figures}), flush=True)


def main(address: str, token: str, match_id: str, decision_id: int) -> None:
    """Floods until the match is over."""
    # Clients have machines of their own: what this costs here must not be taken from the services.
    os.nice(19)
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
        play: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(METHOD)
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


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
