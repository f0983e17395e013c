"""The game processes that are registered, and which of them a new match goes to."""

from __future__ import annotations

import asyncio
import collections
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from services.common import tracing
from services.common.errors import ServiceError, try_again
from services.common.logs import get_logger
from services.common.tracing import TraceContext
from services.matchmaking.metrics import PlacementMetrics
from services.matchmaking.seekers import Matched
from services.storage.seeks import LiveMatch
from services.wire.matchmaking import Hello, Load, Placed, Placement

PLACING_SECONDS_MAX: Final = 60.0
"""A match that is not confirmed by then does not count as load any more: it is over, or its process will not say."""


@dataclass(frozen=True, slots=True)
class _Placing:
    """A match that a process was asked to load and has not confirmed."""

    engine_id: str
    fence: int
    since: float
    placed: asyncio.Future[str | None]
    """Done with the address at which it is played, where known."""
    trace: TraceContext | None
    """What it was made for."""


@dataclass(frozen=True, slots=True)
class Stranded:
    """A match that waits to be loaded by a process that is gone."""

    match_id: str
    engine_id: str
    fence: int


class Engine:
    """One registered game process: what it said about itself, and what waits to be sent to it."""

    def __init__(self, hello: Hello) -> None:
        self.hello = hello
        self.live_matches = 0
        self.accepting = True
        self.in_the_making = 0
        """Matches that will be its own if their transactions are committed."""
        self.closed: ServiceError | None = None
        """Why the registration has ended."""
        self._places: list[Placement] = []
        self._wake = asyncio.Event()

    @contextmanager
    def making(self) -> Iterator[None]:
        """Counts a match while it is being made."""
        self.in_the_making += 1
        try:
            yield
        finally:
            self.in_the_making -= 1

    def send(self, placement: Placement) -> None:
        """Queue a match for it to load."""
        self._places.append(placement)
        self._wake.set()

    def close(self, why: ServiceError) -> None:
        """End its stream."""
        self.closed = self.closed or why
        self._wake.set()

    async def places(self) -> AsyncIterator[Placement]:
        """Matches to load until the registration ends."""
        while True:
            places, self._places = self._places, []
            for place in places:
                yield place
            if self.closed is not None:
                return
            if not self._places:
                self._wake.clear()
                await self._wake.wait()


