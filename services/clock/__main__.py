"""The clock process: `python -m services.clock`; and `python -m services.clock explain MATCH_ID`, the dispute procedure."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from uuid import uuid4

import uvloop

from services.clock.explain import command as explain_command
from services.clock.keeping import Keeping
from services.clock.metrics import ClockMetrics
from services.clock.rpc import SERVICE_NAME, ClockRpc
from services.clock.settings import ClockSettings
from services.clock.timekeeper import Timekeeper
from services.common import logs
from services.common.collector import Collector
from services.common.host import Host, run_service
from services.common.settings import load
from services.storage.incidentlog import IncidentLog
from services.wire.clock_messages import Policy
from spectacularbid.internal.clock.v1.clock_service_pb2_grpc import add_ClockServiceServicer_to_server

LAST_STORE_SECONDS = 2.0
"""How long a leaving process tries to keep what it noticed last."""


async def main() -> None:
    """Runs the process."""
    settings = load(ClockSettings)
    logs.configure(settings.log_level)
    async with Host.open("clock", settings) as host:
        keeper = Timekeeper(f"clock-{uuid4()}", Policy(), lambda: str(uuid4()))
        incidents = IncidentLog()
        metrics = ClockMetrics(host.registry)
        keeping = Keeping(incidents, keeper.clock_id, keeper.policy.version)
        rpc = ClockRpc(keeper, metrics, keeping, host.tracer)
        server = await host.internal_server()
        host.register(server, add_ClockServiceServicer_to_server, rpc, SERVICE_NAME)
        host.on_drain(rpc.drain)
        storing = asyncio.create_task(incidents.run(host.pool), name="incidents")
        try:
            async with Collector().working():
                await host.run()
        finally:
            storing.cancel()
            with suppress(asyncio.CancelledError):
                await storing
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_STORE_SECONDS):
                    await incidents.store(host.pool)


if __name__ == "__main__":
    if sys.argv[1:2] == ["explain"]:
        sys.exit(explain_command(sys.argv[2:]))
    run_service(main, loop_factory=uvloop.new_event_loop)
