"""The matchmaking process: `python -m services.matchmaking`; with `recompute` the audit of the ladder."""

from __future__ import annotations

import asyncio
import sys
import time

from services.common import logs
from services.common.auth import GUEST_TOKEN_SECONDS, TokenIssuer
from services.common.errors import try_again
from services.common.host import Host, run_service
from services.common.questions import Questions
from services.common.settings import SettingsError, load
from services.matchmaking.admin import OperationsRpc
from services.matchmaking.drains import Drains
from services.matchmaking.identity import GuestRpc, PlayerRpc
from services.matchmaking.ladder import LadderWorker
from services.matchmaking.leadership import Connection, Leadership
from services.matchmaking.lobby import CLOSE_SECONDS_MAX, Lobby
from services.matchmaking.metrics import MatchmakingMetrics
from services.matchmaking.moving import Moving
from services.matchmaking.orders import Orders
from services.matchmaking.placement import Engines
from services.matchmaking.pools import Pools
from services.matchmaking.recompute import command as recompute_command
from services.matchmaking.results import Results
from services.matchmaking.rpc import LadderRpc, MatchmakingRpc, PlacementRpc
from services.matchmaking.rules import RulesRpc
from services.matchmaking.seekers import Seekers
from services.matchmaking.settings import MatchmakingSettings
from services.matchmaking.succession import Succession
from services.matchmaking.waits import Waits
from services.matchmaking.wave import PARALLEL, Wave
from spectacularbid.identity.v1.guest_service_pb2_grpc import add_GuestServiceServicer_to_server
from spectacularbid.identity.v1.player_service_pb2_grpc import add_PlayerServiceServicer_to_server
from spectacularbid.internal.operations.v1.operations_service_pb2_grpc import (
    add_OperationsServiceServicer_to_server,
)
from spectacularbid.internal.placement.v1.placement_service_pb2_grpc import (
    add_PlacementServiceServicer_to_server,
)
from spectacularbid.ladder.v1.ladder_service_pb2_grpc import add_LadderServiceServicer_to_server
from spectacularbid.matchmaking.v1.matchmaking_service_pb2_grpc import (
    add_MatchmakingServiceServicer_to_server,
)
from spectacularbid.rules.v1.rules_service_pb2_grpc import add_RulesServiceServicer_to_server

GUEST_SERVICE = "spectacularbid.identity.v1.GuestService"
OPERATIONS_SERVICE = "spectacularbid.internal.operations.v1.OperationsService"
RULES_SERVICE = "spectacularbid.rules.v1.RulesService"
OPEN_METHODS = frozenset({f"/{GUEST_SERVICE}/CreateGuest", f"/{RULES_SERVICE}/GetRules"})
"""What may be called without a token."""


