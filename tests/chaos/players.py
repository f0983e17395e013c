"""Players of the chaos: bots on the client library that think a little, and note what they themselves measure."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from client.bots import greedy
from client.errors import CallError, ClientError, Refused
from client.match import MatchStream
from client.session import Client
from client.table import TableState
from engine.command import Resign
from engine.seats import BySeat
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.chaos.rig import Rig

HURRY_SECONDS: Final = 0.02
"""How long bots think when the chaos is over and the matches need only end."""
RESIGNS: Final = 0.05
"""And how likely they resign then at each question: a match is some 800 commands long."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How players think, and the clock they play under. Seconds."""

    think: float = 1.0
    """On average."""
    bank: float = 120.0
    delay: float = 1.0
    """Shorter than many of the thoughts, so that banks are charged."""
    resigns: float = 0.0
    """How likely a player resigns at a question: then matches end and begin under faults, too, and no match lives
    through so many of them that its credits are spent."""

    def thought(self, rng: random.Random) -> float:
        """How long to think now: mostly short, now and then well over the delay."""
        if rng.random() < 0.2:
            return rng.uniform(1.0, 2.5) * self.think
        return rng.uniform(0.3, 1.1) * self.think


@dataclass(frozen=True, slots=True)
class Said:
    """One acknowledged command, with the player's own times on the monotonic clock, in seconds."""

    match_id: str
    seat: str
    request_id: str
    first_sequence: int
    last_sequence: int
    timed: bool
    earliest: float
    """When the command before it in the match was sent: its time cannot have begun earlier."""
    heard: float
    """When the question was heard."""
    sent: float
    answered: float


@dataclass
class Book:
    """What all players saw."""

    said: list[Said] = field(default_factory=list)
    last_said: dict[str, float] = field(default_factory=dict)
    """By match: when its newest command was acknowledged."""
    refused: Counter[str] = field(default_factory=Counter)
    gave_up: list[str] = field(default_factory=list)
    """What players could not go on after."""
    tables: dict[str, list[TableState]] = field(default_factory=dict)
    """By match: the last tables of its players."""
    live: set[str] = field(default_factory=set)
    """Matches under way."""
    reattached: int = 0


class Load:
    """So many tables at which match after match is played, until `finish`."""

    def __init__(self, rig: Rig, pace: Pace, book: Book, *, seed: int = 1) -> None:
        self._rig = rig
        self._pace = pace
        self.book = book
        self._rng = random.Random(seed)
        self._finishing = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.games: tuple[str, ...] = ("game",)
        """Where new matches are made, in turn."""
        self._sent: dict[str, float] = {}

    async def begin(self, tables: int) -> None:
        """Starts all tables and waits until each has a match whose players have moved."""
        players = await self._rig.stack.players(2 * tables)
        for number in range(tables):
            pair = BySeat(players[2 * number], players[2 * number + 1])
            clients = BySeat(*(self._rig.client(player, "game") for player in pair))
            self._tasks.append(asyncio.create_task(self._table(number, clients, pair.south.player_id)))
        moved: set[str] = set()
        async with asyncio.timeout(30 + tables):
            while len(moved) < tables:
                self.check()
                await asyncio.sleep(0.05)
                moved = {match_id for match_id in self.book.last_said if match_id in self.book.live}

    def check(self) -> None:
        """Raises what a table raised, which nothing of the services may make it do."""
        for task in self._tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def finish(self, seconds_max: float) -> None:
        """Has all matches played to their end, quickly."""
        self._finishing.set()
        _, pending = await asyncio.wait(self._tasks, timeout=seconds_max)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        self.check()

    async def cancel(self) -> None:
        """Ends everything at once."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _table(self, number: int, clients: BySeat[Client], south: str) -> None:
        async with clients.north, clients.south:
            while not self._finishing.is_set():
                match_id = await self._create(number, clients, south)
                self.book.live.add(match_id)
                try:
                    streams = [client.play(match_id) for client in clients]
                    await asyncio.gather(*(self._sit(stream) for stream in streams))
                except ClientError as error:
                    self.book.gave_up.append(f"{match_id}: {type(error).__name__}: {error}")
                finally:
                    self.book.live.discard(match_id)

    async def _create(self, number: int, clients: BySeat[Client], south: str) -> str:
        request = pb.CreateMatchRequest(
            request_id=uuid.uuid4().hex,
            player_id=south,
            time_control=pb.TimeControl(
                bank_ms=round(self._pace.bank * 1000), delay_ms=round(self._pace.delay * 1000)
            ),
            balances=table_pb2.Balances(north=150, south=150),
        )
        while True:
            # As behind one front door: whichever process is up answers.
            for turn in range(len(self.games)):
                address = self._rig.game_address(self.games[(number + turn) % len(self.games)])
                # Nobody begins at the wrong one, so that every attachment after the first is one too many.
                clients.north.game_address = clients.south.game_address = address
                try:
                    async with asyncio.timeout(5):
                        return (await clients.north.create_match(request)).match_id
                except (TimeoutError, CallError):
                    self.book.refused["no match made at the first try"] += 1
            await asyncio.sleep(0.2)

    async def _sit(self, stream: MatchStream) -> None:
        async with stream:
            async for table in stream.questions():
                await self._answer(stream, table)
        self.book.reattached += stream.reattached
        self.book.tables.setdefault(stream.match_id, []).append(stream.table)

    async def _answer(self, stream: MatchStream, table: TableState) -> None:
        command = greedy.choose(table)
        if command is None:
            return
        timed = table.prompt.to_act is not None
        if timed:
            await self._think()
            if self._rng.random() < (RESIGNS if self._finishing.is_set() else self._pace.resigns):
                command, timed = Resign(command.seat), False
        match_id, request_id = stream.match_id, uuid.uuid4().hex
        sent = time.monotonic()
        earliest = self._sent.get(match_id, 0.0)
        self._sent[match_id] = sent
        try:
            applied = await stream.submit(
                command, decision_id=table.prompt.decision_id, request_id=request_id
            )
        except Refused as refusal:
            self.book.refused[refusal.reason] += 1
            return
        answered = time.monotonic()
        self.book.last_said[match_id] = answered
        self.book.said.append(
            Said(
                match_id,
                command.seat.value,
                request_id,
                applied.first_sequence,
                applied.last_sequence,
                timed,
                earliest,
                table.prompt.clock.as_of,
                sent,
                answered,
            )
        )

    async def _think(self) -> None:
        if not self._finishing.is_set():
            with_hurry = asyncio.wait_for(self._finishing.wait(), self._pace.thought(self._rng))
            try:
                await with_hurry
            except TimeoutError:
                return
        await asyncio.sleep(HURRY_SECONDS)


Progress = Callable[[str], None]
