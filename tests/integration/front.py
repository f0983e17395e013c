"""The gateway of the manifests: a real Envoy before a stack in its production configuration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from client import Client, TableState
from client.bots import greedy
from client.bots.player import play
from client.session import MatchHandle
from engine.command import Command
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1.match_service_pb2_grpc import MatchServiceStub
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as mm_pb
from spectacularbid.matchmaking.v1.matchmaking_service_pb2_grpc import MatchmakingServiceStub
from tests.authority import Authority
from tests.envoy import Envoy, envoy, tunnel
from tests.gateway import Document, Files, Gateway
from tests.seats import SECONDS_MAX
from tests.securestack import SecureStack, secure_stack
from tests.stack import HOST

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


@asynccontextmanager
async def gateway_front(folder: Path, database_url: str) -> AsyncIterator[Front]:
    """The gateway before two game processes, matchmaking and a clock."""
    extra: dict[str, dict[str, str]] = {"clock": {}, "matchmaking": {}}
    for game in GAMES:
        address = f"{game}.{ANY_GAME.partition('.')[2]}"
        extra[game] = {"PUBLIC_ADDRESS": address, "HEARTBEAT_SECONDS": str(HEARTBEAT_SECONDS)}
    outside = Authority(folder / "outside", "outside")
    async with AsyncExitStack() as exits:
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
