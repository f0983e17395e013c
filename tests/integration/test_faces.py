"""What operators see: health, readiness, reflection, metrics, settings and logs, and an orderly end."""

from __future__ import annotations

import asyncio
import random
import re
import signal
import urllib.request
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from prometheus_client.parser import text_string_to_metric_families

from engine.seats import BySeat
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.integration.conftest import Behind
from tests.seats import SECONDS_MAX, Sitting, eventually, new_id
from tests.stack import SECRET, Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
ALWAYS = {"grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}
FACES = {
    ("game", "public"): {"spectacularbid.match.v1.MatchService"},
    ("matchmaking", "public"): {
        "spectacularbid.matchmaking.v1.MatchmakingService",
        "spectacularbid.ladder.v1.LadderService",
        "spectacularbid.identity.v1.GuestService",
        "spectacularbid.identity.v1.PlayerService",
        "spectacularbid.rules.v1.RulesService",
    },
    ("matchmaking", "internal"): {
        "spectacularbid.internal.placement.v1.PlacementService",
        "spectacularbid.internal.operations.v1.OperationsService",
    },
    ("clock", "internal"): {"spectacularbid.internal.clock.v1.ClockService"},
}


OF_ONE_MATCH = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-|[0-9a-f]{32}|[0-6]\|[0-6]")
"""Ids of matches, requests and incarnations, and tiles."""


async def address(made: Stack, process: str, face: str) -> str:
    """Where a process listens."""
    return str((await made.processes[process].event("listening"))[face])


async def health(made: Stack, process: str, service: str, face: str = "public") -> int:
    """What a health check says; needs no token."""
    async with grpc.aio.insecure_channel(await address(made, process, face)) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service=service)
        return int((await stub.Check(request, timeout=SECONDS_MAX)).status)


async def page(made: Stack, process: str) -> str:
    """The metrics of a process."""

    def read(url: str) -> str:
        with urllib.request.urlopen(url) as answer:  # noqa: S310 - our own
            text: str = answer.read().decode()
        return text

    return await asyncio.to_thread(read, f"http://{await made.metrics_address(process)}/metrics")


async def holds(made: Stack, process: str, condition: str) -> float:
    """Whether a condition of readiness holds, as the metrics of a process say."""
    line = rf'^spectacular_bid_readiness_condition{{condition="{condition}"}} (\S+)$'
    (value,) = re.findall(line, await page(made, process), re.MULTILINE)
    return float(value)


