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
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import asyncpg
from rich.console import Console
from rich.table import Table

from services.local.postgres import EmbeddedPostgres
from services.storage.migrate import migrate
from tests.bench.attacks import GAME, Attack, attacks
from tests.bench.costs import processor_seconds, resident_megabytes
from tests.drains import samples
from tests.population import percentile
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
GROWTH_MB_MAX: Final = 100.0
"""How much a process may grow while it is attacked."""
SERVICES: Final = ("game", "matchmaking", "clock")
PROXIES: Final = '["127.0.0.0/8"]'
"""Who may say from which address a call comes: everybody on this machine, which stands for the gateway."""


@dataclass
class Honest:
    """What honest players noticed, by time."""

    processes: list[Process]
    took: list[tuple[float, str, float]] = field(default_factory=list)
    stolen: list[float] = field(default_factory=list)
    broken: list[tuple[float, str]] = field(default_factory=list)
    playing: dict[str, str] = field(default_factory=dict)
    """The match of each player."""
    _read: dict[str, int] = field(default_factory=dict)

    def look(self) -> None:
        """Takes in what the logs have new."""
        for process in self.processes:
            lines = process.events()
            for line in lines[self._read.get(process.name, 0) :]:
                match line["event"]:
                    case "took":
                        self.took.append((line["at"], line["what"], line["seconds"]))
                    case "stolen":
                        self.stolen.append(line["at"])
                    case "broken":
                        self.broken.append(
                            (line["at"], f"{line['what']}: {line['code']} {line['details']}".rstrip())
                        )
                    case "playing":
                        self.playing[line["player_id"]] = line["match_id"]
            self._read[process.name] = len(lines)

    def within(self, what: str, windows: Sequence[tuple[float, float]]) -> list[float]:
        """How long such things took that were answered in these times, in milliseconds."""
        return [
            seconds * 1000
            for at, kind, seconds in self.took
            if kind == what and any(begins <= at < ends for begins, ends in windows)
        ]


@dataclass
class Phase:
    """An attack and what came of it."""

    name: str
    target: str
    window: tuple[float, float] = (0.0, 0.0)
    quiet: list[tuple[float, float]] = field(default_factory=list)
    flooded: dict[str, Any] = field(default_factory=dict)
    gap_ms: float = 0.0
    """How long the game process could not be shown to have listened: credited to each match that waited then."""
    quiet_gap_ms: float = 0.0
    """The same in the quiet time before."""
    busy: dict[str, float] = field(default_factory=dict)
    """Processor time of each process, as a share of one core."""
    quiet_busy: dict[str, float] = field(default_factory=dict)
    ended: Counter[str] = field(default_factory=Counter)
    """Honest matches that ended on time or void."""
    memory: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    """Of each process, MB: before, at most, afterwards."""
    commands: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """p50 and p99 without the attack, p50 and p99 with it. Milliseconds."""
    ladder: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    seeks: tuple[int, int] = (0, 0)
    """Matches of the two who seek, in the quiet time and in that of the attack."""
    stolen: int = 0
    broken: list[str] = field(default_factory=list)
    """What honest players met that they should not, from the quiet time before to the one after."""

    @property
    def refused(self) -> float:
        """Share of the calls that were refused because of a limit."""
        codes: dict[str, int] = self.flooded["codes"]
        return codes.get("RESOURCE_EXHAUSTED", 0) / max(1, sum(codes.values()))

    @property
    def growth(self) -> float:
        """MB by which the target grew at most."""
        return max((most - before for before, most, _ in self.memory.values()), default=0.0)

    def count(self, honest: Honest) -> None:
        """Works out what honest players noticed."""
        figures = []
        for what in ("command", "ladder"):
            values = [honest.within(what, windows) for windows in (self.quiet, [self.window])]
            figures.append(tuple(percentile(each, percent) for each in values for percent in (50, 99)))
        self.commands, self.ladder = figures[0], figures[1]  # type: ignore[assignment]
        self.seeks = (len(honest.within("seek", self.quiet)), len(honest.within("seek", [self.window])))
        begins, ends = self.quiet[0][0], self.quiet[1][0]
        self.broken = [what for at, what in honest.broken if begins <= at < ends]
        self.stolen = sum(self.window[0] <= at < self.window[1] for at in honest.stolen)


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
            self.console.print(f"  {phase.name}: p99 {phase.commands[3]:.0f} ms", highlight=False)

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


