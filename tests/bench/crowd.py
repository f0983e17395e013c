"""Many live matches at once, each with a log, a state and open streams, for measuring what they cost: not how fast they
are played.

Streams are raw: what comes is read and counted, and looked into only while a match plays its first commands. So the load
costs little beside what is measured.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import urllib.request
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import grpc

from engine.seats import BySeat
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.bench.stack import answer
from tests.seats import ends, prompt_of
from tests.stack import Player, Stack, time_control

STREAMS_A_CONNECTION: Final = 100
HANDS: Final = 4
"""Matches that are set up at once. More would keep the process busy without a pause, which is time that is credited; and a
match is void that was credited a minute."""
BANK_MS: Final = 3_600_000
"""Nobody loses on time while others are set up."""
DELAY_MS: Final = 10_000
PATIENCE_SECONDS: Final = 60.0
TRIES: Final = 3
HEARTBEAT_BYTES_MAX: Final = 12
"""Whatever else is said is longer."""

_LIVE: Final = "spectacular_bid_live_matches{"
_PLAY: Final = "/spectacularbid.match.v1.MatchService/Play"
_WATCH: Final = "/spectacularbid.match.v1.MatchService/Watch"


class Stream:
    """One open stream of a player, or of a watcher; read until it is closed.

    Only one that `follows` looks into what it hears. Of the others it is known that something came, and when.
    """

    def __init__(
        self,
        connection: grpc.aio.Channel,
        player: Player,
        match_id: str,
        *,
        follows: bool,
        watches: bool = False,
    ) -> None:
        self.joined = asyncio.Event()
        self.messages = 0
        """How many came."""
        self.sequence = 0
        """The newest event that was heard of."""
        self.heard: Callable[[Stream], None] = lambda _stream: None
        """Told of each message that is no heartbeat."""
        self._follows = follows
        self._prompt = table_pb2.Prompt()
        self._answered = 0
        self._connection = connection
        self._metadata = player.metadata
        self._join = pb.WatchRequest(match_id=match_id)
        self._watches = watches
        self._call: Any = None
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        for _ in range(TRIES):
            try:
                await self._open()
                while (raw := await self._call.read()) is not grpc.aio.EOF:
                    self._hear(raw)
            except grpc.aio.AioRpcError:
                # On a machine that stands still for seconds a stream can be given up before it has begun.
                if self.joined.is_set():
                    raise
            else:
                return

    async def _open(self) -> None:
        if self._watches:
            watch: Any = self._connection.unary_stream(_WATCH)  # the stubs forbid bytes
            self._call = watch(self._join.SerializeToString(), metadata=self._metadata)
        else:
            self._call = self._connection.stream_stream(_PLAY)(metadata=self._metadata)
            await self._call.write(pb.PlayRequest(join=self._join).SerializeToString())

    def _hear(self, raw: bytes) -> None:
        self.messages += 1
        if len(raw) > HEARTBEAT_BYTES_MAX:
            if self._follows:
                self._look(pb.PlayResponse.FromString(raw))
            self.joined.set()
            self.heard(self)

    def _look(self, response: pb.PlayResponse) -> None:
        refused = [answer.refused.reason for answer in response.answers if answer.HasField("refused")]
        if refused:
            raise RuntimeError(f"refused: {refused}")
        news = response.news
        if news.events:
            self.sequence = news.events[-1].sequence
            if ends(news):
                self._prompt = table_pb2.Prompt()
        if (prompt := prompt_of(news)) is not None:
            self._prompt, self.sequence = prompt, max(prompt.sequence, news.snapshot.sequence)

    def command(self) -> pb.Command | None:
        """What this player would say now; None when nothing is asked of him."""
        return answer(self._prompt) if self._prompt.decision_id > self._answered else None

    async def send(self, command: pb.Command) -> None:
        """Answers the question."""
        self._answered = self._prompt.decision_id
        request = pb.SubmitRequest(request_id=uuid.uuid4().hex, decision_id=self._answered, command=command)
        await self._call.write(pb.PlayRequest(submit=request).SerializeToString())

    async def close(self) -> None:
        """Ends it. Raises what its reading failed with."""
        self._reading.cancel()
        if self._call is not None:
            self._call.cancel()
        (failed,) = await asyncio.gather(self._reading, return_exceptions=True)
        if isinstance(failed, Exception) and not isinstance(failed, grpc.aio.AioRpcError):
            raise failed


@dataclass(eq=False)
class Seated:
    """A match and its two players; their streams while they are open."""

    match_id: str
    players: BySeat[Player]
    streams: list[Stream] = field(default_factory=list)
    over: bool = False
    """Whether `move` has found nobody who is asked anything."""

    async def move(self) -> float | None:
        """One command of whoever is asked; the seconds until the other player had it. None when the match is over.

        The streams must follow.
        """
        for mover, other in (self.streams, self.streams[::-1]):
            if (command := mover.command()) is not None:
                return await self._move(mover, other, command)
        self.over = True
        return None

    @staticmethod
    async def _move(mover: Stream, other: Stream, command: pb.Command) -> float:
        before, both = mover.sequence, asyncio.Event()
        had_it = 0.0

        def heard(stream: Stream) -> None:
            nonlocal had_it
            if stream is other and not had_it and other.sequence > before:
                had_it = time.perf_counter()
            if min(mover.sequence, other.sequence) > before:
                both.set()

        mover.heard = other.heard = heard
        began = time.perf_counter()
        await mover.send(command)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await both.wait()
        return had_it - began


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
        channel = self.made.channel()
        seated.streams = [Stream(channel, player, seated.match_id, follows=True) for player in seated.players]
        await self._until_joined(seated.streams)
        for _ in range(commands):
            await seated.move()
        await self.leave([seated])

    async def join(self, matches: Sequence[Seated], *, follow: bool = False) -> None:
        """Both players of each open a Play stream, and have what it says first."""
        for first in range(0, len(matches), HANDS):
            some = matches[first : first + HANDS]
            for seated in some:
                seated.streams = [
                    Stream(self._next_connection(), player, seated.match_id, follows=follow)
                    for player in seated.players
                ]
            await self._until_joined([stream for seated in some for stream in seated.streams])

    async def watch(self, seated: Seated, count: int) -> list[Stream]:
        """So many watchers of a match, each somebody else, who have what their stream says first."""
        watchers = [
            Stream(
                self._next_connection(), self.made.spectator(), seated.match_id, follows=False, watches=True
            )
            for _ in range(count)
        ]
        await self._until_joined(watchers)
        return watchers

    async def void(self) -> int:
        """How many matches have ended: nobody here plays one to its end, so these were credited too much."""
        found = await metrics(self.made, "game")
        live = sum(value for name, value in found.items() if name.startswith(_LIVE))
        return len(self.matches) - round(live)

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


async def metrics(made: Stack, process: str) -> dict[str, float]:
    """What a process shows on its metrics page, by name and labels as they are written there."""
    address = await made.metrics_address(process)

    def read() -> str:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=PATIENCE_SECONDS) as page:
            return str(page.read().decode())

    lines = [line for line in (await asyncio.to_thread(read)).splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


@asynccontextmanager
async def crowd(made: Stack, *, streams_a_connection: int = STREAMS_A_CONNECTION) -> AsyncIterator[Crowd]:
    """A crowd that is gone in the end."""
    async with AsyncExitStack() as exits:
        gathered = Crowd(made, exits, streams_a_connection=streams_a_connection)
        try:
            yield gathered
        finally:
            await gathered.leave(gathered.matches)
