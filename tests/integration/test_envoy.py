"""The whole path of players through the gateway: a real Envoy that does what the routes of `k8s/` say, in front of a
stack in its production configuration."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc

from client import Client, News, TableState, Transport
from client.bots import greedy
from client.bots.player import play
from client.errors import from_rpc
from client.session import MatchHandle
from engine.command import Command, Resign
from engine.outcome import Cause
from services.common import channels
from services.common.channels import Options
from services.common.settings import PREFIX
from services.ops.watch import Screen, follow_clock
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1.match_service_pb2_grpc import MatchServiceStub
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as mm_pb
from spectacularbid.matchmaking.v1.matchmaking_service_pb2_grpc import MatchmakingServiceStub
from tests.authority import Authority, replace
from tests.envoy import Envoy, envoy, tunnel
from tests.gateway import Document, Files, Gateway
from tests.integration.operators import ops
from tests.seats import SECONDS_MAX
from tests.securestack import SecureStack, secure_stack
from tests.stack import HOST

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROOT = Path(__file__).resolve().parent.parent.parent
GATEWAY = ROOT / "k8s" / "base" / "gateway"
MATCHMAKING, ANY_GAME = "play.example.org:443", "game.play.example.org:443"
GAMES = ("game-0", "game-1")
LISTENERS = {
    443: "as the manifests say",
    444: "without the policies",
    445: "less idle than heartbeats",
    446: "more idle than heartbeats",
}
"""Ports of the outside world. The last three differ in one thing each, to see what that thing does."""
HEARTBEAT_SECONDS = 1.0
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


def documents() -> list[Document]:
    """What the manifests say about the gateway."""
    names = yaml.safe_load((GATEWAY / "kustomization.yaml").read_text())["resources"]
    return [document for name in names for document in yaml.safe_load_all((GATEWAY / name).read_text())]


def gateways() -> dict[str, Gateway]:
    """One for each of LISTENERS."""
    said = documents()
    policies = ("BackendTrafficPolicy", "ClientTrafficPolicy")

    def idle(duration: str) -> Gateway:
        changed = documents()
        (policy,) = (document for document in changed if document["kind"] == "ClientTrafficPolicy")
        policy["spec"]["timeout"]["http"]["streamIdleTimeout"] = duration
        return Gateway(changed)

    made = (
        Gateway(said),
        Gateway([document for document in said if document["kind"] not in policies]),
        idle("500ms"),
        idle("8s"),
    )
    return dict(zip(LISTENERS.values(), made, strict=True))


@dataclass
class Held:
    """A stream that is read until it ends, while other tests go on."""

    call: Any
    heard: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[grpc.StatusCode] = field(init=False)

    def __post_init__(self) -> None:
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> grpc.StatusCode:
        try:
            while await self.call.read() is not grpc.aio.EOF:
                self.heard += 1
                self.changed.set()
        except grpc.aio.AioRpcError as error:
            return error.code()
        finally:
            self.changed.set()
        return grpc.StatusCode.OK

    async def more(self, than: int | None = None) -> None:
        """Waits until it has heard something again, or more `than` that. Fails when it has ended instead."""
        heard = self.heard if than is None else than
        async with asyncio.timeout(SECONDS_MAX):
            while self.heard <= heard:
                assert not self.task.done(), f"the stream was ended: {self.task.result()}"
                self.changed.clear()
                await self.changed.wait()


def only_start(table: TableState) -> Command | None:
    """Presses Start and does nothing else."""
    return greedy.choose(table) if table.prompt.legal.start else None


def give_up_after(sequence: int) -> Callable[[TableState], Command | None]:
    """Plays, and resigns when so much has happened: enough to show that things go their way, and soon over."""

    def choose(table: TableState) -> Command | None:
        if table.sequence >= sequence and table.seat is not None:
            return Resign(table.seat)
        return greedy.choose(table)

    return choose


@dataclass
class Front:
    """Everything between a player and the database, and streams that are held all the time."""

    secure: SecureStack
    outside: Authority
    envoy: Envoy
    exits: AsyncExitStack
    held: dict[tuple[str, int], Held] = field(default_factory=dict)
    tasks: list[asyncio.Task[TableState]] = field(default_factory=list)

    @property
    def credentials(self) -> grpc.ChannelCredentials:
        """What a player trusts."""
        return grpc.ssl_channel_credentials(self.outside.pem)

    def metadata(self, player_id: str) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.secure.token(player_id)}"),)

    async def channel(self, address: str) -> grpc.aio.Channel:
        """To an address as players are told them."""
        return await self.exits.enter_async_context(grpc.aio.secure_channel(address, self.credentials))

    async def client(self, player_id: str, game_address: str = ANY_GAME) -> Client:
        """The client library for a player."""
        client = Client(
            MATCHMAKING,
            self.secure.token(player_id),
            game_address=game_address,
            credentials=self.credentials,
        )
        return await self.exits.enter_async_context(client)

    async def pair(self, name: str, game: str) -> tuple[MatchHandle, Client, Client]:
        """An unrated match of two new players on this game process."""
        north, south = [
            await self.client(f"{name}-{seat}", f"{game}.{ANY_GAME.partition('.')[2]}") for seat in "ns"
        ]
        await south.profile()
        return await north.challenge(player_id=f"{name}-s"), north, south

    async def hold_streams(self) -> None:
        """One `Watch` and one `Seek` at each listener."""
        handle, north, south = await self.pair("held", "game-0")
        for client in (north, south):
            self.tasks.append(asyncio.create_task(play(client.play(handle), only_start)))
        host = handle.address.rpartition(":")[0]
        for port in LISTENERS:
            watch: Any = MatchServiceStub(await self.channel(f"{host}:{port}")).Watch(
                pb.WatchRequest(match_id=handle.match_id), metadata=self.metadata("held-n")
            )
            # Nobody is so good: this seek waits for ever.
            request = mm_pb.SeekRequest(request_id=f"held-{port}", pool=mm_pb.POOL_RATED, lowest_rating=9000)
            seek: Any = MatchmakingServiceStub(await self.channel(f"play.example.org:{port}")).Seek(
                request, metadata=self.metadata(f"seeker-{port}")
            )
            self.held["Watch", port], self.held["Seek", port] = Held(watch), Held(seek)
        for (_, port), held in self.held.items():
            if port != 445:  # which may be too hasty for a first word
                await held.more(than=0)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def front(
    new_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Front]:
    """The gateway before two game processes, matchmaking and a clock."""
    folder = tmp_path_factory.mktemp("gateway")
    extra: dict[str, dict[str, str]] = {"clock": {}, "matchmaking": {}}
    for game in GAMES:
        address = f"{game}.{ANY_GAME.partition('.')[2]}"
        extra[game] = {"PUBLIC_ADDRESS": address, "HEARTBEAT_SECONDS": str(HEARTBEAT_SECONDS)}
    outside = Authority(folder / "outside", "outside")
    async with AsyncExitStack() as exits:
        database_url = await asyncio.to_thread(new_database)
        secure = await exits.enter_async_context(secure_stack(folder, database_url, extra))
        await secure.stack.start(*extra)
        port = secure.stack.ports
        pods = {
            "matchmaking": [port["matchmaking"]],
            "game": [port[game] for game in GAMES],
            **{game: [port[game]] for game in GAMES},
        }
        cert = outside.issue("gateway", "play.example.org", "*.play.example.org")
        files = Files(*cert, authority=secure.inside.file)
        made = gateways()
        # Listeners that differ in what is the client's side alone share their backends.
        clusters = {
            cluster["name"]: cluster for gateway in made.values() for cluster in gateway.clusters(pods, files)
        }
        listeners = [gateway.listener(name, files) for name, gateway in made.items()]
        running = await exits.enter_async_context(envoy(folder, listeners, list(clusters.values())))
        ports = await running.ports()
        there = {outer: ports[name] for outer, name in LISTENERS.items()}
        network = exits.enter_context(pytest.MonkeyPatch.context())
        network.setenv("grpc_proxy", await exits.enter_async_context(tunnel(there)))
        network.setenv("no_grpc_proxy", HOST)
        clients = await exits.enter_async_context(AsyncExitStack())
        front = Front(secure, outside, running, clients)
        await front.hold_streams()
        yield front
        for held in front.held.values():
            held.call.cancel()
        for task in front.tasks:
            task.cancel()
        await asyncio.gather(*front.tasks, return_exceptions=True)


# First, since it takes a while to show: see `hold_streams`.


async def test_envoy_runs_by_what_the_manifests_say(front: Front) -> None:
    """No time limit on a request anywhere, where it would be 15 s; quiet streams are ended after minutes; TLS both ways."""
    config = await front.envoy.config()
    (name,) = (name for name in config if name == f"listener {LISTENERS[443]}")
    (chain,) = config[name]["filter_chains"]
    assert "DownstreamTlsContext" in chain["transport_socket"]["typed_config"]["@type"]
    manager = chain["filters"][0]["typed_config"]
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


async def test_players_follow_their_match_when_its_process_is_drained(front: Front) -> None:
    """SIGTERM: the matches go on at the other process, no event is lost, and nobody loses by it."""
    made = front.secure.stack
    handle, north, south = await front.pair("moved", "game-1")
    seen: list[int] = []
    choose = give_up_after(80)
    enough = asyncio.Event()

    def hear(news: News) -> None:
        seen.extend(event.sequence for event in news.events)
        if len(seen) > 20:
            enough.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(play(south.play(handle.match_id, handle.address), choose))
        playing = group.create_task(play(north.play(handle), choose, hear))
        async with asyncio.timeout(SECONDS_MAX):
            await enough.wait()
        assert await made.processes["game-1"].terminate() == 0
    table: TableState = playing.result()
    assert table.outcome is not None
    assert table.outcome.cause is Cause.RESIGNATION
    assert seen == list(range(seen[0], table.sequence + 1))
    over = await made.processes["game-0"].event("match_over", match_id=handle.match_id)
    assert over["cause"] == "resignation"
    # The address that is gone answers nothing; whoever still has it finds the match all the same.
    assert (await north.get_match(handle.match_id, ANY_GAME)).outcome == table.outcome
    await made.start("game-1")
    again, _, _ = await front.pair("back", "game-1")
    assert again.address == "game-1.play.example.org:443"


async def test_streams_live_on_where_the_manifests_say_so_and_are_cut_where_nobody_does(front: Front) -> None:
    """Without the policies Envoy cuts a stream after 15 s; with them it lives. An idle timeout shorter than heartbeats cuts
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
