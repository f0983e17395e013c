"""Many live matches at once, each with a log, a state and open streams, for measuring what they cost: not how fast they
are played.

Streams are raw: what comes is read and counted, and looked into only while a match plays its first commands. So the load
costs little beside what is measured.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import grpc

from engine.seats import BySeat
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.bench.stack import answer
from tests.seats import prompt_of
from tests.stack import Player, Stack, time_control

STREAMS_A_CONNECTION: Final = 100
HANDS: Final = 32
"""Matches that are set up at once."""
BANK_MS: Final = 3_600_000
"""Nobody loses on time while others are set up."""
DELAY_MS: Final = 10_000
PATIENCE_SECONDS: Final = 60.0

_PLAY: Final = "/spectacularbid.match.v1.MatchService/Play"
_WATCH: Final = "/spectacularbid.match.v1.MatchService/Watch"


class Budget:
    """The commands that are still to be given in a match, by whoever is asked."""

    def __init__(self, commands: int) -> None:
        self.left = commands
        self.last = ""
        """The request whose answer ends it."""
        self.spent = asyncio.Event()


@dataclass(eq=False)
class Seated:
    """A match and its two players; their streams while they are open."""

    match_id: str
    players: BySeat[Player]
    streams: list[Stream] = field(default_factory=list)


class Stream:
    """One open stream of a player, or of a watcher; read until it is closed."""

    def __init__(
        self,
        connection: grpc.aio.Channel,
        player: Player,
        match_id: str,
        *,
        plays: bool = True,
        budget: Budget | None = None,
    ) -> None:
        self.joined = asyncio.Event()
        self.messages = 0
        """How many came."""
        self.heard: Callable[[], None] | None = None
        """Told of each."""
        self._budget = budget
        self._answered = 0
        self._first: bytes | None = None
        join = pb.WatchRequest(match_id=match_id)
        self._call: Any
        if plays:
            self._call = connection.stream_stream(_PLAY)(metadata=player.metadata)
            self._first = pb.PlayRequest(join=join).SerializeToString()
        else:
            watch: Any = connection.unary_stream(_WATCH)  # the stubs forbid bytes
            self._call = watch(join.SerializeToString(), metadata=player.metadata)
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        if self._first is not None:
            await self._call.write(self._first)
        while (raw := await self._call.read()) is not grpc.aio.EOF:
            self.messages += 1
            self.joined.set()
            if self.heard is not None:
                self.heard()
            if self._budget is not None:
                await self._play(pb.PlayResponse.FromString(raw), self._budget)

    async def _play(self, response: pb.PlayResponse, budget: Budget) -> None:
        if any(done.request_id == budget.last for done in response.answers):
            budget.spent.set()
        prompt = prompt_of(response.news)
        if prompt is None or not budget.left or prompt.decision_id <= self._answered:
            return
        if (command := answer(prompt)) is not None:
            self._answered = prompt.decision_id
            budget.left -= 1
            submit = pb.SubmitRequest(
                request_id=uuid.uuid4().hex, decision_id=prompt.decision_id, command=command
            )
            if not budget.left:
                budget.last = submit.request_id
            await self._call.write(pb.PlayRequest(submit=submit).SerializeToString())

    async def close(self) -> None:
        """Ends it."""
        self._call.cancel()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)


class Crowd:
    """The matches of one game process, and the connections of their players."""

    def __init__(self, made: Stack, exits: AsyncExitStack, *, streams_a_connection: int) -> None:
        self.made = made
        self.matches: list[Seated] = []
        self._exits = exits
        self._each = streams_a_connection
        self._opened = itertools.count()
        self._connection: grpc.aio.Channel | None = None

    async def seat(self, count: int, *, commands: int) -> list[Seated]:
        """So many new matches in which so many commands were given, the two Starts included; no stream is left open."""
        players = await self.made.players(2 * count)
        pairs = [BySeat(*pair) for pair in zip(players[::2], players[1::2], strict=True)]
        hands = asyncio.Semaphore(HANDS)

        async def one(pair: BySeat[Player]) -> Seated:
            async with hands:
                match_id = await self.made.create(pair, time_control=time_control(BANK_MS, DELAY_MS))
                seated = Seated(match_id, pair)
                await self.play(seated, commands)
                return seated

        new = await asyncio.gather(*map(one, pairs))
        self.matches += new
        return new

    async def play(self, seated: Seated, commands: int) -> None:
        """So many commands of a match, through streams that are closed afterwards."""
        budget, channel = Budget(commands), self.made.channel()
        streams = [Stream(channel, player, seated.match_id, budget=budget) for player in seated.players]
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await budget.spent.wait()
        finally:
            await asyncio.gather(*(stream.close() for stream in streams))

    async def join(self, matches: Sequence[Seated]) -> None:
        """Both players of each open a Play stream, and have what it says first."""
        for first in range(0, len(matches), HANDS):
            some = matches[first : first + HANDS]
            for seated in some:
                seated.streams += [
                    Stream(self._next_connection(), player, seated.match_id) for player in seated.players
                ]
            await self._until_joined([stream for seated in some for stream in seated.streams])

    async def watch(self, seated: Seated, count: int) -> list[Stream]:
        """So many watchers of a match, each somebody else, who have what their stream says first."""
        watchers = [
            Stream(self._next_connection(), self.made.spectator(), seated.match_id, plays=False)
            for _ in range(count)
        ]
        await self._until_joined(watchers)
        return watchers

    async def leave(self, matches: Iterable[Seated]) -> None:
        """Their players close their streams."""
        for seated in matches:
            await asyncio.gather(*(stream.close() for stream in seated.streams))
            seated.streams.clear()

    @staticmethod
    async def _until_joined(streams: Sequence[Stream]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*(stream.joined.wait() for stream in streams))

    def _next_connection(self) -> grpc.aio.Channel:
        if self._connection is None or next(self._opened) % self._each == 0:
            # Otherwise all channels of a process to one address share one connection.
            options = [("grpc.use_local_subchannel_pool", 1)]
            self._connection = grpc.aio.insecure_channel(self.made.address("game"), options=options)
            self._exits.push_async_callback(self._connection.close)
        return self._connection


@asynccontextmanager
async def crowd(made: Stack, *, streams_a_connection: int = STREAMS_A_CONNECTION) -> AsyncIterator[Crowd]:
    """A crowd that is gone in the end."""
    async with AsyncExitStack() as exits:
        gathered = Crowd(made, exits, streams_a_connection=streams_a_connection)
        try:
            yield gathered
        finally:
            await gathered.leave(gathered.matches)
