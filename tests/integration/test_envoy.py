"""The whole path of players through the gateway: a real Envoy that does what the routes of `k8s/` say, in front of a
stack in its production configuration."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client import CollectorRegistry

from client import News, TableState, Transport
from client.bots import greedy
from client.bots.player import play
from client.errors import from_rpc
from engine.command import Command, Resign
from engine.outcome import Cause
from services.canary.__main__ import play as canary_plays
from services.canary.metrics import CanaryMetrics
from services.canary.settings import CanarySettings
from services.common import channels
from services.common.channels import Options
from services.common.settings import PREFIX, Environment
from services.ops.watch import Screen, follow_clock
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1.match_service_pb2_grpc import MatchServiceStub
from tests.authority import replace
from tests.conditions import TEST_ONLY
from tests.integration.front import (
    ANY_GAME,
    GAMES,
    LISTENERS,
    MATCHMAKING,
    Front,
    gateway_front,
)
from tests.integration.operators import ops
from tests.seats import SECONDS_MAX, eventually, new_id
from tests.stack import HOST

pytestmark = pytest.mark.asyncio(loop_scope="session")

REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
THINK_SECONDS = 0.2


def give_up_after(sequence: int) -> Callable[[TableState], Command | None]:
    """Plays, and resigns when so much has happened: enough to show that things go their way, and soon over."""

    def choose(table: TableState) -> Command | None:
        if table.sequence >= sequence and table.seat is not None:
            return Resign(table.seat)
        return greedy.choose(table)

    return choose


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def front(
    new_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Front]:
    """One for all tests: what it takes long to show goes on behind the others."""
    database_url = await asyncio.to_thread(new_database)
    async with gateway_front(tmp_path_factory.mktemp("gateway"), database_url) as made:
        yield made


# First, since it takes a while to show: see `hold_streams`.


async def test_envoy_runs_by_what_the_manifests_say(front: Front) -> None:
    """No time limit on a request anywhere, where it would be 15 s; quiet streams are ended after minutes; TLS both ways."""
    config = await front.envoy.config()
    (name,) = (name for name in config if name == f"listener {LISTENERS[443]}")
    (chain,) = config[name]["filter_chains"]
    assert "DownstreamTlsContext" in chain["transport_socket"]["typed_config"]["@type"]
    connections, manager = (filtered["typed_config"] for filtered in chain["filters"])
    assert int(connections["max_connections"]) > 0
    assert manager["use_remote_address"], "services limit by the address that Envoy appends"
    assert (manager["stream_idle_timeout"], manager["request_timeout"]) == ("300s", "0s")
    routes = manager["route_config"]["virtual_hosts"]
    assert {host for routed in routes for host in routed["domains"]} >= {
        host.partition(":")[0]
        for host in (MATCHMAKING, ANY_GAME, *(f"{game}.play.example.org" for game in GAMES))
    }
    assert {way["route"].get("timeout") for routed in routes for way in routed["routes"]} == {"0s"}
    text = json.dumps(config)
    for limit in ("max_stream_duration", "max_connection_duration"):
        assert limit not in text
    for name, cluster in config.items():
        if name.startswith("cluster "):
            tls = cluster["transport_socket"]["typed_config"]
            (checked,) = tls["common_tls_context"]["validation_context"]["match_typed_subject_alt_names"]
            assert checked["matcher"]["exact"] == tls["sni"]


async def test_players_meet_and_play_a_rated_match(front: Front) -> None:
    """Seek, the address of the owner, both kinds of streams, the record. The one front door is all one must know."""
    ann, ben = await front.client("ann", MATCHMAKING), await front.client("ben")
    mine, theirs = await asyncio.gather(ann.seek(), ben.seek())
    assert mine.match_id == theirs.match_id
    assert mine.address in [f"{game}.play.example.org:443" for game in GAMES]
    tables = await asyncio.gather(
        play(ann.play(mine), give_up_after(20)),
        play(ben.play(theirs, transport=Transport.WATCH), give_up_after(20)),
    )
    for table in tables:
        assert table.outcome is not None
        assert table.outcome.cause is Cause.RESIGNATION
    assert (await ann.record(mine.match_id)).startswith("{")


async def test_the_canary_plays_through_the_front_door(front: Front, tmp_path: Path) -> None:
    """With the settings of its manifest: TLS, one address for matchmaking and one for any game process."""
    tokens = {seat: front.secure.token(f"canary-{seat}", "canary") for seat in ("north", "south")}
    (tmp_path / "tokens.json").write_text(json.dumps(tokens), "utf-8")
    settings = CanarySettings(
        env=Environment.PRODUCTION,
        canary_server=MATCHMAKING,
        canary_game=ANY_GAME,
        canary_tls=True,
        canary_ca_file=front.outside.file,
        canary_tokens_file=tmp_path / "tokens.json",
    )
    assert await canary_plays(settings, CanaryMetrics(CollectorRegistry()))


@pytest.mark.parametrize("transport", list(Transport))
async def test_whoever_asks_the_wrong_process_is_told_the_right_address_and_goes_there(
    front: Front, transport: Transport
) -> None:
    handle, north, south = await front.pair(f"astray-{transport}", "game-1")
    assert handle.address == "game-1.play.example.org:443"
    wrong = "game-0.play.example.org:443"
    stub = MatchServiceStub(await front.channel(wrong))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.GetMatch(
            pb.GetMatchRequest(match_id=handle.match_id), metadata=front.metadata(f"astray-{transport}-n")
        )
    error = from_rpc(refused.value)
    assert (error.reason, error.metadata["address"]) == ("WRONG_ADDRESS", handle.address)
    assert (await north.get_match(handle.match_id, wrong)).match_id == handle.match_id
    tables = await asyncio.gather(
        play(north.play(handle, wrong, transport=transport), give_up_after(10)),
        play(south.play(handle.match_id, ANY_GAME, transport=transport), give_up_after(10)),
    )
    assert all(table.outcome is not None for table in tables)


async def test_nothing_that_is_for_tests_is_taken_in_production(front: Front) -> None:
    """Scripted deals, other clocks, balances, openings and limits: refused, each named."""
    matches: Any = MatchServiceStub(await front.channel(ANY_GAME))
    for name, value in TEST_ONLY.items():
        request = pb.CreateMatchRequest(request_id=new_id(), player_id="ben", **{name: value})
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await matches.CreateMatch(request, metadata=front.metadata("ann"))
        error = from_rpc(refused.value)
        assert (error.code, error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "TEST_ONLY")
        assert error.message.startswith(f"{name}:")


async def test_what_has_no_route_has_no_way_in(front: Front) -> None:
    """Health, reflection and guests are there behind the gateway, or not, but nobody gets to them."""
    channel = await front.channel(ANY_GAME)
    health: Any = health_pb2_grpc.HealthStub(channel)
    calls: list[Any] = [
        health.Check(health_pb2.HealthCheckRequest()),
        raw(channel, REFLECTION),
        raw(await front.channel(MATCHMAKING), "/spectacularbid.identity.v1.GuestService/CreateGuest"),
        raw(
            await front.channel("elsewhere.play.example.org:443"),
            "/spectacularbid.match.v1.MatchService/GetMatch",
        ),
    ]
    for call in calls:
        assert await call.code() is grpc.StatusCode.UNIMPLEMENTED
        # By Envoy, which says no more. A service that does not know the call has words for that.
        assert not await call.details()


def raw(channel: grpc.aio.Channel, method: str) -> Any:
    """A call without a message to whatever is there."""
    call: Any = channel.unary_unary(method)
    return call(b"")


def operator_certificate(front: Front) -> grpc.ChannelCredentials:
    """What an operator shows."""
    env = front.secure.operator_env()
    names = ("CA", "KEY", "CERT")
    return grpc.ssl_channel_credentials(
        *(Path(env[f"{PREFIX}INTERNAL_TLS_{name}_FILE"]).read_bytes() for name in names)
    )


async def test_in_production_the_internal_port_is_for_certificates_and_describes_nothing(
    front: Front,
) -> None:
    """Health alone is answered in plain text, on its own port; operators come with a certificate and a token."""
    made = front.secure.stack
    listening = await made.processes["matchmaking"].event("listening")
    check = health_pb2.HealthCheckRequest(service="ready")
    async with grpc.aio.insecure_channel(listening["health"]) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        assert (await stub.Check(check)).status == health_pb2.HealthCheckResponse.SERVING
        for method in (
            "/spectacularbid.rules.v1.RulesService/GetRules",
            REFLECTION,
        ):
            assert await raw(channel, method).code() is grpc.StatusCode.UNIMPLEMENTED
    trusting = grpc.ssl_channel_credentials(front.secure.inside.pem)
    for channel in (
        grpc.aio.insecure_channel(listening["internal"]),
        grpc.aio.secure_channel(listening["internal"], trusting),
    ):
        async with channel:
            stub = health_pb2_grpc.HealthStub(channel)
            assert await stub.Check(check).code() is grpc.StatusCode.UNAVAILABLE
    certificate = await asyncio.to_thread(operator_certificate, front)
    async with grpc.aio.secure_channel(listening["internal"], certificate) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        assert (await stub.Check(check)).status == health_pb2.HealthCheckResponse.SERVING
        assert await raw(channel, REFLECTION).code() is grpc.StatusCode.UNIMPLEMENTED
    shown = await ops(made, "game", "list", env=front.secure.operator_env())
    assert all(game in shown for game in GAMES)
    said = asyncio.Queue[str]()

    def connect(address: str, options: Options) -> grpc.aio.Channel:
        return channels.secure(address, options, certificate)

    watching = asyncio.create_task(
        follow_clock(made.address("clock"), front.secure.secret, connect, Screen(said.put_nowait))
    )
    async with asyncio.timeout(SECONDS_MAX):
        assert "game processes 2" in await said.get()
    watching.cancel()


async def test_certificates_and_keys_of_tokens_are_replaced_while_all_play_on(front: Front) -> None:
    made, inside = front.secure.stack, front.secure.inside
    process = made.processes["game-0"]

    def shown() -> object:
        context = ssl.create_default_context(cadata=inside.pem.decode())
        with (
            socket.create_connection((HOST, made.ports["game-0"]), SECONDS_MAX) as plain,
            context.wrap_socket(plain, server_hostname="game.spectacular-bid.svc") as secure,
        ):
            certificate = secure.getpeercert()
            return certificate and certificate["serialNumber"]

    before = await asyncio.to_thread(shown)
    inside.issue("game-0-public", "game.spectacular-bid.svc")
    keys = json.loads((made.folder / "jwks.json").read_text())
    replace(made.folder / "jwks.json", json.dumps({**keys, "changed": True}).encode())
    await process.event("certificate_read", port="public")
    await process.event("token_keys_read")
    assert await asyncio.to_thread(shown) != before
    for held in (front.held["Watch", 443], front.held["Seek", 443]):
        await held.more()
    assert (await (await front.client("ann")).profile()).player_id == "ann"


async def by_sigterm(front: Front) -> None:
    """As Kubernetes ends a pod, and starts it again when its matches are away."""
    assert await front.secure.stack.processes["game-1"].terminate() == 0


async def after_sigterm(front: Front) -> None:
    await front.secure.stack.start("game-1")


async def by_order(front: Front) -> None:
    """As an operator takes a process out of service."""
    await ops(
        front.secure.stack, "game", "drain", "game-1", "--reason", "kernel", env=front.secure.operator_env()
    )


async def after_order(front: Front) -> None:
    await ops(
        front.secure.stack, "game", "resume", "game-1", "--reason", "done", env=front.secure.operator_env()
    )
    await front.secure.stack.processes["game-1"].event("drain_ended")


@pytest.mark.parametrize(
    ("leave", "come_back"),
    [
        pytest.param(by_sigterm, after_sigterm, id="sigterm"),
        pytest.param(by_order, after_order, id="order"),
    ],
)
async def test_players_follow_their_match_when_its_process_is_drained(
    front: Front, leave: Callable[[Front], Awaitable[None]], come_back: Callable[[Front], Awaitable[None]]
) -> None:
    """It goes on at the other process, no event is lost, and nobody loses by it."""
    handle, north, south = await front.pair(new_id(), "game-1")
    other = "game-0.play.example.org:443"
    seen: list[int] = []
    enough, moved = asyncio.Event(), asyncio.Event()

    def hear(news: News) -> None:
        seen.extend(event.sequence for event in news.events)
        if len(seen) > 20:
            enough.set()

    async def choose(table: TableState) -> Command | None:
        """Quick at first, then somebody who thinks, until the match has moved; soon over after that."""
        if moved.is_set() and table.seat is not None:
            return Resign(table.seat)
        if enough.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(moved.wait(), THINK_SECONDS)
        return greedy.choose(table)

    async def is_there() -> bool:
        return await north.locate(handle.match_id) == other

    async with asyncio.TaskGroup() as group:
        group.create_task(play(south.play(handle.match_id, handle.address), choose))
        playing = group.create_task(play(north.play(handle), choose, hear))
        async with asyncio.timeout(SECONDS_MAX):
            await enough.wait()
        await leave(front)
        await eventually(is_there)
        moved.set()
    table: TableState = playing.result()
    assert table.outcome is not None
    assert table.outcome.cause is Cause.RESIGNATION
    assert seen == list(range(seen[0], table.sequence + 1))
    await front.secure.stack.processes["game-0"].event("match_over", match_id=handle.match_id)
    # Whoever asks any process finds the match all the same.
    assert (await north.get_match(handle.match_id, ANY_GAME)).outcome == table.outcome
    await come_back(front)
    again, _, _ = await front.pair(new_id(), "game-1")
    assert again.address == handle.address


async def test_streams_live_on_where_the_manifests_say_so_and_are_cut_where_nobody_does(front: Front) -> None:
    """FC-86: without the policies Envoy cuts a stream after 15 s; with them it lives. An idle timeout shorter than heartbeats cuts
    it at once; one that is longer does not."""
    for call in ("Watch", "Seek"):
        cut, hasty = front.held[call, 444], front.held[call, 445]
        async with asyncio.timeout(SECONDS_MAX):
            assert await cut.task is not grpc.StatusCode.OK
            assert await hasty.task is not grpc.StatusCode.OK
        assert hasty.heard < cut.heard
        for port in (443, 446):
            await front.held[call, port].more()
            assert front.held[call, port].heard > cut.heard
