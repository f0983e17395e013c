"""`python -m tests.bench.honest ORDER`: honest players, who seek, play at the pace of people, and seek again.

ORDER is a file (JSON) with addresses and players. Everything that a player notices is one line of the log: `took` with
how long a command, a question to the ladder or a seek took, and when; `playing` when a seat has begun; `broken` when a
stream or call failed that should not have. Each player has an address of its own, as a gateway would tell it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import sys
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import grpc

from spectacularbid.ladder.v1 import ladder_service_pb2, ladder_service_pb2_grpc
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import match_service_pb2_grpc
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as mm
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2_grpc
from tests.bench.stack import answer

THINKING: Final = (0.5, 1.5)
"""Seconds a player takes for a command."""
ASK_SECONDS: Final = 0.1
"""How often the ladder is asked by the players of a process, who take turns."""
AGAIN_SECONDS: Final = 0.5
OPTIONS: Final = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 200)]


def say(event: str, **values: object) -> None:
    """One log line."""
    print(json.dumps({"event": event, **values}), flush=True)


def broken(what: str, error: BaseException) -> None:
    """Something failed that should not have."""
    code, details = type(error).__name__, ""
    if isinstance(error, grpc.aio.AioRpcError):
        code, details = error.code().name, error.details() or ""
    say("broken", what=what, at=time.monotonic(), code=code, details=details)


def took(what: str, began: float) -> None:
    """Something was answered."""
    now = time.monotonic()
    say("took", what=what, at=now, seconds=now - began)


class Person:
    """One player on the network."""

    def __init__(self, player: dict[str, str], order: dict[str, Any], channel: grpc.aio.Channel) -> None:
        self.player_id = player["player_id"]
        self.metadata = (
            ("authorization", f"Bearer {player['token']}"),
            ("x-forwarded-for", player["address"]),
        )
        self._rng = random.Random(self.player_id)
        self._game: str = order["game"]
        self.seeks: Any = matchmaking_service_pb2_grpc.MatchmakingServiceStub(channel)
        self.ladder: Any = ladder_service_pb2_grpc.LadderServiceStub(channel)

    async def seek(self, pool: mm.Pool.ValueType = mm.POOL_RATED) -> mm.Matched:
        """A match, however often it must be asked for."""
        while True:
            request = mm.SeekRequest(request_id=str(uuid.uuid4()), pool=pool)
            try:
                async for news in self.seeks.Seek(request, metadata=self.metadata):
                    if news.HasField("matched"):
                        matched: mm.Matched = news.matched
                        return matched
            except grpc.aio.AioRpcError as error:
                broken("seek", error)
            await asyncio.sleep(AGAIN_SECONDS)

    async def play_for_ever(self) -> None:
        """Match after match."""
        async with grpc.aio.insecure_channel(self._game, options=OPTIONS) as channel:
            stub: Any = match_service_pb2_grpc.MatchServiceStub(channel)
            while True:
                matched = await self.seek()
                over = False
                while not over:
                    try:
                        over = await self._sit(stub, matched.match_id)
                    except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
                        broken("play", error)
                        await asyncio.sleep(AGAIN_SECONDS)

    async def _sit(self, stub: Any, match_id: str) -> bool:
        """One Play stream, to its end; whether the match is over."""
        call = stub.Play(metadata=self.metadata)
        sent: dict[str, float] = {}
        answered = 0
        thinking: asyncio.Task[None] | None = None

        async def think(prompt: Any, command: pb.Command) -> None:
            await asyncio.sleep(self._rng.uniform(*THINKING))
            request_id = str(uuid.uuid4())
            submit = pb.SubmitRequest(request_id=request_id, decision_id=prompt.decision_id, command=command)
            sent[request_id] = time.monotonic()
            await call.write(pb.PlayRequest(submit=submit))

        try:
            await call.write(pb.PlayRequest(join=pb.WatchRequest(match_id=match_id)))
            while isinstance(message := await call.read(), pb.PlayResponse):
                for done in message.answers:
                    took("refused" if done.HasField("refused") else "command", sent.pop(done.request_id))
                news = message.news
                if news.snapshot.table.HasField("outcome") or any(
                    event.HasField("match_ended") for event in news.events
                ):
                    return True
                prompt = news.snapshot.table.prompt if news.HasField("snapshot") else news.prompt
                command = answer(prompt) if prompt.decision_id > answered else None
                if command is not None:
                    if not answered:
                        say("playing", player_id=self.player_id, match_id=match_id)
                    answered = prompt.decision_id
                    thinking = asyncio.create_task(think(prompt, command))
            return False
        finally:
            if thinking is not None:
                thinking.cancel()
                with suppress(asyncio.CancelledError, grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    await thinking
            call.cancel()

    async def look_at_ladder(self) -> None:
        """Two questions, one after the other."""
        for request, ask in (
            (ladder_service_pb2.GetPlayerRequest(), self.ladder.GetPlayer),
            (ladder_service_pb2.GetLeaderboardRequest(page_size=20), self.ladder.GetLeaderboard),
        ):
            began = time.monotonic()
            try:
                await ask(request, metadata=self.metadata, timeout=20)
            except grpc.aio.AioRpcError as error:
                broken("ladder", error)
            else:
                took("ladder", began)
            await asyncio.sleep(ASK_SECONDS)


async def ask_for_ever(persons: Sequence[Person]) -> None:
    """Somebody looks at the ladder all the time."""
    for person in itertools.cycle(persons):
        await person.look_at_ladder()


async def pair_for_ever(persons: Sequence[Person], game: str) -> None:
    """Two who are matched with each other, one of whom resigns, and who seek again: what a seek takes."""
    async with grpc.aio.insecure_channel(game, options=OPTIONS) as channel:
        stub: Any = match_service_pb2_grpc.MatchServiceStub(channel)
        ids = {person.player_id for person in persons}
        while True:
            began = time.monotonic()
            found = await asyncio.gather(*(_partner(person, ids) for person in persons))
            took("seek", began)
            for person in persons:
                await _until_started(stub, person, found[0])
            await _resign(stub, persons[0], found[0])


async def _partner(person: Person, ids: set[str]) -> str:
    while True:
        matched = await person.seek(mm.POOL_CASUAL)  # where only these two are
        if matched.opponent.player_id in ids:
            return matched.match_id
        say("stolen", at=time.monotonic(), player_id=person.player_id, match_id=matched.match_id)
        await asyncio.sleep(AGAIN_SECONDS)


async def _until_started(stub: Any, person: Person, match_id: str) -> None:
    while True:
        try:
            shown = await stub.GetMatch(pb.GetMatchRequest(match_id=match_id), metadata=person.metadata)
            prompt = shown.snapshot.table.prompt
            if not prompt.legal.start:
                return
            await _submit(stub, person, match_id, prompt.decision_id, pb.Command(start=pb.Start()))
        except grpc.aio.AioRpcError as error:
            broken("start", error)
            await asyncio.sleep(AGAIN_SECONDS)


async def _resign(stub: Any, person: Person, match_id: str) -> None:
    while True:
        try:
            await _submit(stub, person, match_id, 0, pb.Command(resign=pb.Resign()))
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                return  # it is over
            broken("resign", error)
            await asyncio.sleep(AGAIN_SECONDS)
        else:
            return


async def _submit(stub: Any, person: Person, match_id: str, decision_id: int, command: pb.Command) -> None:
    request = pb.SubmitRequest(
        match_id=match_id, request_id=str(uuid.uuid4()), decision_id=decision_id, command=command
    )
    await stub.Submit(request, metadata=person.metadata, timeout=20)


async def main(order: dict[str, Any]) -> None:
    """Until the process is told to end."""
    async with grpc.aio.insecure_channel(order["matchmaking"], options=OPTIONS) as channel:
        persons = [Person(player, order, channel) for player in order["players"]]
        async with asyncio.TaskGroup() as group:
            if order["pair"]:
                group.create_task(pair_for_ever(persons, order["game"]))
                return
            group.create_task(ask_for_ever(persons))
            for person in persons:
                group.create_task(person.play_for_ever())


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text("utf-8"))))
