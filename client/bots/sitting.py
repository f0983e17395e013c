"""A house bot at one table of the service: it remembers what it is told, and thinks without holding anybody up."""

from __future__ import annotations

import asyncio
import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Self

from client.bots import greedy
from client.bots.memory import Memory
from client.bots.search import seconds
from client.wire import end_from_pb, some_seat_from_pb, tile_from_pb

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from client.bots.levels import Level
    from client.match import News
    from client.table import TableState
    from engine.command import Command
    from spectacularbid.match.v1.event_pb2 import MatchEvent

THINK_SECONDS: Final = 0.2
"""How long a bot that searches thinks about a move, when nobody else has it think."""
_SEARCHED: Final = 0.9
# Of the time for a move; a search looks at the clock now and then, and must be back before it is over.
_DELAY_KEPT_SECONDS: Final = 3.0
# Of the delay, for the way to the service and for whatever else may be slow: a bot never spends its bank.


class Thinker:
    """One thread for the thoughts of all tables. An async context manager.

    A move takes the time it is given, whether there is much to think about or nothing: how soon a bot answers must not
    tell its opponent whether it had a choice. The more moves wait for it, the less time each of them gets: n moves that are asked for at once are answered within
    1 + 1/2 + … + 1/n times the time of one.
    """

    def __init__(
        self,
        think_seconds: float = THINK_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        """`clock` is the one on which tables are received, in seconds; `rest` lets time pass on it."""
        self._think_seconds = think_seconds
        self._clock = clock
        self._rest = rest
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="thinking")
        self._waiting = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def think(
        self, level: Level, table: TableState, memory: Memory, rng: random.Random
    ) -> Command | None:
        """What a bot of this level does, when its time is over."""
        self._waiting += 1
        share = self._think_seconds / self._waiting
        alone = has_one_answer(table)

        def search() -> Command | None:
            began = self._clock()
            limit = min(share, time_left(table, began))
            searched = 0.0 if alone else limit * _SEARCHED
            command = level.choose(table, memory, rng, seconds(searched, self._clock))
            # In this thread: a move without a choice keeps the others waiting as long as one with a choice does.
            while (left := began + limit - self._clock()) > 0:
                self._rest(left)
            return command

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, search)
        finally:
            self._waiting -= 1


def has_one_answer(table: TableState) -> bool:
    """Whether there is nothing to choose. Nobody but this seat knows."""
    legal = table.prompt.legal
    return not legal.accept and not legal.decline and len(legal.plays) < 2


def is_secret(table: TableState) -> bool:
    """Whether it is hidden how many answers there are: a draw or a pass, Start or Continue are not."""
    legal = table.prompt.legal
    return bool(legal.plays) or legal.accept or legal.decline


def time_left(table: TableState, now: float) -> float:
    """How long a move may be thought about without any danger to the bank, in seconds; 0 when it is urgent."""
    clock = table.prompt.clock
    return max(0.0, clock.delay_left_ms / 1000 - (now - clock.as_of) - _DELAY_KEPT_SECONDS)


class Sitting:
    """A bot in one match."""

    def __init__(self, level: Level, thinker: Thinker, report: Callable[[str], None]) -> None:
        self._level = level
        self._thinker = thinker
        self._report = report
        self._seed = random.SystemRandom().getrandbits(64)
        self.memory: Memory | None = None
        """What it has seen of this match; None before the first news."""

    def hear(self, news: News) -> None:
        """Remember what happened at the table."""
        seat = news.table.seat
        if seat is None:
            return
        if self.memory is None:
            self.memory = Memory(seat)
        if news.snapshot:
            self.memory.resumed(news.table)
        for event in news.events:
            _remember(self.memory, event)

    async def choose(self, table: TableState) -> Command | None:
        """What the bot does now. Should it stumble over its own thoughts, it goes on without them, and reports it."""
        memory = self.memory
        assert memory is not None, "the first news come before the first question"
        rng = random.Random(f"{self._seed} {table.prompt.decision_id}")
        try:
            # With one answer too: who answers at once would say that there is only one.
            if self._level.thinks and is_secret(table):
                return await self._thinker.think(self._level, table, memory, rng)
            return self._level.choose(table, memory, rng, seconds(0.0, time.monotonic))
        except Exception as problem:  # noqa: BLE001  a person's match is not given up for a bot's mistake
            self._report(f"{table.match_id} {self._level.name} plays on without thinking: {problem!r}")
            return greedy.choose(table)


def _remember(memory: Memory, event: MatchEvent) -> None:
    match event.WhichOneof("kind"):
        case "hand_dealt":
            memory.dealt()
        case "opening_won":
            memory.opening_won()
        case "tile_placed":
            placed = event.tile_placed
            placement = placed.placement
            end = end_from_pb(placement.end) if placement.HasField("end") else None
            memory.placed(some_seat_from_pb(placed.seat), tile_from_pb(placement.tile), end, placed.count)
        case "tile_drawn":
            memory.drew(some_seat_from_pb(event.tile_drawn.seat))
        case "turn_passed":
            memory.passed(some_seat_from_pb(event.turn_passed.seat))
        case _:
            pass
