"""Game processes and the orders about them as messages of internal.operations.v1."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from services.common.errors import malformed
from services.storage.processorders import GameProcess, ProcessOrder, Standing
from services.wire.operations import ORDERS_MAX
from spectacularbid.internal.operations.v1 import operations_service_pb2 as pb

ENGINE_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_STANDINGS: Final[Mapping[Standing, pb.GameStanding.ValueType]] = {
    "ready": pb.GAME_STANDING_READY,
    "unready": pb.GAME_STANDING_UNREADY,
    "drained": pb.GAME_STANDING_DRAINED,
    "leaving": pb.GAME_STANDING_LEAVING,
}


def engine_id_from_pb(engine_id: str) -> str:
    """The name of a game process. Raises ServiceError."""
    if not ENGINE_ID.match(engine_id):
        raise malformed("engine_id: is no name of a game process")
    return engine_id


def order_count_from_pb(request: pb.GetGamesRequest) -> int:
    """How many orders are wanted. Raises ServiceError."""
    if not 0 <= request.orders <= ORDERS_MAX:
        raise malformed(f"orders: must be 0 to {ORDERS_MAX}")
    return request.orders


def order_to_pb(order: ProcessOrder) -> pb.GameOrder:
    """An order."""
    message = pb.GameOrder(
        order_no=order.order_no,
        engine_id=order.engine_id,
        action=order.action,
        author=order.author,
        reason=order.reason,
    )
    message.ordered_at.FromDatetime(order.at)
    return message


def games_to_pb(
    processes: Iterable[GameProcess], registered: Mapping[str, bool], orders: Iterable[ProcessOrder] = ()
) -> pb.GetGamesResponse:
    """Game processes; `registered` says of those that are whether they accept matches."""
    return pb.GetGamesResponse(
        games=[game_to_pb(process, registered) for process in processes],
        orders=[order_to_pb(order) for order in orders],
    )


def game_to_pb(process: GameProcess, registered: Mapping[str, bool]) -> pb.Game:
    """One of them."""
    return pb.Game(
        engine_id=process.engine_id,
        incarnation=process.incarnation,
        address=process.address,
        standing=_STANDINGS[process.standing] if process.alive else pb.GAME_STANDING_GONE,
        registered=process.engine_id in registered,
        accepting=registered.get(process.engine_id, False),
        capacity=process.capacity,
        live_matches=process.live_matches,
        order=None if process.order is None else order_to_pb(process.order),
    )
