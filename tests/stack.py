"""The three services as real processes on a real database, for tests: a test configuration, each port its own."""

from __future__ import annotations

import itertools
import json
import secrets
import signal
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import grpc

from client.session import Client
from engine.event import Event
from engine.eventjson import event_from_json
from engine.match import Match
from engine.seats import NORTH, SEATS, SOUTH, BySeat, Seat
from services.common.auth import TokenIssuer, write_new_keys
from services.storage import matches
from services.storage.logins import ROLES
from services.storage.matches import MatchRow
from services.storage.pool import Connection
from services.storage.script import first_state
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import match_service_pb2_grpc as pb_grpc
from spectacularbid.match.v1 import table_pb2
from tests.hidden import Truth
from tests.processes import Process, free_port, running
from tests.roles import open_roles, url_as

PREFIX = "SPECTACULAR_BID_"
HOST = "127.0.0.1"
SECRET = "a secret of the tests only"
CALLS_PER_SECOND = 500
"""Of a player, here."""
ISSUER, AUDIENCE = "spectacular-bid-local", "spectacular-bid"
SEAT_TO_PB = {None: table_pb2.SEAT_UNSPECIFIED, NORTH: table_pb2.SEAT_NORTH, SOUTH: table_pb2.SEAT_SOUTH}

Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Player:
    """Somebody with a token."""

    player_id: str
    token: str

    @property
    def metadata(self) -> Metadata:
        """What goes with each call."""
        return (("authorization", f"Bearer {self.token}"),)


