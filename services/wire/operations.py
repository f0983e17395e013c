"""Orders of operators as messages of internal.operations.v1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from services.common.errors import malformed
from services.storage.poolorders import Action, NewOrder, PoolOrder
from services.storage.seeks import PoolName
from spectacularbid.internal.operations.v1 import operations_service_pb2 as pb
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as matchmaking_pb

TEXT_MAX: Final = 500
"""Characters of an announcement or a reason."""
ORDERS_MAX: Final = 1000
"""Orders that are shown at once."""

_POOLS: Final[Mapping[PoolName, matchmaking_pb.Pool.ValueType]] = {
    "rated": matchmaking_pb.POOL_RATED,
    "casual": matchmaking_pb.POOL_CASUAL,
}
_NAMES: Final[Mapping[int, PoolName]] = {number: name for name, number in _POOLS.items()}
_ACTIONS: Final[Mapping[int, Action]] = {
    pb.POOL_MODE_OPEN: "resume",
    pb.POOL_MODE_PAUSED: "pause",
    pb.POOL_MODE_DRAINING: "drain",
}
_MODES: Final[Mapping[str, pb.PoolMode.ValueType]] = {
    "open": pb.POOL_MODE_OPEN,
    "paused": pb.POOL_MODE_PAUSED,
    "draining": pb.POOL_MODE_DRAINING,
}


def order_count_from_pb(request: pb.GetPoolsRequest) -> int:
    """How many orders are wanted. Raises ServiceError."""
    if not 0 <= request.orders <= ORDERS_MAX:
        raise malformed(f"orders: must be 0 to {ORDERS_MAX}")
    return request.orders


def mode_order_from_pb(request: pb.SetPoolModeRequest, author: str) -> tuple[list[PoolName], NewOrder]:
    """Which pools, and what is ordered. Raises ServiceError naming the field at fault."""
    if request.mode not in _ACTIONS:
        raise malformed("mode: must be given")
    action = _ACTIONS[request.mode]
    reason = reason_from_pb(request.reason)
    if action == "resume" and request.HasField("until"):
        raise malformed("until: an open pool does not end by itself")
    until = _until(request.until) if request.HasField("until") else None
    return _pools(request.pools), NewOrder(action, author, reason, until=until)


def announcement_from_pb(request: pb.AnnounceRequest, author: str) -> tuple[list[PoolName], NewOrder]:
    """Which pools, and what is announced. Raises ServiceError naming the field at fault."""
    text = text_from_pb(request.text, "text")
    if not text and request.HasField("until"):
        raise malformed("until: nothing is announced")
    until = _until(request.until) if request.HasField("until") else None
    return _pools(request.pools), NewOrder(
        "announce", author, reason_from_pb(request.reason), announcement=text, until=until
    )


def _pools(numbers: Iterable[int]) -> list[PoolName]:
    wanted = set(numbers) or set(_NAMES)
    if not wanted <= set(_NAMES):
        raise malformed(f"pools: {min(wanted - set(_NAMES))} is no pool")
    return [name for name, number in _POOLS.items() if number in wanted]


def text_from_pb(text: str, field: str) -> str:
    """What an operator says, fit to be shown. Raises ServiceError naming the field."""
    stripped = text.strip()
    if len(stripped) > TEXT_MAX:
        raise malformed(f"{field}: must be at most {TEXT_MAX} characters")
    # It reaches terminals: nothing in it may move a cursor.
    if not stripped.isprintable():
        raise malformed(f"{field}: has characters that cannot be printed")
    return stripped


def reason_from_pb(reason: str) -> str:
    """Why something is ordered. Raises ServiceError."""
    text = text_from_pb(reason, "reason")
    if not text:
        raise malformed("reason: must be given")
    return text


def _until(stamp: Timestamp) -> datetime:
    try:
        until = stamp.ToDatetime(UTC)
    except (ValueError, OverflowError):
        raise malformed("until: is no time") from None
    if until <= datetime.now(UTC):
        raise malformed("until: must be in the future")
    return until


def order_to_pb(order: PoolOrder) -> pb.PoolOrder:
    """An order."""
    message = pb.PoolOrder(
        order_no=order.order_no,
        pool=_POOLS[order.pool],
        action=order.action,
        announcement=order.announcement,
        author=order.author,
        reason=order.reason,
    )
    message.ordered_at.FromDatetime(order.at)
    if order.until is not None:
        message.until.FromDatetime(order.until)
    return message


def state_to_pb(
    pool: PoolName, mode: str, mode_order: PoolOrder | None, announced: PoolOrder | None, waiting: int
) -> pb.PoolState:
    """A pool now."""
    return pb.PoolState(
        pool=_POOLS[pool],
        mode=_MODES[mode],
        mode_order=None if mode_order is None else order_to_pb(mode_order),
        announcement=None if announced is None else order_to_pb(announced),
        players_waiting=waiting,
    )
