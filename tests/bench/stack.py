"""Players through grpc.aio who answer each question as soon as it comes: for benchmarks of something else than speed.

How fast the whole path is, `tests.bench.path` measures, with players that cost less.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import grpc

from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import match_service_pb2_grpc, table_pb2
from tests.stack import Stack


@dataclass
class Tally:
    """What the players saw."""

    counting: bool = False
    latencies: list[float] = field(default_factory=list)
    refused: int = 0


def answer(prompt: table_pb2.Prompt) -> pb.Command | None:
    """The first legal command, None when nothing is asked of this player."""
    legal = prompt.legal
    if legal.plays:
        play = legal.plays[0]
        return pb.Command(play=pb.PlaceTile(tile=play.tile, end=play.end if play.HasField("end") else None))
    if legal.draw:
        return pb.Command(draw=pb.Draw())
    if legal.pass_turn:
        return pb.Command(pass_turn=pb.Pass())
    if legal.decline:
        return pb.Command(decline=pb.Decline())
    if legal.accept:
        return pb.Command(accept=pb.Accept())
    if legal.start:
        return pb.Command(start=pb.Start())
    if legal.continue_round:
        return pb.Command(continue_round=pb.Continue())
    return None


Pace = Callable[[], Awaitable[None]]


async def play(
    stub: match_service_pb2_grpc.MatchServiceStub,
    token: str,
    match_id: str,
    tally: Tally,
    pace: Pace | None = None,
) -> None:
    """Plays one seat to the end of the match; each command waits for its turn in `pace`."""
    outbox: asyncio.Queue[pb.PlayRequest] = asyncio.Queue()
    sent: dict[str, float] = {}
    answered = 0

    async def requests() -> AsyncIterator[pb.PlayRequest]:
        yield pb.PlayRequest(join=pb.WatchRequest(match_id=match_id))
        while True:
            yield await outbox.get()

    call = stub.Play(requests(), metadata=(("authorization", f"Bearer {token}"),))
    async for response in call:
        now = time.perf_counter()
        for done in response.answers:
            began = sent.pop(done.request_id)
            if done.HasField("refused"):
                tally.refused += 1
            elif tally.counting:
                tally.latencies.append(now - began)
        news = response.news
        prompt = news.snapshot.table.prompt if news.HasField("snapshot") else news.prompt
        command = answer(prompt) if prompt.decision_id > answered else None
        if command is not None:
            answered = prompt.decision_id
            if pace is not None:
                await pace()
            request_id = uuid.uuid4().hex
            sent[request_id] = time.perf_counter()
            submit = pb.SubmitRequest(request_id=request_id, decision_id=prompt.decision_id, command=command)
            outbox.put_nowait(pb.PlayRequest(submit=submit))


async def keep_playing(made: Stack, number: int | str, tally: Tally, pace: Pace | None = None) -> None:
    """Two players who play match after match."""
    north, south = f"bench-{number}-north", f"bench-{number}-south"
    tokens = {name: made.token(name) for name in (north, south)}
    async with grpc.aio.insecure_channel(
        made.address("game"), options=[("grpc.use_local_subchannel_pool", 1)]
    ) as channel:
        stub = match_service_pb2_grpc.MatchServiceStub(channel)
        while True:
            request = pb.CreateMatchRequest(request_id=uuid.uuid4().hex, player_id=south)
            created = await stub.CreateMatch(
                request, metadata=(("authorization", f"Bearer {tokens[north]}"),)
            )
            await asyncio.gather(
                *(play(stub, tokens[name], created.match_id, tally, pace) for name in (north, south))
            )


async def known_players(made: Stack, matches: int) -> None:
    """Players must exist before they can be invited; earlier matches of theirs are over."""
    database = await made.database()
    await database.execute("truncate player cascade")
    names = [f"bench-{number}-{seat}" for number in range(matches) for seat in ("north", "south")]
    await database.executemany(
        "insert into player (player_id, name) values ($1, $1)", [(name,) for name in names]
    )
