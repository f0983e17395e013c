"""The calls of operators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grpc

from services.common.auth import caller
from services.matchmaking.drains import Drains
from services.matchmaking.orders import Orders
from services.matchmaking.placement import Engines
from services.matchmaking.pools import Pools
from services.matchmaking.results import Results
from services.matchmaking.seekers import POOLS, Seekers
from services.storage import poolorders
from services.storage.pool import Pool
from services.storage.seeks import PoolName
from services.wire import operations as wire
from services.wire import processes
from spectacularbid.internal.operations.v1 import operations_service_pb2 as pb
from spectacularbid.internal.operations.v1 import results_pb2
from spectacularbid.internal.operations.v1.operations_service_pb2_grpc import OperationsServiceServicer

Context = grpc.aio.ServicerContext[Any, Any]


class OperationsRpc(OperationsServiceServicer):
    """Pauses, drains, announcements, declarations, rulings. Who may call is settled at the gate."""

    def __init__(
        self,
        orders: Orders,
        pools: Pools,
        seekers: Seekers,
        pool: Pool,
        drains: Drains,
        engines: Engines,
        results: Results,
    ) -> None:
        self._orders = orders
        self._pools = pools
        self._seekers = seekers
        self._pool = pool
        self._drains = drains
        self._engines = engines
        self._results = results

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

    async def GetGames(self, request: pb.GetGamesRequest, _context: Context) -> pb.GetGamesResponse:
        known, orders = await self._drains.list(processes.order_count_from_pb(request))
        return processes.games_to_pb(known, self._engines.accepting, orders)

    async def DrainGame(self, request: pb.DrainGameRequest, _context: Context) -> pb.DrainGameResponse:
        engine_id = processes.engine_id_from_pb(request.engine_id)
        reason = wire.reason_from_pb(request.reason)
        process = await self._drains.drain(engine_id, caller().player_id, reason, force=request.force)
        return pb.DrainGameResponse(game=processes.game_to_pb(process, self._engines.accepting))

    async def ResumeGame(self, request: pb.ResumeGameRequest, _context: Context) -> pb.ResumeGameResponse:
        engine_id = processes.engine_id_from_pb(request.engine_id)
        reason = wire.reason_from_pb(request.reason)
        process = await self._drains.resume(engine_id, caller().player_id, reason)
        return pb.ResumeGameResponse(game=processes.game_to_pb(process, self._engines.accepting))

    async def DeclareIncident(
        self, request: results_pb2.DeclareIncidentRequest, _context: Context
    ) -> results_pb2.DeclareIncidentResponse:
        return await self._results.declare(request, caller().player_id)

    async def CloseIncident(
        self, request: results_pb2.CloseIncidentRequest, _context: Context
    ) -> results_pb2.CloseIncidentResponse:
        return await self._results.close(request, caller().player_id)

    async def VoidMatch(
        self, request: results_pb2.VoidMatchRequest, _context: Context
    ) -> results_pb2.VoidMatchResponse:
        return await self._results.void(request, caller().player_id)

    async def RuleResults(
        self, request: results_pb2.RuleResultsRequest, _context: Context
    ) -> results_pb2.RuleResultsResponse:
        return await self._results.rule(request, caller().player_id)

    async def RecomputeLadder(
        self, request: results_pb2.RecomputeLadderRequest, _context: Context
    ) -> results_pb2.RecomputeLadderResponse:
        return await self._results.recompute(request, caller().player_id)

    async def RevokeTokens(
        self, request: pb.RevokeTokensRequest, _context: Context
    ) -> pb.RevokeTokensResponse:
        return await self._results.revoke_tokens(request, caller().player_id)

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
