"""A game process is drained while people play on it: what happens to the matches, and what their players felt."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
import urllib.request
import uuid
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from client.bots import easy
from client.errors import Refused
from client.match import MatchStream
from client.table import TableState
from engine.command import Resign
from engine.seats import BySeat
from services.storage.evidence import get_time_facts
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.integration.test_explain import worked_out
from tests.stack import Stack

BEFORE: Final = 3
"""Commands of a match that make it one that is under way: both have pressed Start."""
AFTERWARDS: Final = 2
"""Commands of a match that its next process must have accepted before it may end."""
OVERTAKEN: Final = frozenset({"MATCH_OVER", "STALE_DECISION", "ALREADY_PRESSED"})
"""The other seat has resigned, or was first."""


@dataclass(frozen=True)
class Accepted:
    """A command that had its effect."""

    request_id: str
    address: str
    at: float
    took: float
    """From sending it to the answer."""
    thought: float
    """How long its player took before that."""


class Stream(MatchStream):
    """As a client's; remembers how long it was between two processes."""

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type]
        self.moved_at: float | None = None
        self.away: list[float] = []
        """From `reconnect` to the first word of the next process, each time."""

    def _receive(self, message: pb.WatchResponse) -> None:
        super()._receive(message)
        if message.HasField("reconnect"):
            self.moved_at = time.monotonic()
        elif self.moved_at is not None:
            self.away.append(time.monotonic() - self.moved_at)
            self.moved_at = None


