"""Waves: look at everybody who waits, pair, make the matches, have them placed, tell both players."""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

from matchmaker.pairing import pair
from services.common import tracing
from services.common.errors import busy, try_again
from services.common.logs import get_logger
from services.common.tracing import Tracer
from services.matchmaking.metrics import SeekMetrics
from services.matchmaking.placement import Engine, Engines
from services.matchmaking.pools import Pools
from services.matchmaking.seekers import POOLS, Matched, Seeker, Seekers
from services.matchmaking.tasks import Tasks
from services.matchmaking.waits import Waits
from services.storage import seeks
from services.storage.pool import TRANSIENT, Pool
from services.storage.seeks import FIRST_FENCE, Created, NotCreated, Place, SeatName

PARALLEL = 4
"""Matches made at once: more would take the connections that calls need."""
READ_BACK_PAUSE_SECONDS = 0.2
CROWD = 32
"""From so many waiting players on, arrivals are gathered for a period before the next wave: among more there is a
better partner, and one comes soon enough. Fewer are looked at as soon as they come."""
THREAD = 128
"""Pairing more than this takes long enough that calls would notice; it is done beside the loop."""
ANNOUNCE_PERIOD_SECONDS = 0.5
"""The number of waiting players is told at most this often: each change is a message to each of them. As often, some of
them are looked for in live matches."""
LOOKED_FOR = 500
"""Players looked for at a time, in turn: of a crowd, everybody within seconds."""


def rest_seconds(waiting: int, took_seconds: float, period_seconds: float) -> float:
    """How long to let arrivals gather after a wave: nothing unless a crowd waits.

    In a crowd a period, and as long as the wave took at least: a large one must leave the machine to the calls.
    """
    return max(period_seconds, took_seconds) if waiting >= CROWD else 0.0


