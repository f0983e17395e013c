"""The three services as real processes on a real database, for tests: a test configuration, each port its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

from client.session import Client, MatchHandle, new_guest
from engine.deal import Deal
from services.common.auth import TokenIssuer, write_new_keys
from services.storage.pool import Connection
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.processes import Process, free_port, running

PREFIX = "SPECTACULAR_BID_"
HOST = "127.0.0.1"
SECRET = "a secret of the tests only"
ISSUER, AUDIENCE = "spectacular-bid-local", "spectacular-bid"


@dataclass
class Stack:
    """Clock, matchmaking and game, and players for them."""

    folder: Path
    database_url: str
    exits: AsyncExitStack
    ports: dict[str, int] = field(default_factory=dict)
    processes: dict[str, Process] = field(default_factory=dict)
    extra: dict[str, dict[str, str]] = field(default_factory=dict)
    """More settings, by name of the process."""

    def __post_init__(self) -> None:
        write_new_keys(self.folder / "key.pem", self.folder / "jwks.json")
        self.issuer = TokenIssuer(self.folder / "key.pem", ISSUER, AUDIENCE)
        for name in ("clock", "matchmaking", "placement", "game"):
            self.ports[name] = free_port()

    def address(self, name: str) -> str:
        """host:port of clock, matchmaking, placement (matchmaking's internal port) or game."""
        return f"{HOST}:{self.ports[name]}"

    def _env(self, name: str) -> dict[str, str]:
        own = {
            "clock": {"LISTEN": f"{HOST}:0", "INTERNAL_LISTEN": self.address("clock")},
            "matchmaking": {
                "LISTEN": self.address("matchmaking"),
                "INTERNAL_LISTEN": self.address("placement"),
                "GUEST_KEY_FILE": str(self.folder / "key.pem"),
            },
            "game": {
                "LISTEN": self.address("game"),
                "ENGINE_ID": "game-0",
                "CLOCK_ADDRESS": self.address("clock"),
                "MATCHMAKING_ADDRESS": self.address("placement"),
            },
        }[name]
        common = {
            "ENV": "test",
            "DATABASE_URL": self.database_url,
            "INTERNAL_SECRET": SECRET,
            "JWKS_FILE": str(self.folder / "jwks.json"),
            "METRICS_LISTEN": f"{HOST}:0",
            "DRAIN_GRACE_SECONDS": "2",
        }
        return {PREFIX + key: value for key, value in {**common, **own, **self.extra.get(name, {})}.items()}

    async def start(self, *names: str) -> None:
        """Starts processes and waits until they are ready; a name that ran before comes back on its old ports."""
        for name in names:
            process = await self.exits.enter_async_context(
                running(f"services.{name}", env=self._env(name), log_dir=self.folder, name=name)
            )
            self.processes[name] = process
        for name in names:
            await self.processes[name].ready()

    def token(self, player_id: str, *, bot: bool = False, seconds: int = 3600) -> str:
        """A token of a player, known to the services or not."""
        return self.issuer.issue(player_id, player_id, bot=bot, seconds=seconds)[0]

    async def guest(self, name: str) -> Player:
        """A new player, connected; closed with the stack."""
        identity = await new_guest(self.address("matchmaking"), name)
        return Player(identity.player_id, identity.token, await self.client(identity.token))

    async def client(self, token: str) -> Client:
        """A connection for a token."""
        client = Client(self.address("matchmaking"), token, game_address=self.address("game"))
        return await self.exits.enter_async_context(client)

    async def database(self) -> Connection:
        """A connection to the database; closed with the stack."""
        connection = await asyncpg.connect(self.database_url)
        self.exits.push_async_callback(connection.close)
        return connection


@dataclass(frozen=True)
class Player:
    """A guest."""

    player_id: str
    token: str
    client: Client


@dataclass(frozen=True)
class Pair:
    """Two guests with a match; north created it."""

    north: Player
    south: Player
    match: MatchHandle


@asynccontextmanager
async def stack(
    folder: Path, database_url: str, extra: dict[str, dict[str, str]] | None = None
) -> AsyncIterator[Stack]:
    """A whole stack that is ready."""
    async with AsyncExitStack() as exits:
        made = Stack(folder, database_url, exits, extra=extra or {})
        await made.start("clock", "matchmaking", "game")
        yield made


async def pair(made: Stack, **wanted: Any) -> Pair:
    """Two new guests and their unrated match; `wanted` are further fields of CreateMatchRequest."""
    north, south = await made.guest("Nadia"), await made.guest("Samir")
    request = pb.CreateMatchRequest(player_id=south.player_id, seat=table_pb2.SEAT_NORTH, **wanted)
    return Pair(north, south, await north.client.create_match(request))


def time_control(bank_ms: int, delay_ms: int) -> pb.TimeControl:
    """A scaled clock."""
    return pb.TimeControl(bank_ms=bank_ms, delay_ms=delay_ms)


def scripted(*deals: Deal) -> list[pb.ScriptedDeal]:
    """Deals for CreateMatch."""
    return [
        pb.ScriptedDeal(
            tiles=[
                table_pb2.Tile(low=tile.low, high=tile.high)
                for tile in (*deal.north, *deal.south, *deal.boneyard)
            ]
        )
        for deal in deals
    ]