@dataclass
class Sitting:
    """A match and its two players, who think for a while before each command."""

    made: Stack
    match_id: str
    thinking: tuple[float, float]
    streams: list[Stream]
    accepted: list[Accepted] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    away_from: str = ""
    """When set, the match ends once another process has accepted a few commands."""
    ends: bool = False
    """When set, it ends with the next command."""
    under_way: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a few commands have been accepted, or the match is over."""
    rng: random.Random = field(default_factory=lambda: random.Random(5))

    async def play(self) -> None:
        """To the end."""
        try:
            await asyncio.gather(*(self._sit(stream) for stream in self.streams))
        finally:
            self.under_way.set()  # nobody waits for what is over

    async def _sit(self, stream: Stream) -> None:
        async with stream:
            async for table in stream.questions():
                await self._answer(stream, table)

    async def _answer(self, stream: Stream, table: TableState) -> None:
        seat = table.seat
        assert seat is not None
        command = Resign(seat) if self._done() else easy.choose(table, self.rng)
        if command is None:
            return
        thought = self.rng.uniform(*self.thinking)
        await asyncio.sleep(thought)
        request_id = uuid.uuid4().hex
        self.sent.append(request_id)
        sent_at = time.monotonic()
        try:
            await stream.submit(command, request_id=request_id)
        except Refused as refusal:
            if refusal.reason not in OVERTAKEN:
                raise
            self.sent.remove(request_id)
        else:
            now = time.monotonic()
            self.accepted.append(Accepted(request_id, stream._address, now, now - sent_at, thought))
            if len(self.accepted) >= BEFORE:
                self.under_way.set()

    def _done(self) -> bool:
        return self.ends or len(self.elsewhere) >= AFTERWARDS

    @property
    def elsewhere(self) -> list[Accepted]:
        """What the process accepted that took the match up."""
        if not self.away_from:
            return []
        return [command for command in self.accepted if command.address != self.away_from]

    @property
    def felt(self) -> float | None:
        """From the last answer of the old process to the first of the new one, without what its player thought."""
        there = self.elsewhere
        here = [command.at for command in self.accepted if command not in there]
        if not there or not here:
            return None
        return there[0].at - max(here) - there[0].thought


async def sit_down(made: Stack, game: str, thinking: tuple[float, float], number: int = 0) -> Sitting:
    """A match of two new players on this game process."""
    players = BySeat(*await made.players(2))
    match_id = await made.create(players, game=game)
    streams = []
    for player in players:
        client = await made.client(player, game_address=made.address(game))
        streams.append(Stream(client._connections, match_id, made.address(game), locate=client.locate))
    return Sitting(made, match_id, thinking, streams, rng=random.Random(number))


async def operate(made: Stack, *arguments: str, status: int = 0) -> str:
    """Runs `python -m services.ops game` as an operator; what it printed."""
    token, _ = made.issuer.issue("op-ada", "ada", roles=("operator",))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.ops", "game", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={
            **os.environ,
            "SPECTACULAR_BID_OPERATOR_TOKEN": token,
            "SPECTACULAR_BID_MATCHMAKING_ADDRESS": made.address("placement"),
            "COLUMNS": "200",
        },
    )
    out, _ = await process.communicate()
    assert process.returncode == status, out.decode()
    return out.decode()


async def drained(made: Stack, sittings: list[Sitting], game: str = "game") -> float:
    """Drains this process by an operator's command until it has nothing left; how many seconds that took.

    The matches on it end soon after they have moved.
    """
    for sitting in sittings:
        sitting.away_from = made.address(game)
    began = time.monotonic()
    await operate(made, "drain", game, "--reason", "a rehearsal", "--wait")
    return time.monotonic() - began


async def stopped(made: Stack, sittings: list[Sitting], game: str = "game") -> float:
    """The same by SIGTERM; until the process has ended."""
    for sitting in sittings:
        sitting.away_from = made.address(game)
    began = time.monotonic()
    await made.processes[game].terminate(seconds_max=120)
    return time.monotonic() - began


async def faults_of(made: Stack, sittings: list[Sitting]) -> list[str]:
    """What went wrong with these matches; nothing should. Everything is looked up where it is stored."""
    faults = []
    for sitting in sittings:
        outcome = await made.outcome(sitting.match_id)
        cause = None if outcome is None else outcome["cause"]
        if cause != "resignation":
            faults.append(f"{sitting.match_id} ended as {cause}")
        rows = await made.pool.fetch(
            "select request_id from match_log where match_id = $1 and request_id is not null",
            sitting.match_id,
        )
        stored = [row["request_id"] for row in rows]
        if sorted(stored) != sorted(sitting.sent) or len(stored) != len(sitting.accepted):
            faults.append(f"{sitting.match_id}: {len(sitting.sent)} commands sent, {len(stored)} stored")
        async with made.pool.acquire() as connection:
            faults += worked_out(await get_time_facts(connection, sitting.match_id)).faults
    return faults


async def credited_seconds(made: Stack, sittings: list[Sitting]) -> float:
    """Time that was not charged in these matches, in all."""
    return float(
        await made.pool.fetchval(
            "select coalesce(sum(credited_ns), 0) / 1e9 from match_log where match_id = any($1::uuid[])",
            [sitting.match_id for sitting in sittings],
        )
    )


async def pauses(made: Stack, *games: str) -> list[tuple[float, int]]:
    """The histogram of pauses on these processes: upper bounds, and how many were at most so long."""
    counts: dict[float, int] = {}
    for game in games:
        for name, labels, value in await samples(made, game):
            if name == "spectacular_bid_handoff_pause_seconds_bucket":
                bound = float(labels["le"])
                counts[bound] = counts.get(bound, 0) + int(value)
    return sorted(counts.items())


def quantile(histogram: list[tuple[float, int]], share: float) -> float:
    """As Prometheus works it out: straight lines within a bucket."""
    wanted = share * histogram[-1][1]
    below, count_below = 0.0, 0
    for bound, count in histogram:
        if count >= wanted and count > count_below:
            return below + (bound - below) * (wanted - count_below) / (count - count_below)
        below, count_below = bound, count
    return below


async def samples(made: Stack, name: str) -> list[tuple[str, dict[str, str], float]]:
    """What a process shows on /metrics."""
    address = await made.metrics_address(name)

    def read() -> str:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
            return str(page.read().decode())

    families = text_string_to_metric_families(await asyncio.to_thread(read))
    return [(sample.name, sample.labels, sample.value) for family in families for sample in family.samples]