class Wave:
    """Makes matches of those who wait; one task runs it."""

    def __init__(
        self,
        pool: Pool,
        seekers: Seekers,
        pools: Pools,
        engines: Engines,
        waits: Waits,
        metrics: SeekMetrics,
        *,
        period_seconds: float,
        patience_seconds: float,
        tracer: Tracer,
    ) -> None:
        self._pool = pool
        self._seekers = seekers
        self._pools = pools
        self._engines = engines
        self._waits = waits
        self._metrics = metrics
        self._period = period_seconds
        self._patience = patience_seconds
        self._tracer = tracer
        self._wake = asyncio.Event()
        self._telling = Tasks()
        self._making = asyncio.Lock()
        self._looked_for = 0
        """How many of those who wait were looked for in this turn."""

    def wake(self) -> None:
        """Something has changed that may make a match possible."""
        self._wake.set()

    async def run(self) -> None:
        """Waves until cancelled: one a period, and one at once after each arrival unless a crowd waits."""
        announced = 0.0
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._period):
                    await self._wake.wait()
            self._wake.clear()
            began = time.monotonic()
            await self.once()
            if time.monotonic() >= announced + ANNOUNCE_PERIOD_SECONDS:
                announced = time.monotonic()
                self._seekers.announce()
                await self._look_for_seated()
            await asyncio.sleep(rest_seconds(len(self._seekers), time.monotonic() - began, self._period))

    async def finish(self) -> None:
        """Wait until everybody whose match was made has been told."""
        await self._telling.finish()

    async def once(self) -> None:
        """One wave. Trouble of the database leaves those it meets for the next one."""
        # Without a game process nobody is paired: a match that nobody serves is worse than waiting.
        if len(self._seekers) < 2 or self._engines.pick() is None:
            return
        async with self._making:
            await self._once()

    @asynccontextmanager
    async def still(self) -> AsyncIterator[None]:
        """No match is being made while this lasts; those that were are made."""
        async with self._making:
            yield

    async def _once(self) -> None:
        with self._metrics.wave.time():
            pairs = iter(await self._pairs())
            async with asyncio.TaskGroup() as group:
                for _ in range(PARALLEL):
                    group.create_task(self._make_all(pairs))

    async def _pairs(self) -> list[tuple[Seeker, Seeker]]:
        now = time.monotonic_ns()
        found: list[tuple[Seeker, Seeker]] = []
        for pool in filter(self._pools.pairs, POOLS):
            waiting = {seeker.ticket: seeker for seeker in self._seekers.pairable(pool)}
            # Those who leave meanwhile are found out when their match is to be made.
            found += [
                (waiting[pairing.first], waiting[pairing.second])
                for pairing in (
                    await asyncio.to_thread(pair, list(waiting), now)
                    if len(waiting) > THREAD
                    else pair(waiting, now)
                )
            ]
        return found

    async def _make_all(self, pairs: Iterator[tuple[Seeker, Seeker]]) -> None:
        for one, other in pairs:
            engine = self._engines.pick()
            if engine is None:
                return
            # A pool may be closed while the matches of a long wave are made.
            if one.answer is None and other.answer is None and self._pools.pairs(one.pool):
                with engine.making():
                    await self._make(one, other, engine)

    async def _make(self, one: Seeker, other: Seeker, engine: Engine) -> None:
        north, south = (one, other) if secrets.randbits(1) else (other, one)
        match_id = str(uuid.uuid4())
        traces = [seeker.trace for seeker in (north, south) if seeker.trace is not None]
        parent = traces[0] if traces else None
        span = self._tracer.begin("make match", parent, links=traces[1:], match_id=match_id)
        try:
            with tracing.within(span.context):
                await self._create(match_id, north, south, engine)
        finally:
            span.end()

    async def _create(self, match_id: str, north: Seeker, south: Seeker, engine: Engine) -> None:
        places = (Place(north.player.player_id, north.seek_id), Place(south.player.player_id, south.seek_id))
        engine_id = engine.hello.engine_id
        try:
            async with self._pool.acquire() as connection:
                made = await seeks.create_match(connection, match_id, north.pool, *places, engine_id)
        except TRANSIENT as error:
            self._metrics.lost_races.labels("trouble").inc()
            get_logger().warning("match_not_made", match_id=match_id, error=type(error).__name__)
            if not await self._read_back(match_id, places):
                return
            made = Created()
        match made:
            case Created():
                self._made(match_id, north, south, engine)
            case NotCreated(gone, busy):
                for seeker in (north, south):
                    if seeker.player.player_id in gone | busy:
                        why = "gone" if seeker.player.player_id in gone else "busy"
                        self._metrics.lost_races.labels(why).inc()
                        await self._resolve(seeker, gone=why == "gone")

    async def _read_back(self, match_id: str, places: tuple[Place, Place]) -> bool:
        """Whether the match exists after all: a connection that is lost during a commit leaves that open.

        Asks until the database answers. Should it never do so, leadership is lost and everything starts over from the
        rows.
        """
        while True:
            try:
                async with self._pool.acquire() as connection:
                    return await seeks.was_created(connection, match_id, places)
            except TRANSIENT:
                await asyncio.sleep(READ_BACK_PAUSE_SECONDS)

    def _made(self, match_id: str, north: Seeker, south: Seeker, engine: Engine) -> None:
        now = time.monotonic_ns()
        for seeker in (north, south):
            self._seekers.remove(seeker)
            self._waits.add(seeker.pool, seeker.ticket)
            self._metrics.waited.labels(seeker.pool).observe(seeker.ticket.waited(now) / 1e9)
        self._metrics.matches.labels(north.pool).inc()
        self._metrics.gap.labels(north.pool).observe(abs(north.ticket.rating - south.ticket.rating))
        get_logger().info(
            "match_made",
            match_id=match_id,
            pool=north.pool,
            north=north.player.player_id,
            south=south.player.player_id,
            engine_id=engine.hello.engine_id,
        )
        self._engines.place(engine.hello.engine_id, match_id, FIRST_FENCE)
        self._telling.start(self._tell(match_id, north, south, engine.hello.address))

    async def _tell(self, match_id: str, north: Seeker, south: Seeker, address: str) -> None:
        placed = await self._engines.placed(match_id, self._patience)
        if placed is None:
            get_logger().warning("match_told_before_placed", match_id=match_id)
        seats: tuple[tuple[SeatName, Seeker, Seeker], ...] = (
            ("north", north, south),
            ("south", south, north),
        )
        for seat, seeker, opponent in seats:
            seeker.settle(Matched(match_id, seat, placed or address, opponent.player, opponent.shown))

    async def _look_for_seated(self) -> None:
        """Tell those who were given a seat while they waited: a match made by CreateMatch asks no queue, and somebody
        whom nobody fits would not be found out by being paired."""
        waiting = [seeker for seeker in self._seekers if seeker.ending is None and seeker.answer is None]
        if self._looked_for >= len(waiting):
            self._looked_for = 0
        looked_for = waiting[self._looked_for : self._looked_for + LOOKED_FOR]
        self._looked_for += LOOKED_FOR
        if not looked_for:
            return
        try:
            async with self._pool.acquire() as connection:
                seated = await seeks.find_seated(
                    connection, [seeker.player.player_id for seeker in looked_for]
                )
        except TRANSIENT:
            return
        for seeker in looked_for:
            if seeker.player.player_id in seated and seeker.answer is None:
                self._metrics.lost_races.labels("busy").inc()
                await self._resolve(seeker, gone=False)

    async def _resolve(self, seeker: Seeker, *, gone: bool) -> None:
        """Find out why a seek could not be used up: its row is gone, or its player is in a live match."""
        try:
            async with self._pool.acquire() as connection:
                live = await seeks.find_live(connection, seeker.player.player_id)
                if live is not None and not gone:
                    await seeks.lose_seeks(connection, [seeker.seek_id])
        except TRANSIENT:
            return
        if live is not None:
            self._seekers.remove(seeker)
            self._telling.start(self._tell_live(seeker, live))
        elif gone and seeker.ending is None:
            # Nobody of ours has done it, so another process leads by now.
            self._seekers.remove(seeker)
            seeker.settle(try_again("the seek was lost; seek again"))

    async def _tell_live(self, seeker: Seeker, live: seeks.LiveMatch) -> None:
        if live.mode == seeker.pool:
            seeker.settle(await self._engines.matched(live, self._patience))
        else:
            seeker.settle(busy(live.match_id))