def report(phases: list[Phase], seconds: float) -> Table:
    """The table."""
    table = Table(title=f"One client at full speed for {seconds:.0f} s each; milliseconds, megabytes")
    for column in (
        "attack",
        "calls/s",
        "refused",
        "answers",
        "command p50 / p99, without",
        "with",
        "p99 ratio",
        "ladder p50 / p99, without",
        "with",
        "gap ms, without / with",
        "core used, without / with",
        "seeks",
        "time / void",
        "game MB",
        "matchmaking MB",
    ):
        table.add_column(column, justify="left" if column in ("attack", "answers") else "right")
    for phase in phases:
        codes = Counter(phase.flooded["codes"]).most_common(2)
        before50, before99, with50, with99 = phase.commands
        ladder = phase.ladder
        held = phase.flooded["held"]
        table.add_row(
            f"{phase.name} ({phase.target})",
            f"{phase.flooded['asked'] / phase.flooded['seconds']:,.0f}",
            f"{phase.refused:.0%}",
            ", ".join(f"{code} {count:,}" for code, count in codes) + (f"; held {held:,}" if held else ""),
            f"{before50:.1f} / {before99:.1f}",
            f"{with50:.1f} / {with99:.1f}",
            f"{with99 / before99:.1f}" if before99 else "",
            f"{ladder[0]:.1f} / {ladder[1]:.1f}",
            f"{ladder[2]:.1f} / {ladder[3]:.1f}",
            f"{phase.quiet_gap_ms:.0f} / {phase.gap_ms:.0f}",
            f"{phase.quiet_busy[phase.target]:.0%} / {phase.busy[phase.target]:.0%}",
            f"{phase.seeks[0]} / {phase.seeks[1]}" + (f", {phase.stolen} taken" if phase.stolen else ""),
            f"{phase.ended['time']} / {phase.ended['void']}",
            " ".join(f"{figure:.0f}" for figure in phase.memory["game"]),
            " ".join(f"{figure:.0f}" for figure in phase.memory["matchmaking"]),
        )
    return table


def faults(phases: list[Phase]) -> list[str]:
    """What must not be."""
    found = [
        f"{phase.name}: an honest match ended: {dict(phase.ended)}" for phase in phases if phase.ended.total()
    ]
    found += [
        f"{phase.name}: a process grew by {phase.growth:.0f} MB"
        for phase in phases
        if phase.growth > GROWTH_MB_MAX
    ]
    return found + [
        f"{phase.name}: honest players met {what} ({count} times)"
        for phase in phases
        for what, count in Counter(phase.broken).items()
    ]


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
            limited = {"TRUSTED_PROXIES": PROXIES, "ADDRESS_LIMITS": "true"}
            extra = dict.fromkeys(("game", "matchmaking"), limited)
            made = Stack(Path(folder), server.url, exits, extra=extra, _pool=pool)
            await made.start("clock", "matchmaking", "game")
            bench = Bench(made, Path(folder), options, console)
            await bench.settle_in()
            await bench.run(wanted)
            found = faults(bench.phases)
            console.print(report(bench.phases, options.seconds))
            for fault in found:
                console.print(f"  {fault}", markup=False)
            if options.json:
                figures = [
                    {**vars(phase), "refused": phase.refused, "growth": phase.growth}
                    for phase in bench.phases
                ]
                await asyncio.to_thread(Path(options.json).write_text, json.dumps(figures), "utf-8")
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
