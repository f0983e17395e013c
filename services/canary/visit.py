"""One visit of the canary: two players connect, play a short unrated match, and leave nothing behind."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import grpc

from client.bots import greedy
from client.errors import ClientError, Refused
from client.match import MatchStream
from client.session import Client
from client.table import TableState
from engine.command import Resign
from engine.outcome import Cause
from engine.seats import SEATS, BySeat
from services.canary.metrics import CanaryMetrics, Step
from services.common.auth import CANARY_PREFIX
from services.common.logs import get_logger
from spectacularbid.match.v1 import match_service_pb2 as pb

T = TypeVar("T")

COMMANDS: Final = 6
"""So many commands are played, both presses of Start among them; then one resigns."""
# The question was settled while the answer was on its way.
_OVERTAKEN: Final = frozenset({"STALE_DECISION", "ALREADY_PRESSED", "START_NOT_DUE", "CONTINUE_NOT_DUE"})


class StepFailedError(Exception):
    """A step did not succeed; the text says why."""

    def __init__(self, step: Step, why: str) -> None:
        super().__init__(why)
        self.step = step


@dataclass(frozen=True, slots=True)
class Place:
    """How the service is reached."""

    server: str
    game: str
    credentials: grpc.ChannelCredentials | None
    step_seconds: float


@dataclass
class Visit:
    """Used once."""

    place: Place
    tokens_file: Path
    metrics: CanaryMetrics
    match_id: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    """How long the steps took; of commands, the longest."""

    async def run(self) -> None:
        """Plays the match. Raises StepFailedError."""
        async with AsyncExitStack() as exits:
            with self._step(Step.TOKEN):
                async with asyncio.timeout(self.place.step_seconds):
                    clients = await self._connect(exits)
            try:
                await self._play(clients)
            except StepFailedError:
                await self._tidy(clients)
                raise

    async def _connect(self, exits: AsyncExitStack) -> BySeat[_Known]:
        tokens = _tokens(self.tokens_file)
        known = []
        for seat in SEATS:
            client = await exits.enter_async_context(
                Client(
                    self.place.server,
                    tokens[seat],
                    game_address=self.place.game or None,
                    credentials=self.place.credentials,
                    patience_seconds=self.place.step_seconds,
                )
            )
            profile = await client.profile()
            if not profile.player_id.startswith(CANARY_PREFIX):
                raise ValueError(f"the token of {seat} is no canary's: its player is {profile.player_id}")
            known.append(_Known(client, profile.player_id))
        north, south = known
        if north.player_id == south.player_id:
            raise ValueError("both tokens are of one player")
        return BySeat(north, south)

    async def _play(self, players: BySeat[_Known]) -> None:
        with self._step(Step.CREATE, timed=False):
            async with asyncio.timeout(3 * self.place.step_seconds):
                await self._clear(players)
        with self._step(Step.CREATE):
            async with asyncio.timeout(self.place.step_seconds):
                request = pb.CreateMatchRequest(player_id=players.south.player_id)
                made = await players.north.client.create_match(request)
        self.match_id = made.match_id
        async with AsyncExitStack() as exits:
            with self._step(Step.ATTACH):
                async with asyncio.timeout(self.place.step_seconds):
                    table = await exits.enter_async_context(_Table(players, made.match_id, made.address))
                    await table.attached()
            for _ in range(COMMANDS):
                with self._step(Step.COMMAND, timed=False):
                    async with asyncio.timeout(self.place.step_seconds):
                        seat, question = await table.asked()
                with self._step(Step.COMMAND):
                    async with asyncio.timeout(self.place.step_seconds):
                        await table.answer(seat, question)
            with self._step(Step.FINISH):
                async with asyncio.timeout(self.place.step_seconds):
                    cause = await table.resign()
            if cause is not Cause.RESIGNATION:
                raise StepFailedError(Step.FINISH, f"the match ended otherwise: {cause}")

    async def _clear(self, players: BySeat[_Known]) -> None:
        """Ends what an earlier visit has left behind; a player has one live match, so none could be created."""
        left: dict[str, str] = {}
        for player in players:
            async for summary in player.client.my_matches(live_only=True):
                left[summary.match_id] = summary.address
        for match_id, address in left.items():
            async with _Table(players, match_id, address) as table:
                await table.attached()
                await table.begin()
                cause = await table.resign()
            get_logger().warning("canary_cleared", match_id=match_id, cause=str(cause))

    async def _tidy(self, players: BySeat[_Known]) -> None:
        """Tries at once not to leave anything behind; what cannot be reached now is for the next visit."""
        if not self.match_id:
            return
        try:
            async with asyncio.timeout(self.place.step_seconds):
                await self._clear(players)
        except (ClientError, TimeoutError, grpc.aio.AioRpcError) as error:
            get_logger().info("canary_left_a_match", match_id=self.match_id, why=_why(error))

    @contextmanager
    def _step(self, step: Step, *, timed: bool = True) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        except (ClientError, TimeoutError, grpc.aio.AioRpcError, OSError, ValueError) as error:
            raise StepFailedError(step, _why(error)) from error
        if timed:
            took = time.perf_counter() - began
            self.metrics.took(step, took)
            self.seconds[step.value] = max(took, self.seconds.get(step.value, 0.0))


@dataclass(frozen=True, slots=True)
class _Known:
    """One of the two players."""

    client: Client
    player_id: str


class _Table:
    """Both seats of one match, played by hand. An async context manager."""

    def __init__(self, players: BySeat[_Known], match_id: str, address: str) -> None:
        self._streams: Sequence[MatchStream] = [
            player.client.play(match_id, address or None) for player in players
        ]
        self._first = [asyncio.Event() for _ in self._streams]
        self._answered = [0 for _ in self._streams]
        self._questions: asyncio.Queue[tuple[int, TableState]] = asyncio.Queue()
        self._exits = AsyncExitStack()
        self._followers: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> _Table:
        for number, stream in enumerate(self._streams):
            await self._exits.enter_async_context(stream)
            self._followers.append(asyncio.create_task(self._follow(number, stream)))
        return self

    async def __aexit__(self, *_: object) -> None:
        for follower in self._followers:
            follower.cancel()
        await asyncio.gather(*self._followers, return_exceptions=True)
        await self._exits.aclose()

    async def _follow(self, number: int, stream: MatchStream) -> None:
        async for table in stream.questions(lambda _: self._first[number].set()):
            self._questions.put_nowait((number, table))

    async def attached(self) -> None:
        """Waits until both have seen the table. Raises what a stream raised."""
        await self._or_failed(asyncio.gather(*(first.wait() for first in self._first)))

    async def asked(self) -> tuple[int, TableState]:
        """The next question that is not answered yet, and whose it is."""
        while True:
            number, table = await self._or_failed(self._questions.get())
            # A question is heard again when the other seat has answered it too.
            if table.prompt.decision_id > self._answered[number]:
                return number, table

    async def answer(self, number: int, table: TableState) -> None:
        """What a simple bot answers."""
        command = greedy.choose(table)
        if command is None:
            return
        self._answered[number] = table.prompt.decision_id
        try:
            await self._streams[number].submit(command, decision_id=table.prompt.decision_id)
        except Refused as refusal:
            if refusal.reason not in _OVERTAKEN:
                raise

    async def begin(self) -> None:
        """Presses Start where it is awaited: before that nobody can resign."""
        for number, stream in enumerate(self._streams):
            if stream.table.prompt.legal.start:
                await self.answer(number, stream.table)

    async def resign(self) -> Cause:
        """Ends the match, and waits until both have seen the end: why it ended."""
        if not any(follower.done() for follower in self._followers):
            # Of a match that somebody else has made with one of us, the other one is a spectator.
            stream = next(stream for stream in self._streams if stream.table.seat is not None)
            seat = stream.table.seat
            assert seat is not None, "it was looked for"
            try:
                await stream.submit(Resign(seat))
            except Refused as refusal:
                # It has ended meanwhile, by a limit or by a fault.
                if refusal.reason != "MATCH_OVER":
                    raise
        await asyncio.gather(*self._followers)
        outcome = self._streams[0].table.outcome
        assert outcome is not None, "the stream ends with the match"
        return outcome.cause

    async def _or_failed(self, wanted: Awaitable[T]) -> T:
        """`wanted`, unless a stream breaks for good before."""
        task = asyncio.ensure_future(wanted)
        try:
            done, _ = await asyncio.wait({task, *self._followers}, return_when=asyncio.FIRST_COMPLETED)
            if task in done:
                return task.result()
            for follower in self._followers:
                if follower.done():
                    follower.result()
            raise ClientError("the match ended before it was played")
        finally:
            task.cancel()


def _tokens(file: Path) -> BySeat[str]:
    """The tokens of both players. Raises OSError, or ValueError that shows no token."""
    try:
        found = json.loads(file.read_text("utf-8"))
        return BySeat(*(str(found[seat.value]) for seat in SEATS))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{file} is no JSON object with the tokens `north` and `south`") from None


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "took too long"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