@dataclass
class Stack:
    """Clock, matchmaking and game processes, and players for them."""

    folder: Path
    database_url: str
    exits: AsyncExitStack
    extra: dict[str, dict[str, str]] = field(default_factory=dict)
    """More settings, by name of the process."""
    modules: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What to run instead of the service of that name, with its arguments."""
    prefixes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What runs the process of that name in an environment of its own."""
    hosts: dict[str, str] = field(default_factory=dict)
    """Where a process listens that is not on loopback."""
    ports: dict[str, int] = field(default_factory=dict)
    processes: dict[str, Process] = field(default_factory=dict)
    _pool: asyncpg.Pool | None = None
    _channels: dict[str, grpc.aio.Channel] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        write_new_keys(self.folder / "key.pem", self.folder / "jwks.json")
        self.issuer = TokenIssuer(self.folder / "key.pem", ISSUER, AUDIENCE)

    # Processes.

    def address(self, name: str) -> str:
        """host:port of clock, matchmaking, placement (matchmaking's internal port) or a game process."""
        if name not in self.ports:
            self.ports[name] = free_port()
        return f"{self.hosts.get(name, HOST)}:{self.ports[name]}"

    def _env(self, name: str) -> dict[str, str]:
        own = {
            "clock": {"LISTEN": f"{HOST}:0", "INTERNAL_LISTEN": self.address(name)},
            "matchmaking": {
                "LISTEN": self.address(name),
                "INTERNAL_LISTEN": self.address(name.replace("matchmaking", "placement")),
                "GUEST_KEY_FILE": str(self.folder / "key.pem"),
            },
            "game": {
                "LISTEN": self.address(name),
                "ENGINE_ID": name,
                "CLOCK_ADDRESS": self.address("clock"),
                "MATCHMAKING_ADDRESS": self.address("placement"),
                # Tests make their matches themselves, and many; those that are over stay for a minute.
                "CREATED_SHARE": "1",
                "CAPACITY": "100000",
            },
            "canary": {
                "CANARY_SERVER": self.address("matchmaking"),
                "CANARY_GAME": self.address("game"),
                "CANARY_TOKENS_FILE": str(self.canary_tokens()),
                "CANARY_PERIOD_SECONDS": "1",
            },
        }[name.partition("-")[0]]
        common = {
            "ENV": "test",
            "DATABASE_URL": self.database_url,
            "INTERNAL_SECRET": SECRET,
            "JWKS_FILE": str(self.folder / "jwks.json"),
            "METRICS_LISTEN": f"{HOST}:0",
            "DRAIN_GRACE_SECONDS": "5",
            # Everybody who plays here has the address of this machine.
            "ADDRESS_LIMITS": "false",
            "CONNECTION_CALLS": "1000",
            # And plays faster than hands.
            "PLAYER_CALLS_PER_SECOND": f"{CALLS_PER_SECOND}",
        }
        settings = {**common, **own, **self.extra.get(name, {})}
        if (role := name.partition("-")[0]) in ROLES:
            # By whatever way it gets there.
            settings["DATABASE_URL"] = url_as(role, settings["DATABASE_URL"])
        return {PREFIX + key: value for key, value in settings.items()}

    async def start(self, *names: str) -> None:
        """Starts processes and waits until they are ready; a name that ran before comes back on its old ports.

        Names are clock, matchmaking, game, and game-1, game-2 and so on for further processes of a kind.
        """
        await self.launch(*names)
        for name in names:
            await self.processes[name].ready()

    async def launch(self, *names: str) -> None:
        """Starts processes without waiting: a standby becomes ready only when it leads."""
        await open_roles(self.database_url)
        for name in names:
            module, *arguments = self.modules.get(name, (f"services.{name.partition('-')[0]}",))
            started = running(
                module,
                *arguments,
                env=self._env(name),
                log_dir=self.folder,
                name=name,
                prefix=self.prefixes.get(name, ()),
            )
            self.processes[name] = await self.exits.enter_async_context(started)

    async def restore(self, *names: str) -> None:
        """Exactly these processes run, whatever a test did to them; readiness follows."""
        for name in list(self.processes):
            self.processes[name].signal(signal.SIGCONT)
            if name not in names:
                await self.processes.pop(name).terminate()
        await self.start(*(name for name in names if self.processes[name].exit_status() is not None))

    async def metrics_address(self, name: str) -> str:
        """Where a process shows its metrics."""
        return str((await self.processes[name].event("listening"))["metrics"])

    def logs(self) -> bytes:
        """Everything all processes have logged."""
        return b"".join(path.read_bytes() for path in sorted(self.folder.glob("*.log")))

    # Players and calls.

    def channel(self, name: str = "game") -> grpc.aio.Channel:
        """One connection to a process, shared by all that ask."""
        if name not in self._channels:
            options = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200)]
            channel = grpc.aio.insecure_channel(self.address(name), options=options)
            self._channels[name] = channel
            self.exits.push_async_callback(channel.close)
        return self._channels[name]

    def matches(self, name: str = "game") -> pb_grpc.MatchServiceStub:
        """The raw calls of a game process."""
        return pb_grpc.MatchServiceStub(self.channel(name))

    def token(
        self, player_id: str, *, bot: bool = False, roles: Iterable[str] = (), seconds: int = 3600
    ) -> str:
        """A token of a player, known to the services or not."""
        return self.issuer.issue(player_id, player_id[:32], bot=bot, roles=roles, seconds=seconds)[0]

    def canary_tokens(self) -> Path:
        """The file with the tokens of the canary's players."""
        path = self.folder / "canary.json"
        tokens = {seat.value: self.token(f"canary-{seat.value}", roles=["canary"]) for seat in SEATS}
        path.write_text(json.dumps(tokens), "utf-8")
        return path

    def spectator(self) -> Player:
        """Somebody who has no seat anywhere."""
        player_id = f"spectator-{next(self._numbers)}"
        return Player(player_id, self.token(player_id))

    async def players(self, count: int) -> list[Player]:
        """New players, known to the services."""
        ids = [f"player-{next(self._numbers)}-{secrets.token_hex(4)}" for _ in range(count)]
        await self.pool.executemany(
            "insert into player (player_id, name) values ($1, $1)", [(player_id,) for player_id in ids]
        )
        return [Player(player_id, self.token(player_id)) for player_id in ids]

    async def client(self, player: Player, *, game_address: str | None = None) -> Client:
        """The client library for a player; closed with the stack."""
        client = Client(
            self.address("matchmaking"), player.token, game_address=game_address or self.address("game")
        )
        return await self.exits.enter_async_context(client)

    async def create(self, players: BySeat[Player], *, game: str = "game", **wanted: Any) -> str:
        """An unrated match of two players, created by north. `wanted` are further fields of CreateMatchRequest."""
        request = pb.CreateMatchRequest(
            request_id=secrets.token_hex(8), player_id=players.south.player_id, **wanted
        )
        created = await self.matches(game).CreateMatch(request, metadata=players.north.metadata)
        return str(created.match_id)

    # The truth.

    @property
    def pool(self) -> asyncpg.Pool:
        """The tests' own connections to the database; needs `stack`."""
        assert self._pool is not None, "made by `stack`"
        return self._pool

    async def database(self) -> Connection:
        """A connection to the database of its own; closed with the stack."""
        connection = await asyncpg.connect(self.database_url)
        self.exits.push_async_callback(connection.close)
        return connection

    async def row(self, match_id: str) -> MatchRow:
        """What the match is."""
        row = await matches.get_match(self.pool, match_id)
        assert row is not None
        return row

    async def events(self, match_id: str) -> list[Event]:
        """All that is stored of a match, nothing left out."""
        log = await matches.get_log(self.pool, match_id)
        return [event_from_json(event) for entry in log for event in entry.event_list()]

    async def truth(self, match_id: str) -> Truth:
        """The true course of a match."""
        return Truth(first_state(await self.row(match_id)), await self.events(match_id))

    async def state(self, match_id: str) -> Match:
        """The true state of a match."""
        return (await self.truth(match_id)).states[-1]

    async def outcome(self, match_id: str) -> asyncpg.Record | None:
        """The stored outcome."""
        return await self.pool.fetchrow("select * from match_outcome where match_id = $1", match_id)

    async def evidence(self, match_id: str) -> dict[str, Any]:
        """What the outcome rests on: the row, with `detail` read."""
        row = await self.pool.fetchrow(
            """
            select e.* from clock_evidence e join match_outcome o on o.evidence_id = e.evidence_id
            where o.match_id = $1
            """,
            match_id,
        )
        assert row is not None
        return {**row, "detail": json.loads(row["detail"])}


@asynccontextmanager
async def stack(
    folder: Path,
    database_url: str,
    extra: dict[str, dict[str, str]] | None = None,
    *,
    names: tuple[str, ...] = ("clock", "matchmaking", "game"),
) -> AsyncIterator[Stack]:
    """A whole stack that is ready."""
    async with AsyncExitStack() as exits:
        pool = await exits.enter_async_context(asyncpg.create_pool(database_url, min_size=1, max_size=4))
        made = Stack(folder, database_url, exits, extra=dict(extra or {}), _pool=pool)
        await made.start(*names)
        yield made


def time_control(bank_ms: int, delay_ms: int) -> pb.TimeControl:
    """A scaled clock."""
    return pb.TimeControl(bank_ms=bank_ms, delay_ms=delay_ms)


def seat_to_pb(seat: Seat | None) -> table_pb2.Seat.ValueType:
    """A seat on the wire."""
    return SEAT_TO_PB[seat]
