"""The calls of operators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grpc

from services.common.auth import caller
from services.matchmaking.orders import Orders
from services.matchmaking.pools import Pools
from services.matchmaking.seekers import POOLS, Seekers
from services.storage import poolorders
from services.storage.pool import Pool
from services.storage.seeks import PoolName
from services.wire import operations as wire
from spectacularbid.internal.operations.v1 import operations_service_pb2 as pb
from spectacularbid.internal.operations.v1.operations_service_pb2_grpc import OperationsServiceServicer

Context = grpc.aio.ServicerContext[Any, Any]


class OperationsRpc(OperationsServiceServicer):
    """Pauses, drains, announcements. Who may call is settled at the gate."""

    def __init__(self, orders: Orders, pools: Pools, seekers: Seekers, pool: Pool) -> None:
        self._orders = orders
        self._pools = pools
        self._seekers = seekers
        self._pool = pool

    async def GetPools(self, request: pb.GetPoolsRequest, _context: Context) -> pb.GetPoolsResponse:
        count = wire.order_count_from_pb(request)
        await self._orders.refresh_as_leader()
        async with self._pool.acquire() as connection:
            last = await poolorders.last_orders(connection, count)
        return pb.GetPoolsResponse(pools=self._states(POOLS), orders=map(wire.order_to_pb, last))

    async def SetPoolMode(self, request: pb.SetPoolModeRequest, _context: Context) -> pb.SetPoolModeResponse:
        pools, order = wire.mode_order_from_pb(request, caller().player_id)
        await self._orders.give(pools, order)
        return pb.SetPoolModeResponse(pools=self._states(pools))

    async def Announce(self, request: pb.AnnounceRequest, _context: Context) -> pb.AnnounceResponse:
        pools, order = wire.announcement_from_pb(request, caller().player_id)
        await self._orders.give(pools, order)
        return pb.AnnounceResponse(pools=self._states(pools))

    def _states(self, pools: Iterable[PoolName]) -> list[pb.PoolState]:
        return [
            wire.state_to_pb(
                pool,
                self._pools[pool].mode,
                self._pools[pool].mode_order,
                self._pools[pool].announced,
                self._seekers.count(pool),
            )
            for pool in pools
        ]
