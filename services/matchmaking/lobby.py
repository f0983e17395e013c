"""Where seeks are opened, cancelled and closed. The database settles every race; this keeps memory in step with it."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from weakref import WeakValueDictionary

import grpc

from matchmaker.ticket import Ticket
from services.common.errors import ServiceError, busy, limit_reached, try_again
from services.matchmaking.metrics import SeekMetrics
from services.matchmaking.placement import Engines
from services.matchmaking.pools import Pools
from services.matchmaking.seekers import (
    POOLS,
    Matched,
    Seeker,
    Seekers,
    cancelled,
    cooling,
    draining,
    replaced,
)
from services.matchmaking.tasks import Tasks
from services.matchmaking.wave import Wave
from services.storage import seeks
from services.storage.matches import PlayerRow
from services.storage.noshows import Cooling
from services.storage.pool import TRANSIENT, Pool
from services.storage.seeks import Ended, LiveMatch, Opened, PoolName
from services.wire.matchmaking import Wanted

CLOSE_SECONDS_MAX = 5.0
"""A database that does not answer must not keep this process from trying to lead again."""


class Lobby:
    """All open seeks. Open only while this process leads."""

    def __init__(
        self,
        pool: Pool,
        seekers: Seekers,
        pools: Pools,
        engines: Engines,
        wave: Wave,
        metrics: SeekMetrics,
        *,
        seeks_max: int,
        openings_max: int,
    ) -> None:
        self._pool = pool
        self._seekers = seekers
        self._pools = pools
        self._engines = engines
        self._wave = wave
        self._metrics = metrics
        self._seeks_max = seeks_max
        self._openings = asyncio.Semaphore(openings_max)
        self._entering = 0
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks = Tasks()
        self.is_open = False

    def open(self) -> None:
        """Begin to take seeks."""
        self.is_open = True

    async def close(self, why: ServiceError) -> None:
        """Take no more seeks and end the open ones, which may come again; tell those whose match is made already."""
        self.is_open = False
        rows = [seeker.seek_id for seeker in self._seekers]
        self._seekers.settle_all(why)
        self._engines.close_all(why)
        with suppress(*TRANSIENT):
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                async with self._pool.acquire() as connection:
                    await seeks.lose_seeks(connection, rows)
                await self._wave.finish()
                await self._tasks.finish()

    async def end(self, pool: PoolName, why: ServiceError) -> None:
        """End the open seeks of a pool, which may come again. Of matches that are being made the caller takes care."""
        ended = [seeker for seeker in self._seekers if seeker.pool == pool]
        for seeker in ended:
            self._seekers.remove(seeker)
            seeker.settle(why)
        if ended:
            await self._close_rows(ended)

    @asynccontextmanager
    async def seek(
        self, player: PlayerRow, wanted: Wanted, patience_seconds: float
    ) -> AsyncIterator[Seeker | Matched]:
        """An open seek for as long as the context lasts, or the live match the player is in already.

        Raises ServiceError. A caller that is cancelled leaves nothing behind: the work runs on its own and is undone.
        """
        entering = self._tasks.start(self._enter(player, wanted))
        try:
            entered = await asyncio.shield(entering)
            if isinstance(entered, LiveMatch):
                if entered.mode != wanted.pool:
                    raise busy(entered.match_id)
                told = await self._engines.matched(entered, patience_seconds)
                if isinstance(told, ServiceError):
                    raise told
                yield told
            else:
                yield entered
        finally:
            self._tasks.start(self._leave(entering))

    async def cancel(self, player_id: str) -> None:
        """End the player's seek, open or lost: after this returns, no match can come of it. Raises ServiceError."""
        await asyncio.shield(self._tasks.start(self._cancel(player_id)))

    async def _enter(self, player: PlayerRow, wanted: Wanted) -> Seeker | LiveMatch:
        async with self._turn_of(player.player_id):
            self._check_open()
            older = self._seekers.get(player.player_id)
            if older is None and len(self._seekers) + self._entering >= self._seeks_max:
                raise limit_reached(f"{self._seeks_max} players are waiting, which is the limit", 5.0)
            self._entering += 1
            try:
                if older is not None:
                    older.ending = replaced()
                return await self._open_seek(player, wanted, older)
            finally:
                self._entering -= 1
                if older is not None:
                    older.ending = None

    async def _open_seek(self, player: PlayerRow, wanted: Wanted, older: Seeker | None) -> Seeker | LiveMatch:
        seek_id = uuid.uuid4()
        # When many come at once, matches are still made: those who come do not take every connection.
        async with self._openings, self._pool.acquire() as connection:
            if self._pools.drains(wanted.pool):
                # Asked for first: a seek that is refused must not end another one.
                live = await seeks.find_live(connection, player.player_id)
                if live is None:
                    raise self._draining(wanted.pool)
                return live
            opened = await seeks.open_seek(
                connection, player, seek_id, wanted.pool, wanted.request_id, wanted.blocked
            )
        if isinstance(opened, Ended):
            raise cancelled() if opened.how == "cancelled" else replaced()
        if isinstance(opened, Cooling):
            self._metrics.cooldowns.inc()
            raise cooling(opened)
        if older is not None:
            # A match of the older seek that was made in the meantime has told it already, or will not matter to it:
            # the newer seek is told about that match.
            self._seekers.remove(older)
            older.settle(replaced())
        if isinstance(opened, LiveMatch):
            return opened
        if opened.resumed:
            self._metrics.resumed.labels(wanted.pool).inc()
        # The name of the token was a suggestion.
        player = replace(player, name=opened.name)
        seeker = Seeker(player, wanted.pool, seek_id, _ticket(player, wanted, opened), opened.strength.shown)
        if not self.is_open or self._pools.drains(wanted.pool):
            await self._close_rows([seeker])
            self._check_open()
            raise self._draining(wanted.pool)
        self._seekers.add(seeker)
        self._wave.wake()
        return seeker

    async def _leave(self, entering: asyncio.Task[Seeker | LiveMatch]) -> None:
        await asyncio.wait([entering])
        if entering.cancelled() or entering.exception() is not None:
            return
        seeker = entering.result()
        if isinstance(seeker, LiveMatch):
            return
        if seeker.answer is None:
            self._seekers.remove(seeker)
            await self._close_rows([seeker])
        self._metrics.ended.labels(seeker.pool, _end_of(seeker)).inc()

    async def _close_rows(self, closed: Sequence[Seeker]) -> None:
        try:
            async with self._pool.acquire() as connection:
                await seeks.lose_seeks(connection, [seeker.seek_id for seeker in closed])
        except TRANSIENT:
            # Nobody can be paired through a row alone; the player's next seek takes its place.
            return

    async def _cancel(self, player_id: str) -> None:
        async with self._turn_of(player_id):
            self._check_open()
            seeker = self._seekers.get(player_id)
            if seeker is not None:
                seeker.ending = cancelled()
            try:
                await self._cancel_row(player_id, seeker)
            finally:
                if seeker is not None:
                    seeker.ending = None

    async def _cancel_row(self, player_id: str, seeker: Seeker | None) -> None:
        async with self._pool.acquire() as connection:
            deleted = await seeks.cancel_seek(connection, player_id)
            live = None if deleted else await seeks.find_live(connection, player_id)
            matched = live is not None and live.mode in POOLS
            lost = not deleted and not matched and await seeks.cancel_lost(connection, player_id)
        if lost:
            return
        if deleted:
            if seeker is not None:
                self._seekers.remove(seeker)
                seeker.settle(cancelled())
            return
        if live is not None and matched:
            raise ServiceError(
                grpc.StatusCode.FAILED_PRECONDITION,
                "ALREADY_MATCHED",
                "the seek was matched before it could be cancelled",
                metadata={"match_id": live.match_id},
            )
        raise ServiceError(grpc.StatusCode.NOT_FOUND, "NO_SEEK", "there is no open seek of this player")

    def _draining(self, pool: PoolName) -> ServiceError:
        return draining(self._pools[pool].mode_order, self._pools[pool].announcement)

    def _check_open(self) -> None:
        if not self.is_open:
            raise try_again("this process does not lead; try again", 0.5)

    @asynccontextmanager
    async def _turn_of(self, player_id: str) -> AsyncIterator[None]:
        # One call of a player after the other, so that memory and rows change in the same order.
        lock = self._locks.setdefault(player_id, asyncio.Lock())
        async with lock:
            yield


def _ticket(player: PlayerRow, wanted: Wanted, opened: Opened) -> Ticket:
    strength = opened.strength
    return Ticket(
        player_id=player.player_id,
        rating=strength.rating.mu,
        since=time.monotonic_ns() - opened.waited_ns,
        sigma=strength.rating.sigma,
        recent=strength.recent,
        lowest=wanted.lowest,
        highest=wanted.highest,
        blocked=wanted.blocked,
    )


def _end_of(seeker: Seeker) -> str:
    match seeker.answer:
        case None:
            return "closed"
        case Matched():
            return "matched"
        case ServiceError(reason="SEEK_REPLACED"):
            return "replaced"
        case ServiceError(reason="SEEK_CANCELLED"):
            return "cancelled"
        case ServiceError(reason="POOL_DRAINING"):
            return "drained"
        case _:
            return "failed"
