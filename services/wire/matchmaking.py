"""Seeks, guests and placement as messages of matchmaking.v1, identity.v1 and internal.placement.v1."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from engine.seats import Seat
from matchmaker.estimate import Estimate
from services.common.auth import PLAYER_ID
from services.common.errors import malformed
from services.common.tracing import TraceContext
from services.storage.matches import PlayerRow
from services.storage.seeks import PoolName
from services.wire.tables import SEAT
from spectacularbid.internal.placement.v1 import placement_service_pb2 as placement_pb
from spectacularbid.match.v1 import table_pb2
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as pb

BLOCKED_MAX: Final = 100
"""Players that a seek may refuse."""
RATING_MAX: Final = 100_000
"""Ratings that a seek may name are at most this far from 0."""

_REQUEST_ID: Final = re.compile(r"[\x21-\x7e]{1,64}\Z")
_POOLS: Final[Mapping[int, PoolName]] = {
    pb.POOL_UNSPECIFIED: "rated",
    pb.POOL_RATED: "rated",
    pb.POOL_CASUAL: "casual",
}


@dataclass(frozen=True, slots=True)
class Hello:
    """A game process registers."""

    engine_id: str
    incarnation: str
    address: str
    capacity: int


@dataclass(frozen=True, slots=True)
class Placement:
    """A match to be loaded by a game process."""

    match_id: str
    fence: int
    trace: TraceContext | None
    """Of the seek it was made for."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A match can be played."""

    match_id: str


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a game process is."""

    live_matches: int
    accepting: bool


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a seek is for."""

    request_id: str
    pool: PoolName
    lowest: int | None
    """The lowest rating of an opponent that is accepted, in points of the mean; None for any."""
    highest: int | None
    blocked: frozenset[str]
    """Players who are never accepted."""


def wanted_from_pb(request: pb.SeekRequest) -> Wanted:
    """What a seek is for. Raises ServiceError naming the field at fault."""
    if not _REQUEST_ID.match(request.request_id):
        raise malformed("request_id: must be 1 to 64 visible ASCII characters")
    if request.pool not in _POOLS:
        raise malformed(f"pool: {request.pool} is no pool")
    lowest = _limit(request, "lowest_rating")
    highest = _limit(request, "highest_rating")
    if lowest is not None and highest is not None and lowest > highest:
        raise malformed("highest_rating: must not be below lowest_rating")
    return Wanted(
        request.request_id, _POOLS[request.pool], lowest, highest, _blocked(request.blocked_player_ids)
    )


def _limit(request: pb.SeekRequest, field: Literal["lowest_rating", "highest_rating"]) -> int | None:
    if not request.HasField(field):
        return None
    points: int = getattr(request, field)
    if abs(points) > RATING_MAX:
        raise malformed(f"{field}: must be -{RATING_MAX} to {RATING_MAX}")
    return points


def _blocked(player_ids: Iterable[str]) -> frozenset[str]:
    blocked = frozenset(player_ids)
    if len(blocked) > BLOCKED_MAX:
        raise malformed(f"blocked_player_ids: must be at most {BLOCKED_MAX}")
    for player_id in blocked:
        if not PLAYER_ID.match(player_id):
            raise malformed("blocked_player_ids: must be player ids")
    return blocked


def waiting_to_pb(
    waited_ns: int,
    players_waiting: int,
    rating_window: int,
    estimate: Estimate | None,
    *,
    paused: bool,
    announcement: str,
    house_bots: Iterable[str],
) -> pb.SeekResponse:
    """Queue facts; what does not fit the message is told as the largest value that does."""
    return pb.SeekResponse(
        waiting=pb.Waiting(
            waited_ms=waited_ns // 1_000_000,
            players_waiting=players_waiting,
            rating_window=min(rating_window, 2**31 - 1),
            estimate=None
            if estimate is None
            else pb.WaitEstimate(
                median_ms=estimate.median // 1_000_000,
                most_ms=estimate.most // 1_000_000,
                basis=estimate.basis,
                similar_rating=estimate.similar,
            ),
            paused=paused,
            announcement=announcement,
            house_bots=house_bots,
        )
    )


def player_to_pb(player: PlayerRow) -> table_pb2.Player:
    """A player as others see one."""
    return table_pb2.Player(player_id=player.player_id, name=player.name, bot=player.bot)


def matched_to_pb(
    match_id: str, seat: str, address: str, opponent: PlayerRow, opponent_rating: int
) -> pb.SeekResponse:
    """The match that was found."""
    return pb.SeekResponse(
        matched=pb.Matched(
            match_id=match_id,
            seat=SEAT[Seat(seat)],
            address=address,
            opponent=player_to_pb(opponent),
            opponent_rating=opponent_rating,
        )
    )


def hello_from_pb(message: placement_pb.RegisterRequest | None) -> Hello:
    """The first message of a game process. Raises ServiceError when it is something else."""
    if message is None or message.WhichOneof("message") != "hello":
        raise malformed("hello: must be the first message")
    hello = message.hello
    for field in ("engine_id", "incarnation", "address"):
        if not getattr(hello, field):
            raise malformed(f"hello.{field}: must be given")
    if hello.capacity < 0:
        raise malformed("hello.capacity: must not be negative")
    return Hello(hello.engine_id, hello.incarnation, hello.address, hello.capacity)


def report_from_pb(message: placement_pb.RegisterRequest) -> Placed | Load:
    """A later message of a game process. Raises ServiceError."""
    match message.WhichOneof("message"):
        case "placed":
            return Placed(message.placed.match_id)
        case "load":
            return Load(message.load.live_matches, message.load.accepting)
        case other:
            raise malformed(f"message: {other} is not expected here")


def welcome_to_pb() -> placement_pb.RegisterResponse:
    """The registration is accepted."""
    return placement_pb.RegisterResponse(welcome=placement_pb.Welcome())


def place_to_pb(placement: Placement) -> placement_pb.RegisterResponse:
    """A match to load."""
    return placement_pb.RegisterResponse(
        place=placement_pb.Place(
            match_id=placement.match_id, fence=placement.fence, traceparent=str(placement.trace or "")
        )
    )
