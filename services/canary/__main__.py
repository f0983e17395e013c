"""`python -m services.canary`: plays a short unrated match every minute and shows what players would have felt."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import signal
import time
from collections.abc import AsyncIterator
from typing import Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from prometheus_client import CollectorRegistry
from prometheus_client.process_collector import ProcessCollector

from services.canary.metrics import CanaryMetrics
from services.canary.settings import CanarySettings
from services.canary.visit import Place, StepFailedError, Visit
from services.common import logs
from services.common.host import READY, run_service
from services.common.metricspage import MetricsPage
from services.common.settings import SettingsError, load

LEAVE_SECONDS: Final = 2.0
"""How long a match under way may take after a stop signal; what it leaves behind then is for the next canary."""


async def serve(settings: CanarySettings) -> None:
    """Plays until a stop signal."""
    log = logs.get_logger()
    log.info("settings", service="canary", **settings.model_dump(mode="json"))
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    registry = CollectorRegistry()
    metrics = CanaryMetrics(registry, importlib.metadata.version("spectacular-bid"))
    ProcessCollector(registry=registry)
    page = MetricsPage(settings.metrics_listen, registry)
    async with _health(settings.health_listen) as health_address:
        log.info("listening", service="canary", metrics=page.address, health=health_address)
        playing = asyncio.create_task(_play_on(settings, metrics, stopping), name="matches")
        stopped = asyncio.create_task(stopping.wait())
        await asyncio.wait({playing, stopped}, return_when=asyncio.FIRST_COMPLETED)
        # It ends by itself, after the match under way, unless it has ended because of a bug.
        await asyncio.wait({playing}, timeout=LEAVE_SECONDS)
        stopped.cancel()
        if playing.done():
            playing.result()
        playing.cancel()
    page.close()
    log.info("stopped", service="canary")


async def _play_on(settings: CanarySettings, metrics: CanaryMetrics, stopping: asyncio.Event) -> None:
    while not stopping.is_set():
        began = time.monotonic()
        await play(settings, metrics)
        left = began + settings.canary_period_seconds - time.monotonic()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), max(0.0, left))


async def play(settings: CanarySettings, metrics: CanaryMetrics) -> bool:
    """One match, counted and logged; whether it succeeded."""
    log = logs.get_logger()
    place = Place(
        settings.canary_server, settings.canary_game, _credentials(settings), settings.canary_step_seconds
    )
    visit = Visit(place, settings.canary_tokens_file, metrics)
    try:
        await visit.run()
    except StepFailedError as failed:
        metrics.failed(failed.step)
        log.warning("canary_failed", step=failed.step.value, why=str(failed), match_id=visit.match_id)
        return False
    metrics.succeeded()
    seconds = {f"{step}_seconds": round(took, 4) for step, took in visit.seconds.items()}
    log.info("canary_played", match_id=visit.match_id, **seconds)
    return True


def _credentials(settings: CanarySettings) -> grpc.ChannelCredentials | None:
    """Read anew for each match, as the file may change. Raises SettingsError when it cannot be read."""
    if not settings.canary_tls:
        return None
    try:
        authority = None if settings.canary_ca_file is None else settings.canary_ca_file.read_bytes()
    except OSError as error:
        raise SettingsError(f"{settings.canary_ca_file}: {error.strerror}") from None
    return grpc.ssl_channel_credentials(authority)


@contextlib.asynccontextmanager
async def _health(listen: str) -> AsyncIterator[str]:
    """A server that says that this process runs. The canary is ready whatever happens to the service: to say what
    happens to it is its work."""
    servicer = health.aio.HealthServicer()
    for name in ("", READY):
        await servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
    server = grpc.aio.server()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    try:
        port = server.add_insecure_port(listen)
    except RuntimeError as error:
        raise SettingsError(f"cannot listen on {listen}: {error}") from None
    await server.start()
    try:
        yield f"{listen.rpartition(':')[0]}:{port}"
    finally:
        await server.stop(None)


def main() -> None:
    """Starts the canary from the environment."""

    async def run() -> None:
        settings = load(CanarySettings)
        logs.configure(settings.log_level)
        await serve(settings)

    run_service(run)


if __name__ == "__main__":
    main()
