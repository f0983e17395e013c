"""The local stack: everything started in order, watched while it serves, stopped in order."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import time
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import asyncpg
import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.common.auth import HOUSE_BOTS, house_bot_id
from services.common.host import READY
from services.local.child import Child, how_it_ended, tail
from services.local.display import Display
from services.local.places import DEFAULT_PORTS, HOST, Places, choose_ports, issuer_and_audience
from services.local.postgres import EmbeddedPostgres
from services.storage.logins import let_in, new_passwords, url_of
from services.storage.migrate import migrate

T = TypeVar("T")

PREFIX = "SPECTACULAR_BID_"

_SERVICES = ("clock", "matchmaking", "game")
_START_ATTEMPTS_MAX = 3
_READY_SECONDS_MAX = 60.0
_STOP_GRACE_SECONDS = 10.0
_LOOK_SECONDS = 0.05
_POSTGRES_LOOK_SECONDS = 0.25


class BrokenError(Exception):
    """A part of the stack has died or does not come up; the text names it and ends with the end of its log."""

    def __init__(self, what: str, log_path: Path) -> None:
        end = tail(log_path)
        found = f"The end of {log_path}:\n{end}" if end else f"Its log {log_path} is empty."
        super().__init__(f"{what}. {found}")
        self.port_taken = "cannot listen" in end or "Address already in use" in end


class StoppedError(Exception):
    """Somebody asked the stack to stop."""


class Stack:
    """PostgreSQL, the services and the house bots. `async with` starts them, and stops whatever was started.

    SIGINT and SIGTERM make `during` raise StoppedError. Raises BrokenError when a part dies or does not come up.
    """

    def __init__(self, places: Places, display: Display) -> None:
        self.places = places
        self.ports: dict[str, int] = {}
        self._display = display
        self._stop = asyncio.Event()
        self._secret = secrets.token_urlsafe(24)
        self._database_url = os.environ.get(f"{PREFIX}DATABASE_URL", "")
        self._passwords: dict[str, str] = {}
        self._postgres: EmbeddedPostgres | None = None
        self._postgres_starting: asyncio.Future[str] | None = None
        self._services: dict[str, Child] = {}
        self._bots: list[Child] = []
        self._canary: Child | None = None
        self._ends: dict[asyncio.Task[int], tuple[str, Path]] = {}

    def address(self, name: str) -> str:
        """host:port of one of DEFAULT_PORTS."""
        return f"{HOST}:{self.ports[name]}"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop.set)
        try:
            await self._start_database()
            await self._start_services()
            self._write_serving()
            await self._start_house_bots()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def during(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, which is given up when the stack is asked to stop or a part of it dies."""
        task = asyncio.create_task(work)
        stopped = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({task, stopped, *self._ends}, return_when=asyncio.FIRST_COMPLETED)
            if self._stop.is_set():
                raise StoppedError
            for end, (name, log_path) in self._ends.items():
                if end.done():
                    raise BrokenError(f"{name} has died ({how_it_ended(end.result())})", log_path)
            return await task
        finally:
            for each in (task, stopped):
                each.cancel()
            await asyncio.gather(task, stopped, return_exceptions=True)

    async def serve(self) -> None:
        """Until the stack is asked to stop. Raises BrokenError when a part of it dies."""
        with suppress(StoppedError):
            if self._canary is not None:
                await self.during(self._until_listening(self._canary))
                self._write_serving(f"canary={self._canary.listening_on('metrics')}")
            await self.during(self._stop.wait())

    async def run_match(self) -> int:
        """Have the two demonstration bots play; their account goes to our own output. Their exit status."""
        arguments = ("match", "--state", str(self.places.bots), *self.client_options())
        match = await Child.start("bots", "client.bots", *arguments, env=os.environ)
        self._bots.append(match)
        return await self.during(match.ended())

    def client_options(self, *, game: bool = True, always: bool = True) -> list[str]:
        """What a client needs on its command line to find this stack; nothing where its defaults are right."""
        wanted = [("--server", "matchmaking"), *([("--game", "game")] if game else [])]
        return [
            part
            for option, name in wanted
            if always or self.ports[name] != DEFAULT_PORTS[name]
            for part in (option, self.address(name))
        ]

    # Starting

    def _choose_ports(self) -> None:
        self.ports = choose_ports()
        for name, port in self.ports.items():
            if port != DEFAULT_PORTS[name]:
                self._display.say(f"  port {DEFAULT_PORTS[name]} is taken: {name} uses {port} instead")

    async def _start_database(self) -> None:
        began = time.monotonic()
        where = "as configured"
        with self._display.waiting("starting PostgreSQL"):
            if not self._database_url:
                self._postgres = EmbeddedPostgres(self.places.postgres)
                # A thread cannot be cancelled; whoever stops the server waits for it.
                starting = asyncio.ensure_future(asyncio.to_thread(self._postgres.start))
                self._postgres_starting = starting
                self._database_url = await self.during(_waited(starting))
                self._watch("postgres", self._postgres_ended(self._postgres), self._postgres.log_path)
                where = self._database_url.rpartition("@")[2].partition("/")[0]
            await self.during(asyncio.to_thread(migrate, self._database_url))
            if self._postgres is not None:
                # On a server of somebody else's the roles may have passwords already: there all come as they were told.
                self._passwords = new_passwords()
                await self.during(_let_in(self._database_url, self._passwords))
        self._display.ready("postgres", where, time.monotonic() - began)

    def _database_url_of(self, role: str) -> str:
        """The database as a service has it: with a role and a password of its own, which last as long as this stack."""
        password = self._passwords.get(role)
        return self._database_url if password is None else url_of(self._database_url, role, password)

    async def _postgres_ended(self, postgres: EmbeddedPostgres) -> int:
        while (status := postgres.exit_status()) is None:  # noqa: ASYNC110  a process sets no event
            await asyncio.sleep(_POSTGRES_LOOK_SECONDS)
        return status

    async def _start_services(self) -> None:
        attempts_left = _START_ATTEMPTS_MAX
        while True:
            self._choose_ports()
            attempts_left -= 1
            try:
                await self._start_services_once()
            except BrokenError as problem:
                # Somebody else took a port between our look and the service's: look again.
                if not (problem.port_taken and attempts_left):
                    raise
                await self._stop_services()
            else:
                return

    async def _start_services_once(self) -> None:
        began = time.monotonic()
        env = self._service_environment()
        for name in _SERVICES:
            await self._start_child(name, f"services.{name}", env=env[name])
        with self._display.waiting("starting the services"):
            # First all of them: whoever is told that a service is ready can rely on it.
            for name in _SERVICES:
                await self.during(self._until_listening(self._services[name]))
            for name in _SERVICES:
                await self.during(self._until_ready(name))
                self._display.ready(name, self.address(name), time.monotonic() - began)

    async def _until_listening(self, child: Child) -> None:
        """It says so itself: on its port somebody else might answer."""
        while not child.listening_on():  # noqa: ASYNC110  a file sets no event
            await asyncio.sleep(_LOOK_SECONDS)

    def _service_environment(self) -> dict[str, dict[str, str]]:
        """The environment of each service: ours, and what the stack decides."""
        common = {
            "ENV": os.environ.get(f"{PREFIX}ENV", "development"),
            "INTERNAL_SECRET": self._secret,
            "JWKS_FILE": str(self.places.jwks.absolute()),
            # We read there that a service is listening.
            "LOG_LEVEL": "debug" if os.environ.get(f"{PREFIX}LOG_LEVEL") == "debug" else "info",
            # Everybody who plays here has the address of this machine.
            "ADDRESS_LIMITS": "false",
            "CONNECTION_CALLS": "1000",
            # Arenas and populations play faster than hands.
            "PLAYER_CALLS_PER_SECOND": "500",
            "DRAIN_GRACE_SECONDS": os.environ.get(f"{PREFIX}DRAIN_GRACE_SECONDS", "2"),
        }
        own = {
            "clock": {"LISTEN": f"{HOST}:0", "INTERNAL_LISTEN": self.address("clock")},
            "matchmaking": {
                "LISTEN": self.address("matchmaking"),
                "INTERNAL_LISTEN": self.address("matchmaking, internal"),
                "GUEST_KEY_FILE": str(self.places.signing_key.absolute()),
            },
            "game": {
                "LISTEN": self.address("game"),
                "PUBLIC_ADDRESS": self.address("game"),
                # The same in every run: a stack that comes back takes up the matches that were cut off.
                "ENGINE_ID": "local",
                "CLOCK_ADDRESS": self.address("clock"),
                "MATCHMAKING_ADDRESS": self.address("matchmaking, internal"),
            },
        }
        return {
            name: os.environ
            | {
                f"{PREFIX}{key}": value
                for key, value in {
                    **common,
                    **own[name],
                    "DATABASE_URL": self._database_url_of(name),
                    "METRICS_LISTEN": self.address(f"{name} metrics"),
                }.items()
            }
            for name in _SERVICES
        }

    async def _until_ready(self, name: str) -> None:
        async with grpc.aio.insecure_channel(self.address(name)) as channel:
            health: Any = health_pb2_grpc.HealthStub(channel)
            request = health_pb2.HealthCheckRequest(service=READY)
            give_up = time.monotonic() + _READY_SECONDS_MAX
            while time.monotonic() < give_up:
                with suppress(grpc.aio.AioRpcError):
                    answer = await health.Check(request, timeout=1.0, wait_for_ready=True)
                    if answer.status == health_pb2.HealthCheckResponse.SERVING:
                        return
                await asyncio.sleep(_LOOK_SECONDS)
        log_path = self._log_path(name)
        raise BrokenError(f"{name} is not ready after {_READY_SECONDS_MAX:.0f} s", log_path)

    async def _start_house_bots(self) -> None:
        signed = issuer_and_audience()
        tokens = {name: self.places.bot_token(house_bot_id(name), name, *signed) for name in HOUSE_BOTS}
        bots = await self._start_child(
            "house-bots",
            "client.bots",
            *("house", *self.client_options()),
            env=os.environ | {f"{PREFIX}BOT_TOKENS": json.dumps(tokens)},
        )
        del self._services["house-bots"]
        self._bots.append(bots)

    async def start_canary(self) -> None:
        """Two players of our own, who play a short unrated match every minute, until the stack stops."""
        self.places.write_canary_tokens(*issuer_and_audience())
        own = {
            "CANARY_SERVER": self.address("matchmaking"),
            "CANARY_GAME": self.address("game"),
            "CANARY_TOKENS_FILE": str(self.places.canary_tokens.absolute()),
            # Any free port: the others were chosen some time ago.
            "METRICS_LISTEN": f"{HOST}:0",
        }
        env = os.environ | {f"{PREFIX}{key}": value for key, value in own.items()}
        self._canary = await self._start_child("canary", "services.canary", env=env)
        del self._services["canary"]
        self._bots.append(self._canary)

    def _write_serving(self, *more: str) -> None:
        """For the commands of operators. It has the password of the database: for our user's eyes only."""
        targets = [*(f"{name}={self.address(f'{name} metrics')}" for name in _SERVICES), *more]
        operations = self.address("matchmaking, internal")
        self.places.write_serving(
            {"metrics": targets, "database_url": self._database_url, "operations": operations}
        )

    async def _start_child(self, name: str, module: str, *arguments: str, env: dict[str, str]) -> Child:
        log_path = self._log_path(name)
        child = await Child.start(name, module, *arguments, env=env, log_path=log_path)
        self._services[name] = child
        self._watch(name, child.ended(), log_path)
        return child

    def _log_path(self, name: str) -> Path:
        return self.places.logs / f"{name}.log"

    def _watch(self, name: str, ended: Coroutine[Any, Any, int], log_path: Path) -> None:
        self._ends[asyncio.create_task(ended, name=f"end of {name}")] = (name, log_path)

    # Stopping

    async def _close(self) -> None:
        """Stop everything that was started, in the order that cuts nobody off."""
        await self._forget(self._ends)
        self.places.serving.unlink(missing_ok=True)
        with self._display.waiting("stopping"):
            await asyncio.gather(*(bot.stop(_STOP_GRACE_SECONDS) for bot in self._bots))
            await self._stop_services()
            if self._postgres_starting is not None:
                await asyncio.wait([self._postgres_starting])
            if self._postgres is not None:
                await asyncio.to_thread(self._postgres.stop)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    async def _stop_services(self) -> None:
        await self._forget(end for end, (name, _) in self._ends.items() if name in self._services)
        # The clock goes last: the game process tells it how its matches are left.
        clock = [child for name, child in self._services.items() if name == "clock"]
        others = [child for name, child in self._services.items() if name != "clock"]
        for children in (others, clock):
            await asyncio.gather(*(child.stop(_STOP_GRACE_SECONDS) for child in children))
        self._services.clear()

    async def _forget(self, ends: Iterable[asyncio.Task[int]]) -> None:
        """An end of these is no surprise any more."""
        expected = list(ends)
        for end in expected:
            end.cancel()
            del self._ends[end]
        await asyncio.gather(*expected, return_exceptions=True)


async def _let_in(url: str, passwords: Mapping[str, str]) -> None:
    connection = await asyncpg.connect(url, timeout=10)
    try:
        await let_in(connection, passwords)
    finally:
        await connection.close()


async def _waited(future: asyncio.Future[T]) -> T:
    return await asyncio.shield(future)
