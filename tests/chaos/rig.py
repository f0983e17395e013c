"""Everything there is to break: two processes of each kind, a PostgreSQL of its own, a bad network between all of them.

Processes of one kind stand behind one address, as behind a service of a cluster: a switch that sends new connections
to the preferred process and, where that does not take them, to the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from client.session import Client
from services.local.postgres import EmbeddedPostgres, PostgresError
from services.storage.migrate import migrate
from tests.chaos import cable
from tests.chaos.cable import Cable
from tests.processes import free_port
from tests.proxy import Proxy
from tests.stack import HOST, Player, Stack

GAMES: Final = ("game", "game-1")
CLOCKS: Final = ("clock", "clock-1")
MATCHMAKERS: Final = ("matchmaking", "matchmaking-1")
SERVICES: Final = (*GAMES, *CLOCKS, *MATCHMAKERS)
FAR_GAME: Final = "game-1"
"""The process behind the cable, where there is one."""
NAMESPACE_VARIABLE: Final = "SPECTACULAR_BID_CHAOS_NAMESPACE"
"""Set in the process that has a network of its own."""
PATIENCE_SECONDS: Final = 300.0
"""Players of the chaos do not give up: what is lost must have been lost by the services."""


@dataclass
class Rig:
    """The whole, running."""

    folder: Path
    postgres: EmbeddedPostgres
    stack: Stack
    exits: AsyncExitStack
    links: dict[str, Proxy] = field(default_factory=dict)
    """Every bad network, by what it connects: `client-game`, `game-1-clock`, `game-postgres` …"""
    cable: Cable | None = None
    """Between FAR_GAME and everything else, in a network of our own."""

    @property
    def matchmaking_address(self) -> str:
        """Where players find the leader."""
        return self.links["client-matchmaking"].address

    def game_address(self, name: str) -> str:
        """Where players find a game process."""
        link = self.links.get(f"client-{name}")
        return self.stack.address(name) if link is None else link.address

    def client(self, player: Player, game: str) -> Client:
        """The library, for one player. `game` is the process it asks first."""
        return Client(
            self.matchmaking_address,
            player.token,
            game_address=self.game_address(game),
            patience_seconds=PATIENCE_SECONDS,
        )

    # Where connections go.

    def _aim(self, link: str, kind: str, names: tuple[str, ...]) -> None:
        ports = self.stack.ports
        self.links[link].aim(
            *(
                (HOST, ports[name.replace("matchmaking", "placement") if kind == "placement" else name])
                for name in names
            )
        )

    def prefer_clock(self, name: str) -> None:
        """New sessions of all game processes begin at this clock when it is there."""
        order = (name, *(other for other in CLOCKS if other != name))
        for game in GAMES:
            self._aim(f"{game}-clock", "clock", order)

    def prefer_matchmaking(self, name: str) -> None:
        """The leader: where players and game processes go."""
        order = (name, *(other for other in MATCHMAKERS if other != name))
        self._aim("client-matchmaking", "matchmaking", order)
        for game in GAMES:
            self._aim(f"{game}-matchmaking", "placement", order)

    async def leading(self, name: str) -> None:
        """Waits until a matchmaking process leads, then sends everybody there."""
        await self.stack.processes[name].ready(seconds_max=60)
        self.prefer_matchmaking(name)
        for link in ("client-matchmaking", *(f"{game}-matchmaking" for game in GAMES)):
            self.links[link].cut()

    # Processes.

    def kill(self, name: str) -> float:
        """SIGKILL. When, on the monotonic clock."""
        self.stack.processes[name].kill()
        return time.monotonic()

    async def restart(self, name: str) -> None:
        """Starts a process that is gone; waits until it is ready, unless it will be a standby."""
        if name in MATCHMAKERS:
            await self.stack.launch(name)
        else:
            await self.stack.start(name)

    def other(self, name: str) -> str:
        """The process that stands beside this one."""
        pair = next(kind for kind in (GAMES, CLOCKS, MATCHMAKERS) if name in kind)
        return pair[1 - pair.index(name)]

    def leader(self) -> str:
        """Which matchmaking process leads, as far as the logs say."""
        led = {name: [line["event"] for line in self.stack.processes[name].events()] for name in MATCHMAKERS}
        for name in MATCHMAKERS:
            alive = self.stack.processes[name].exit_status() is None
            ours = [event for event in led[name] if event in ("lead_taken", "lead_ended")]
            if alive and ours and ours[-1] == "lead_taken":
                return name
        return MATCHMAKERS[0]

    # PostgreSQL.

    def kill_postgres(self) -> float:
        """SIGKILL for the server and each of its backends at once: what a crash of its machine leaves. When."""
        pid = int((self.postgres.data_dir / "cluster" / "postmaster.pid").read_text().split()[0])
        victims = [pid, *_children(pid)]
        for victim in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        return time.monotonic()

    def stop_postgres(self, number: signal.Signals) -> None:
        """SIGSTOP or SIGCONT for the server and each of its backends."""
        pid = int((self.postgres.data_dir / "cluster" / "postmaster.pid").read_text().split()[0])
        for victim in (pid, *_children(pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, number)

    async def start_postgres(self) -> None:
        """Starts the killed server on its old data and port; it recovers from its log."""
        await asyncio.to_thread(self._start_postgres)

    def _start_postgres(self) -> None:
        self.postgres.stop()
        give_up = time.monotonic() + 30
        while True:
            try:
                self.postgres.start()
            except PostgresError:
                # The last of the killed processes may still hold its memory.
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.2)
            else:
                return


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@asynccontextmanager
async def rig(
    folder: Path,
    *,
    proxied: bool,
    durable: bool = False,
    quick: dict[str, str] | None = None,
    settings: Mapping[str, Mapping[str, str]] | None = None,
) -> AsyncIterator[Rig]:
    """Everything up and ready.

    With `proxied`, a bad network is also between players and game processes and in front of PostgreSQL; without, there
    is one only where a switch is needed; in a network of our own FAR_GAME is behind a real cable, too. `quick` are
    settings for the game processes that are not the default ones, `settings` those of single processes.
    """
    async with AsyncExitStack() as exits:
        port = free_port()
        postgres = EmbeddedPostgres(folder / "postgres", port=port, durable=durable)
        await asyncio.to_thread(postgres.start)
        exits.push_async_callback(asyncio.to_thread, postgres.stop)
        await asyncio.to_thread(migrate, postgres.url)
        pool = await exits.enter_async_context(asyncpg.create_pool(postgres.url, min_size=0, max_size=4))
        made = Rig(folder, postgres, Stack(folder, postgres.url, exits, _pool=pool), exits)
        if proxied and os.environ.get(NAMESPACE_VARIABLE):
            made.cable = await exits.enter_async_context(cable.laid())
            made.stack.prefixes[FAR_GAME] = made.cable.prefix
            made.stack.hosts[FAR_GAME] = cable.FAR
        await _connect(made, proxied=proxied, quick=quick or {})
        for name, own in (settings or {}).items():
            made.stack.extra.setdefault(name, {}).update(own)
        await made.stack.start(*CLOCKS, "matchmaking")
        await made.stack.launch("matchmaking-1")
        await made.stack.start(*GAMES)
        yield made


async def _connect(made: Rig, *, proxied: bool, quick: dict[str, str]) -> None:
    """Makes all links and tells the processes about them."""
    stack = made.stack
    for name in (*SERVICES, "placement", "placement-1"):
        stack.address(name)

    async def link(name: str, port: int, of: str = "") -> Proxy:
        # What a process behind a cable shall reach listens at our end of it.
        listen = cable.NEAR if of in stack.hosts else HOST
        made.links[name] = await made.exits.enter_async_context(Proxy(HOST, port, listen=listen))
        return made.links[name]

    await link("client-matchmaking", stack.ports["matchmaking"])
    for game in GAMES:
        clock = await link(f"{game}-clock", stack.ports["clock"], game)
        placement = await link(f"{game}-matchmaking", stack.ports["placement"], game)
        stack.extra[game] = {
            "CLOCK_ADDRESS": clock.address,
            "MATCHMAKING_ADDRESS": placement.address,
            **quick,
        }
        if proxied:
            players = await link(f"client-{game}", stack.ports[game])
            players.aim((stack.hosts.get(game, HOST), stack.ports[game]))
            stack.extra[game]["PUBLIC_ADDRESS"] = players.address
    made.prefer_clock("clock")
    made.prefer_matchmaking("matchmaking")
    if proxied:
        url = urlsplit(made.postgres.url)
        assert url.port is not None
        for name in SERVICES:
            proxy = await link(f"{name}-postgres", url.port, name)
            login = url.netloc.rpartition("@")[0]
            address = urlunsplit(url._replace(netloc=f"{login}@{proxy.address}"))
            stack.extra.setdefault(name, {})["DATABASE_URL"] = address