class Matchmaking:
    """The parts of the process and how they hang together."""

    def __init__(self, host: Host, settings: MatchmakingSettings) -> None:
        self._host = host
        self._settings = settings
        self._seekers = Seekers()
        metrics = MatchmakingMetrics(host.registry)
        self._lead_metrics = metrics.lead
        self._pools = Pools(metrics.seeks)
        self._waits = Waits(time.monotonic_ns)
        metrics.seeks.follow(self._seekers, time.monotonic_ns)
        # An arriving game process may be what those who wait were missing.
        self._engines = Engines(metrics.placement, on_change=lambda: self._wave.wake())
        self._wave = Wave(
            host.pool,
            self._seekers,
            self._pools,
            self._engines,
            self._waits,
            metrics.seeks,
            period_seconds=settings.wave_period_seconds,
            patience_seconds=settings.placed_patience_seconds,
            tracer=host.tracer,
        )
        self._moving = Moving(host.pool, self._engines, metrics.placement)
        self._lobby = Lobby(
            host.pool,
            self._seekers,
            self._pools,
            self._engines,
            self._wave,
            metrics.seeks,
            seeks_max=settings.seeks_max,
            openings_max=max(1, settings.database_pool_size - PARALLEL - 1),
        )
        self._orders = Orders(host.pool, self._pools, self._seekers, self._wave, self._lobby)
        self._drains = Drains(host.pool, self._engines, self._wave, self._lobby)
        self._ladder = LadderWorker(host.pool, metrics.ratings)

    async def serve(self) -> None:
        """Serves until a stop signal; leads whenever it can."""
        leadership = Leadership(self._settings.database_url.get_secret_value(), self._lead_metrics)
        await self._register()
        self._host.add_readiness("lead", lambda: self._lobby.is_open)
        async with asyncio.TaskGroup() as group:
            holding = group.create_task(leadership.hold(self._lead))

            async def give_up_the_lead() -> None:
                holding.cancel()
                # Not longer: when the database hangs, the end of this process ends its lead.
                await asyncio.wait([holding], timeout=self._settings.drain_grace_seconds)

            self._host.on_drain(give_up_the_lead)
            try:
                await self._host.run()
            finally:
                holding.cancel()

    async def _lead(self, connection: Connection) -> None:
        succession = Succession(self._host.pool)
        await succession.take_over()
        await self._orders.refresh()
        await self._drains.refresh()
        self._lobby.open()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(succession.keep())
                group.create_task(self._wave.run())
                group.create_task(self._moving.run())
                group.create_task(self._orders.run())
                group.create_task(self._drains.run())
                group.create_task(self._ladder.run(connection))
        finally:
            await self._lobby.close(try_again("another process takes over; try again", 0.5))
            await succession.leave(CLOSE_SECONDS_MAX)

    async def _register(self) -> None:
        host, settings = self._host, self._settings
        public = await host.public_server(OPEN_METHODS)
        questions = Questions(host.pool, settings.database_pool_size)
        host.register(
            public,
            add_MatchmakingServiceServicer_to_server,
            MatchmakingRpc(self._lobby, self._seekers, self._pools, self._waits, questions, settings),
            "spectacularbid.matchmaking.v1.MatchmakingService",
        )
        host.register(
            public,
            add_LadderServiceServicer_to_server,
            LadderRpc(questions),
            "spectacularbid.ladder.v1.LadderService",
        )
        host.register(
            public,
            add_PlayerServiceServicer_to_server,
            PlayerRpc(questions),
            "spectacularbid.identity.v1.PlayerService",
        )
        host.register(public, add_RulesServiceServicer_to_server, RulesRpc(), RULES_SERVICE)
        if settings.guest_key_file is not None:
            try:
                issuer = TokenIssuer(settings.guest_key_file, settings.token_issuer, settings.token_audience)
            except (OSError, ValueError) as error:
                raise SettingsError(f"SPECTACULAR_BID_GUEST_KEY_FILE: {error}") from None
            host.register(
                public,
                add_GuestServiceServicer_to_server,
                GuestRpc(questions, issuer, min(GUEST_TOKEN_SECONDS, settings.token_seconds_max)),
                GUEST_SERVICE,
            )
        internal = await host.internal_server(operators=f"/{OPERATIONS_SERVICE}/")
        host.register(
            internal,
            add_OperationsServiceServicer_to_server,
            OperationsRpc(
                self._orders,
                self._pools,
                self._seekers,
                host.pool,
                self._drains,
                self._engines,
                Results(host.pool, self._lobby),
            ),
            OPERATIONS_SERVICE,
        )
        host.register(
            internal,
            add_PlacementServiceServicer_to_server,
            PlacementRpc(self._engines, self._lobby),
            "spectacularbid.internal.placement.v1.PlacementService",
        )


async def main() -> None:
    """Runs the process."""
    settings = load(MatchmakingSettings)
    logs.configure(settings.log_level)
    async with Host.open("matchmaking", settings) as host:
        await Matchmaking(host, settings).serve()


if __name__ == "__main__":
    if sys.argv[1:2] == ["recompute"]:
        sys.exit(recompute_command(sys.argv[2:]))
    run_service(main)