def series(text: str) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    """Every series of a page."""
    return {
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize(("process", "face"), FACES)
async def test_each_server_answers_for_its_health_and_describes_itself(
    shared: Stack, process: str, face: str
) -> None:
    """grpc.health.v1 for liveness and readiness, and reflection that lists exactly the services that are there; without a token."""
    assert await health(shared, process, "", face) == SERVING
    assert await health(shared, process, "ready", face) == SERVING
    target = await address(shared, process, face)

    def listed() -> set[str]:
        with grpc.insecure_channel(target) as channel:
            return set(ProtoReflectionDescriptorDatabase(channel).get_services())

    assert await asyncio.to_thread(listed) == FACES[process, face] | ALWAYS


async def test_the_internal_streams_need_the_secret(shared: Stack) -> None:
    """A player's token opens nothing inside, and neither does nothing at all."""
    (player,) = await shared.players(1)
    for process, method in (
        ("clock", "/spectacularbid.internal.clock.v1.ClockService/Govern"),
        ("matchmaking", "/spectacularbid.internal.placement.v1.PlacementService/Register"),
    ):
        async with grpc.aio.insecure_channel(await address(shared, process, "internal")) as channel:
            for metadata in ((), player.metadata, (("authorization", "Bearer "),)):
                call: Any = channel.stream_stream(method)
                assert await call(metadata=metadata).code() is grpc.StatusCode.UNAUTHENTICATED


async def test_series_are_closed_whatever_players_do(shared: Stack) -> None:
    """Matches, refusals, unknown methods and bad tokens add no series: no label holds what a caller chooses. What is counted
    is counted."""
    before = {name: await page(shared, name) for name in shared.processes}
    players = await shared.players(12)

    async def one_match(number: int) -> None:
        pair = BySeat(players[2 * number], players[2 * number + 1])
        match_id = await shared.create(pair)
        await asyncio.gather(
            *(
                Sitting(shared.matches(), player.metadata, match_id, random.Random(number), patience=8).play()
                for player in pair
            )
        )

    await asyncio.gather(*(one_match(number) for number in range(6)))
    channel = shared.channel()
    for method in ("/spectacularbid.match.v1.MatchService/Nothing", "/no.such.Service/At", f"/{new_id()}/x"):
        call: Any = channel.unary_unary(method)
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await call(b"", metadata=players[0].metadata)
        assert unknown.value.code() is grpc.StatusCode.UNIMPLEMENTED
    with suppress(grpc.aio.AioRpcError):
        await shared.matches().GetMatch(pb.GetMatchRequest(match_id=new_id()), metadata=())
    after = {name: await page(shared, name) for name in shared.processes}
    for name in shared.processes:
        assert series(before[name]) == series(after[name])
    values = {value for text in after.values() for _, pairs in series(text) for _, value in pairs}
    assert not {value for value in values for player in players if player.player_id in value}
    assert not {value for value in values if OF_ONE_MATCH.search(value)}
    created = (
        'grpc_server_handled_total{grpc_code="OK",grpc_method="CreateMatch",'
        'grpc_service="spectacularbid.match.v1.MatchService",grpc_type="unary"}'
    )

    def count(text: str) -> float:
        (value,) = re.findall(rf"^{re.escape(created)} (\S+)$", text, re.MULTILINE)
        return float(value)

    assert count(after["game"]) - count(before["game"]) == 6


async def test_settings_are_shown_and_secrets_are_not(shared: Stack) -> None:
    """Each process says at its start how it is configured; no secret, password, key or token is in any log."""
    password = urlsplit(shared.database_url).password
    logs = shared.logs().decode()
    for name in shared.processes:
        shown = await shared.processes[name].event("settings")
        assert shown["env"] == "test"
        assert set(shown["database_url"]) == {"*"}
        assert set(shown["internal_secret"]) == {"*"}
    assert SECRET not in logs
    assert password is None or password not in logs
    assert "PRIVATE KEY" not in logs
    assert "eyJ" not in logs  # how each token begins


async def test_readiness_follows_the_database_and_liveness_does_not(behind: Behind) -> None:
    """PostgreSQL cannot be reached: every process is alive and not ready; it is back by itself."""
    faces = {"game": "public", "matchmaking": "public", "clock": "internal"}

    async def all_are(status: int) -> bool:
        found = {await health(behind.stack, process, "ready", face) for process, face in faces.items()}
        return found == {status}

    behind.proxy.refusing = True
    behind.proxy.cut()
    await eventually(lambda: all_are(NOT_SERVING))
    for process, face in faces.items():
        assert await health(behind.stack, process, "", face) == SERVING
        assert await holds(behind.stack, process, "database") == 0
    behind.proxy.heal()
    await eventually(lambda: all_are(SERVING))
    for process in faces:
        assert await holds(behind.stack, process, "database") == 1
    players = BySeat(*await behind.stack.players(2))
    assert await behind.stack.create(players)


async def test_a_game_process_without_a_clock_is_alive_and_not_ready(own: Stack) -> None:
    """It takes up matches no more, and is back as soon as a clock is."""
    own.processes["clock"].kill()

    async def status_is(status: int) -> bool:
        return await health(own, "game", "ready") == status

    await eventually(lambda: status_is(NOT_SERVING))
    assert await health(own, "game", "") == SERVING
    await own.start("clock")
    await eventually(lambda: status_is(SERVING))


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
async def test_a_stop_is_orderly(fresh: Stack, number: signal.Signals) -> None:
    """Each process says that it drains, and ends with status 0, in whatever order they are stopped."""
    for name in ("clock", "game", "matchmaking"):
        fresh.processes[name].signal(number)
    for process in fresh.processes.values():
        assert await process.ended() == 0
        names = [event["event"] for event in process.events()]
        assert names.index("draining") < names.index("stopped")
    assert b"Traceback" not in fresh.logs()
