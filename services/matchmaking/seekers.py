"""The players who wait: what matchmaking keeps in memory about each open seek."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import grpc

from matchmaker.ticket import Ticket
from services.common import tracing
from services.common.errors import ServiceError
from services.storage.matches import PlayerRow
from services.storage.noshows import Cooling
from services.storage.poolorders import PoolOrder
from services.storage.seeks import PoolName, SeatName

POOLS: tuple[PoolName, ...] = ("rated", "casual")
NOTABLE_SHARE = 20
"""A change of the number of waiting players by one in so many is told before the next news is due anyway. In a crowd
of thousands somebody comes all the time, and each change would be a message to everybody."""
DRAINED_RETRY_SECONDS = 30.0
"""When to ask again in a pool that is drained until further notice."""


@dataclass(frozen=True, slots=True)
class Matched:
    """A match was found: what one of its players is told."""

    match_id: str
    seat: SeatName
    address: str
    opponent: PlayerRow
    opponent_rating: int


def replaced() -> ServiceError:
    """What an older seek is told when a newer one of the same player comes."""
    return ServiceError(
        grpc.StatusCode.ABORTED,
        "SEEK_REPLACED",
        "a newer seek of this player has taken the place of this one",
    )


def cancelled() -> ServiceError:
    """What a seek is told when CancelSeek has ended it."""
    return ServiceError(grpc.StatusCode.CANCELLED, "SEEK_CANCELLED", "the seek was cancelled")


def cooling(cooldown: Cooling) -> ServiceError:
    """What a player is told who did not come to a match a moment ago."""
    seconds = cooldown.wait.total_seconds()
    return ServiceError(
        grpc.StatusCode.FAILED_PRECONDITION,
        "SEEK_COOLDOWN",
        f"Start was not pressed in {cooldown.no_shows} of the last matches; seek again in {math.ceil(seconds)} s",
        metadata={
            "until": _rfc3339(cooldown.until),
            "match_id": cooldown.match_id,
            "no_shows": str(cooldown.no_shows),
        },
        retry_after_seconds=seconds,
    )


def draining(order: PoolOrder | None, announcement: str) -> ServiceError:
    """What seeks of a pool are told that takes none."""
    metadata = {"announcement": announcement} if announcement else {}
    seconds = DRAINED_RETRY_SECONDS
    if order is not None and order.until is not None:
        metadata["until"] = _rfc3339(order.until)
        seconds = max(1.0, (order.until - datetime.now(UTC)).total_seconds())
    return ServiceError(
        grpc.StatusCode.FAILED_PRECONDITION,
        "POOL_DRAINING",
        "this pool takes no seeks now",
        metadata=metadata,
        retry_after_seconds=seconds,
    )


def _rfc3339(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Seeker:
    """One open seek: its ticket, and the answer its stream waits for."""

    def __init__(self, player: PlayerRow, pool: PoolName, seek_id: UUID, ticket: Ticket, shown: int) -> None:
        self.player = player
        self.pool = pool
        self.seek_id = seek_id
        self.ticket = ticket
        self.shown = shown
        """Shown rating; 0 without a rated match."""
        self.trace = tracing.here()
        """The trace of the call that asked for it."""
        self.ending: ServiceError | None = None
        """Somebody is about to end the seek in the database, for this reason. It is not paired any more; a match that
        was on its way may still come first."""
        self.answer: Matched | ServiceError | None = None
        self.told_waiting = 0
        """How many wait, as it was told last."""
        self._news = asyncio.Event()

    def settle(self, answer: Matched | ServiceError) -> None:
        """Give the answer; the first one stands."""
        if self.answer is None:
            self.answer = answer
            self._news.set()

    def nudge(self) -> None:
        """Queue facts have changed."""
        self._news.set()

    async def news(self, patience_seconds: float) -> None:
        """Wait for an answer or changed facts, at most `patience_seconds`."""
        try:
            async with asyncio.timeout(patience_seconds):
                await self._news.wait()
        except TimeoutError:
            return
        if self.answer is None:
            self._news.clear()


class Seekers:
    """All open seeks of this process, one a player."""

    def __init__(self) -> None:
        self._by_player: dict[str, Seeker] = {}
        self._count: dict[PoolName, int] = dict.fromkeys(POOLS, 0)

    def __len__(self) -> int:
        return len(self._by_player)

    def __iter__(self) -> Iterator[Seeker]:
        return iter(self._by_player.values())

    def get(self, player_id: str) -> Seeker | None:
        """The open seek of a player."""
        return self._by_player.get(player_id)

    def count(self, pool: PoolName) -> int:
        """How many wait in a pool."""
        return self._count[pool]

    def longest_wait(self, pool: PoolName, now: int) -> int:
        """How long the seek that waits longest in a pool has waited at `now`, in nanoseconds; 0 without any."""
        # Asked from the thread of the metrics page: what is a list already does not change under it.
        waiting = list(self._by_player.values())
        waits = (
            seeker.ticket.waited(now) for seeker in waiting if seeker.pool == pool and seeker.answer is None
        )
        return max(waits, default=0)

    def add(self, seeker: Seeker) -> None:
        """Take in a seek; the player has no other."""
        assert seeker.player.player_id not in self._by_player
        self._by_player[seeker.player.player_id] = seeker
        self._count[seeker.pool] += 1

    def remove(self, seeker: Seeker) -> None:
        """Forget a seek; one that was forgotten before is no error."""
        if self._by_player.get(seeker.player.player_id) is seeker:
            del self._by_player[seeker.player.player_id]
            self._count[seeker.pool] -= 1

    def pairable(self, pool: PoolName) -> list[Seeker]:
        """Those who can be paired now."""
        return [
            seeker
            for seeker in self._by_player.values()
            if seeker.pool == pool and seeker.ending is None and seeker.answer is None
        ]

    def announce(self) -> None:
        """Nudge those who were told quite another number of waiting players than there is now."""
        for seeker in self._by_player.values():
            told = seeker.told_waiting
            change = abs(self._count[seeker.pool] - told)
            # 0: it is about to be told for the first time.
            if told and change and change * NOTABLE_SHARE >= told:
                seeker.nudge()

    def settle_all(self, answer: ServiceError) -> None:
        """End every seek."""
        for seeker in list(self._by_player.values()):
            seeker.settle(answer)
            self.remove(seeker)
