"""One hostile client at full speed while 50 honest matches are played: what the honest players notice.

`python -m tests.bench.flood [--only NAME ...] [--seconds S] [--quiet S] [--matches N] [--json FILE]`. Clock, matchmaking, a
game process and a PostgreSQL with fsync, with the limits of production. Honest players are processes of their own; each
player has an address, told as a gateway tells it. The attacker is one more process with one address. Phases take turns:
nothing, an attack, nothing, the next attack, so that each attack is compared with the seconds around it.

Everything shares the cores of this machine. The attacker is niced, so that its own work takes little from the services;
the first row, in which it only burns processor time, shows what is left of that. Ends with status 1 when an honest match
is lost on time or void, a process has grown without bound, or an honest player was refused something.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import asyncpg
from rich.console import Console

from services.common.limits import CONNECTION_CALLS, PLAYER_CALLS_PER_SECOND
from services.local.postgres import EmbeddedPostgres
from services.storage.migrate import migrate
from tests.bench.attacks import GAME, Attack, attacks
from tests.bench.noticed import Honest, Phase, faults, report
from tests.bench.usage import processor_seconds, resident_megabytes
from tests.drains import samples
from tests.processes import Process, running
from tests.stack import Player, Stack

MATCHES: Final = 50
SECONDS: Final = 6.0
"""Of an attack."""
QUIET_SECONDS: Final = 4.0
"""Before and after it."""
SETTLE_SECONDS: Final = 1.0
"""After an attack, in neither."""
HOUSES: Final = 2
"""Processes in which honest players live."""
LATE_SECONDS: Final = 20.0
"""How long after its end an attacker may say its figures: its calls wait for their answers."""
LOOK_SECONDS: Final = 0.2
SERVICES: Final = ("game", "matchmaking", "clock")
LIMITED: Final = {
    "ADDRESS_LIMITS": "true",
    "PLAYER_CALLS_PER_SECOND": f"{PLAYER_CALLS_PER_SECOND}",
    "CONNECTION_CALLS": f"{CONNECTION_CALLS}",
    # Everybody on this machine, which stands for the gateway, may say from which address a call comes.
    "TRUSTED_PROXIES": '["127.0.0.0/8"]',
}
"""As in production, whatever other tests have."""


class Bench:
    """One stack, its honest players, and the attacks."""

    def __init__(self, made: Stack, place: Path, options: argparse.Namespace, console: Console) -> None:
        self.made = made
        self.console = console
        self.honest = Honest([])
        self.phases: list[Phase] = []
        self._place = place
        self._options = options
        self._seeker = ""

    async def settle_in(self) -> None:
        """Honest players begin; returns when all of them play."""
        players = await self.made.players(2 * self._options.matches)
        pair = await self.made.players(2)
        self._seeker = pair[0].player_id
        houses = [players[number::HOUSES] for number in range(HOUSES)]
        for number, house in enumerate([*houses, pair]):
            order = {
                "matchmaking": self.made.address("matchmaking"),
                "game": self.made.address("game"),
                "pair": house is pair,
                "players": [
                    {**_player(player), "address": f"10.{number + 1}.{each // 200}.{each % 200 + 1}"}
                    for each, player in enumerate(house)
                ],
            }
            if house is pair:
                await self._all_play(players)
            self.honest.processes.append(await self._start("honest", f"honest-{number}", order))
        self.console.print(f"  {self._options.matches} honest matches are under way")

    async def _all_play(self, players: list[Player]) -> None:
        async with asyncio.timeout(120):
            while len(self.honest.playing) < len(players):
                await asyncio.sleep(LOOK_SECONDS)
                self.honest.look()

    async def _start(self, module: str, name: str, order: dict[str, Any]) -> Process:
        path = self._place / f"{name}.json"
        path.write_text(json.dumps(order), "utf-8")
        started = running(f"tests.bench.{module}", str(path), env={}, log_dir=self._place, name=name)
        return await self.made.exits.enter_async_context(started)

    async def run(self, wanted: list[int]) -> None:
        """Every attack with its quiet time around it."""
        before, gap, busy = await self._quiet()
        for index in wanted:
            phase = await self._attack(index, attacks()[index])
            phase.quiet_gap_ms, phase.quiet_busy = gap, busy
            after, gap, busy = await self._quiet()
            phase.quiet = [before, after]
            before = after
            self.honest.look()
            phase.count(self.honest)
            self.phases.append(phase)
            self.console.print(f"  {phase.line}", highlight=False, markup=False)
            if self._options.json:
                await asyncio.to_thread(self._save, Path(self._options.json))

    def _save(self, path: Path) -> None:
        # After each attack: a long run that is stopped has not been for nothing.
        figures = [{**vars(phase), "refused": phase.refused, "growth": phase.growth} for phase in self.phases]
        path.write_text(json.dumps(figures), "utf-8")

    async def _quiet(self) -> tuple[tuple[float, float], float, dict[str, float]]:
        await asyncio.sleep(SETTLE_SECONDS)
        began, gap, spent = time.monotonic(), await self._gap(), self._spent()
        await asyncio.sleep(self._options.quiet)
        busy = self._busy(spent, began)
        return (began, time.monotonic()), (await self._gap() - gap) * 1000, busy

    def _spent(self) -> dict[str, float]:
        return {name: processor_seconds(self.made.processes[name].pid) for name in SERVICES}

    def _busy(self, before: dict[str, float], began: float) -> dict[str, float]:
        took = time.monotonic() - began
        return {name: (now - before[name]) / took for name, now in self._spent().items()}

    async def _attack(self, index: int, attack: Attack) -> Phase:
        phase = Phase(attack.name, attack.target)
        tokens = [player.token for player in await self.made.players(attack.players)]
        order = {
            "attack": index,
            "address": self.made.address(attack.target),
            "tokens": tokens,
            "forwarded_for": f"10.66.0.{index + 1}",
            "match_id": next(iter(self.honest.playing.values())),
            "victim": self._seeker,
            "seconds": self._options.seconds,
            "nice": self._options.nice,
        }
        memory = self._memory()
        most = dict(memory)
        ended, gap = await self._ended(), await self._gap()
        process = await self._start("flooder", f"attack-{index}", order)
        await process.event("flooding")
        began, spent = time.monotonic(), self._spent()
        while (
            process.exit_status() is None and time.monotonic() < began + self._options.seconds + LATE_SECONDS
        ):
            await asyncio.sleep(LOOK_SECONDS)
            most = {name: max(most[name], now) for name, now in self._memory().items()}
            if time.monotonic() < began + self._options.seconds:
                phase.window, phase.busy = (began, time.monotonic()), self._busy(spent, began)
        if process.exit_status() is None:
            process.kill()
        floods = [line for line in process.events() if line["event"] == "flooded"]
        phase.flooded = floods[0] if floods else {"asked": 0, "codes": {}, "held": 0, "seconds": 1.0}
        if not floods:
            self.console.print(process.log_tail(12), markup=False)
        phase.gap_ms = (await self._gap() - gap) * 1000
        phase.ended = await self._ended() - ended
        await asyncio.sleep(SETTLE_SECONDS)
        after = self._memory()
        phase.memory = {name: (memory[name], most[name], after[name]) for name in SERVICES}
        return phase

    def _memory(self) -> dict[str, float]:
        return {name: resident_megabytes(self.made.processes[name].pid) for name in SERVICES}

    async def _gap(self) -> float:
        found = await samples(self.made, GAME)
        return next(value for name, _, value in found if name == "spectacular_bid_game_gap_seconds")

    async def _ended(self) -> Counter[str]:
        rows = await self.made.pool.fetch(
            """
            select o.cause, count(*) from match_outcome o join match m using (match_id)
            where m.rated and o.cause in ('time', 'void') group by 1
            """
        )
        return Counter({row["cause"]: row["count"] for row in rows})


def _player(player: Player) -> dict[str, str]:
    return {"player_id": player.player_id, "token": player.token}


async def measure(options: argparse.Namespace, console: Console) -> int:
    """One stack, every attack; how many faults there were."""
    wanted = [
        index
        for index, attack in enumerate(attacks())
        if not options.only or any(word.lower() in attack.name.lower() for word in options.only)
    ]
    with (
        tempfile.TemporaryDirectory(prefix="spectacular-bid-bench-") as folder,
        EmbeddedPostgres(Path(folder) / "postgres", durable=True) as server,
    ):
        await asyncio.to_thread(migrate, server.url)
        async with AsyncExitStack() as exits:
            pool = await exits.enter_async_context(asyncpg.create_pool(server.url, min_size=1, max_size=4))
            extra = dict.fromkeys(("game", "matchmaking"), LIMITED)
            made = Stack(Path(folder), server.url, exits, extra=extra, _pool=pool)
            await made.start("clock", "matchmaking", "game")
            bench = Bench(made, Path(folder), options, console)
            await bench.settle_in()
            await bench.run(wanted)
            found = faults(bench.phases)
            console.print(report(bench.phases, options.seconds))
            for fault in found:
                console.print(f"  {fault}", markup=False)
    return len(found)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="attacks whose names contain one of these")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--quiet", type=float, default=QUIET_SECONDS)
    parser.add_argument("--matches", type=int, default=MATCHES)
    parser.add_argument(
        "--nice", type=int, default=19, help="of the attacker; 0 where others keep the machine busy"
    )
    parser.add_argument("--json", help="where to put all figures")
    options = parser.parse_args()
    console = Console(width=240)
    console.print(
        f"services, PostgreSQL, {2 * options.matches} honest players and the attacker share {os.cpu_count()} cores; "
        f"load average before: {os.getloadavg()[0]:.1f}"
    )
    sys.exit(1 if asyncio.run(measure(options, console)) else 0)


if __name__ == "__main__":
    main()