class Engines:
    """All registered game processes."""

    def __init__(self, metrics: PlacementMetrics, on_change: Callable[[], None]) -> None:
        self._engines: dict[str, Engine] = {}
        self._placing: dict[str, _Placing] = {}
        self._unconfirmed: collections.Counter[str] = collections.Counter()
        self._gone: dict[str, float] = {}
        """Since when processes are gone whose matches are not all confirmed."""
        self.drained: frozenset[str] = frozenset()
        """Processes that operators have drained, whether they know yet or not: no match is placed there."""
        self._on_change = on_change
        self._changed = asyncio.Event()
        self._placed = metrics.placed
        metrics.processes.set_function(lambda: len(self._engines))
        metrics.placing.set_function(lambda: len(self._placing))

    def register(self, hello: Hello) -> Engine:
        """Take in a game process; an older registration of the same name ends."""
        older = self._engines.get(hello.engine_id)
        if older is not None:
            older.close(try_again("the game process has registered anew"))
        engine = Engine(hello)
        self._engines[hello.engine_id] = engine
        self._gone.pop(hello.engine_id, None)
        # A fresh process loads by itself what it owns. One that only lost the stream may have missed these.
        for match_id, placing in self._placing.items():
            if placing.engine_id == hello.engine_id:
                engine.send(Placement(match_id, placing.fence, placing.trace))
        get_logger().info(
            "game_process_registered",
            engine_id=hello.engine_id,
            incarnation=hello.incarnation,
            address=hello.address,
            capacity=hello.capacity,
        )
        self._notify()
        return engine

    def unregister(self, engine: Engine) -> None:
        """Forget a registration that has ended."""
        if self._engines.get(engine.hello.engine_id) is engine:
            del self._engines[engine.hello.engine_id]
            self._gone[engine.hello.engine_id] = time.monotonic()
            get_logger().info("game_process_gone", engine_id=engine.hello.engine_id)
            self._notify()

    def report(self, engine: Engine, report: Placed | Load) -> None:
        """What a game process says."""
        match report:
            case Load():
                engine.live_matches = report.live_matches
                engine.accepting = report.accepting
                self._forget_overdue()
                self._notify()
            case Placed():
                placing = self._forget(report.match_id)
                if placing is not None:
                    engine.live_matches += 1
                    self._placed.inc()
                    placing.placed.set_result(engine.hello.address)

    def _forget(self, match_id: str) -> _Placing | None:
        placing = self._placing.pop(match_id, None)
        if placing is not None:
            self._unconfirmed[placing.engine_id] -= 1
        return placing

    def _forget_overdue(self) -> None:
        overdue = time.monotonic() - PLACING_SECONDS_MAX
        # Oldest first: a dictionary keeps the order in which matches were placed.
        while self._placing and next(iter(self._placing.values())).since < overdue:
            self._forget(next(iter(self._placing)))

    def pick(self) -> Engine | None:
        """The least loaded process that takes another match: the smallest share of its capacity in use."""
        free = [
            (used / engine.hello.capacity, engine_id)
            for engine_id, engine in self._engines.items()
            if self._accepts(engine) and (used := self._used(engine)) < engine.hello.capacity
        ]
        return self._engines[min(free)[1]] if free else None

    @property
    def accepting(self) -> dict[str, bool]:
        """The registered processes, and whether they take matches, room aside."""
        return {engine_id: self._accepts(engine) for engine_id, engine in self._engines.items()}

    def room_besides(self, engine_id: str) -> tuple[int, int]:
        """How many other processes take matches, and how many matches they have room for."""
        free = [
            max(0, engine.hello.capacity - self._used(engine))
            for name, engine in self._engines.items()
            if name != engine_id and self._accepts(engine)
        ]
        return len(free), sum(free)

    def _accepts(self, engine: Engine) -> bool:
        return engine.accepting and engine.hello.engine_id not in self.drained

    def _used(self, engine: Engine) -> int:
        return engine.live_matches + engine.in_the_making + self._unconfirmed[engine.hello.engine_id]

    def place(self, engine_id: str, match_id: str, fence: int) -> None:
        """Tell the owner of a match to load it. Should it be gone, it loads the match when it is back."""
        self._place(engine_id, match_id, fence, asyncio.get_running_loop().create_future(), tracing.here())

    def _place(
        self,
        engine_id: str,
        match_id: str,
        fence: int,
        placed: asyncio.Future[str | None],
        trace: TraceContext | None,
    ) -> None:
        self._placing[match_id] = _Placing(engine_id, fence, time.monotonic(), placed, trace)
        self._unconfirmed[engine_id] += 1
        engine = self._engines.get(engine_id)
        if engine is not None:
            engine.send(Placement(match_id, fence, trace))
        else:
            self._gone.setdefault(engine_id, time.monotonic())

    def stranded(self, after_seconds: float) -> list[Stranded]:
        """Matches to be loaded by processes that have been gone for so long."""
        self._gone = {
            engine_id: since for engine_id, since in self._gone.items() if self._unconfirmed[engine_id]
        }
        long_gone = {
            engine_id for engine_id, since in self._gone.items() if time.monotonic() - since >= after_seconds
        }
        return (
            [
                Stranded(match_id, placing.engine_id, placing.fence)
                for match_id, placing in self._placing.items()
                if placing.engine_id in long_gone
            ]
            if long_gone
            else []
        )

    def move(self, match_id: str, engine_id: str, fence: int) -> None:
        """Another process owns a match that was being placed: tell that one to load it."""
        placing = self._forget(match_id)
        if placing is not None:
            self._place(engine_id, match_id, fence, placing.placed, placing.trace)

    def settled(self, match_id: str, address: str | None) -> None:
        """Another process has taken a match up that was being placed; it is played at `address`, where known."""
        placing = self._forget(match_id)
        if placing is not None:
            placing.placed.set_result(address)

    async def placed(self, match_id: str, patience_seconds: float) -> str | None:
        """Wait until the match is loaded; where it is played. None when that is not known, or not in time."""
        placing = self._placing.get(match_id)
        if placing is None:
            return None
        done, _ = await asyncio.wait([placing.placed], timeout=patience_seconds)
        return placing.placed.result() if done and not placing.placed.cancelled() else None

    async def matched(self, live: LiveMatch, patience_seconds: float) -> Matched | ServiceError:
        """What a player is told about a live match: at once when its process is known, else as soon as it registers;
        try again when it does not."""
        address = await self.placed(live.match_id, patience_seconds)
        engine = self._engines.get(live.engine_id or "")
        if address is None:
            address = live.address if engine is None else engine.hello.address
        if address is None and live.engine_id is not None:
            address = await self._address(live.engine_id, patience_seconds)
        if address is None:
            return try_again("the game process of this match does not answer; try again", 1.0)
        return Matched(live.match_id, live.seat, address, live.opponent, live.opponent_rating)

    async def _address(self, engine_id: str, patience_seconds: float) -> str | None:
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_seconds):
                while engine_id not in self._engines:
                    self._changed.clear()
                    await self._changed.wait()
        engine = self._engines.get(engine_id)
        return None if engine is None else engine.hello.address

    def close_all(self, why: ServiceError) -> None:
        """End every registration: the processes register with whoever leads now."""
        for engine in self._engines.values():
            engine.close(why)
        for placing in self._placing.values():
            placing.placed.cancel()
        self._placing.clear()
        self._unconfirmed.clear()
        self._gone.clear()

    def _notify(self) -> None:
        self._changed.set()
        self._on_change()
