"""The whole backend under load: a stack on cores of its own, players in a process on another, one pace after the other."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.bench.floor import LOAD_CORES, Sizes
from tests.bench.generator import Figures, Generator, generator
from tests.bench.stack import known_players
from tests.bench.usage import core_seconds, pinned, postmaster_of, thread_seconds, usage_of
from tests.stack import Stack

WARMUP_SECONDS: Final = 2.0
STAGES: Final = ("queue", "verdict", "commit", "publish")
_STAGE: Final = "spectacular_bid_command_stage_seconds"
_GROUP: Final = "spectacular_bid_commit_rulings"
_GAPS: Final = "spectacular_bid_game_gap_seconds"


@dataclass(slots=True)
class Phase:
    """One pace at one number of matches, and what came of it."""

    matches: int
    pace: float | None
    found: Figures = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    """Processor seconds by kind of process."""
    threads: dict[str, float] = field(default_factory=dict)
    """Processor seconds of one game process by thread."""
    cores: list[float] = field(default_factory=list)
    """Share of the time each core was busy."""
    stages: dict[str, float] = field(default_factory=dict)
    """Mean milliseconds."""
    group: float = 0.0
    """Rulings in a transaction."""
    gaps: float = 0.0
    """Share of the time that was credited to players, since the game process may not have heard them."""

    @property
    def rate(self) -> float:
        """Moves a second."""
        return float(self.found["rate"])

    @property
    def costs(self) -> list[float]:
        """Microseconds of processor time a move: of each kind of process, then all together."""
        each = [seconds / float(self.found["moves"]) * 1e6 for seconds in self.spent.values()]
        return [*each, sum(each)]

    @property
    def thread_costs(self) -> list[float]:
        """Microseconds of one game process's processor time a move, by thread."""
        return [seconds / float(self.found["moves"]) * 1e6 for seconds in self.threads.values()]

    @property
    def load_cost(self) -> float:
        """Microseconds of the generator's processor time a move."""
        return float(self.found["busy"]) / self.rate * 1e6

    @property
    def sizes(self) -> Sizes:
        """Of messages, as the floor needs them: what a player is told of its move in one."""
        sent, mover, other = (self.found["sizes"][kind] for kind in ("in", "mover", "other"))
        told = mover["bytes"] * mover["a_move"] / sent["a_move"]
        return Sizes(round(sent["bytes"]), round(told), round(other["bytes"]))


class Backend:
    """What `backend` has started."""

    def __init__(self, made: Stack, postmaster: int, load: Generator, matches: int) -> None:
        self._made = made
        self._load = load
        self._matches = matches
        self._pids = {name: process.pid for name, process in made.processes.items()} | {
            "postgres": postmaster
        }

    async def run(self, pace: float | None, seconds: float) -> Phase:
        """One phase; a pace of None is as fast as it goes, a number is that many moves a second, due at random."""
        await self._load.go(pace, WARMUP_SECONDS)
        metrics = await self._metrics()
        game = self._pids["game"]
        cores, usage, threads = core_seconds(), usage_of(self._pids), thread_seconds(game)
        await self._load.count(seconds)
        spent, after = usage_of(self._pids).since(usage), core_seconds()
        threads = {part: now - threads[part] for part, now in thread_seconds(game).items()}
        changed = {name: value - metrics.get(name, 0.0) for name, value in (await self._metrics()).items()}
        kinds = {name.partition("-")[0]: 0.0 for name in spent}
        for name, used in spent.items():
            kinds[name.partition("-")[0]] += used
        return Phase(
            self._matches,
            pace,
            await self._load.counted(),
            kinds,
            threads,
            cores=[(end - begin) / seconds for begin, end in zip(cores, after, strict=True)],
            stages={stage: _mean(changed, _STAGE, f'{{stage="{stage}"}}') * 1000 for stage in STAGES},
            group=_mean(changed, _GROUP),
            gaps=changed[_GAPS] / seconds,
        )

    async def _metrics(self) -> dict[str, float]:
        """Of one game process."""
        address = await self._made.metrics_address("game")

        def read() -> str:
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as page:
                return str(page.read().decode())

        lines = (
            line.rpartition(" ") for line in (await asyncio.to_thread(read)).splitlines() if line[0] != "#"
        )
        return {name: float(value) for name, _, value in lines}


def _mean(changed: Mapping[str, float], series: str, labels: str = "") -> float:
    count = changed[f"{series}_count{labels}"]
    return changed[f"{series}_sum{labels}"] / count if count else 0.0


@asynccontextmanager
async def backend(
    folder: Path, url: str, matches: int, *, games: int = 1, streams: int, cores: Collection[int]
) -> AsyncIterator[Backend]:
    """A fresh stack with so many game processes on these cores, every player seated and in the first turn, at rest."""
    async with AsyncExitStack() as exits:
        made = Stack(folder, url, exits)
        names = ["game", *(f"game-{number}" for number in range(1, games))]
        with pinned(cores):
            await made.start("clock", "matchmaking", *names)
        await known_players(made, matches)
        players = [f"bench-{number}-{seat}" for number in range(matches) for seat in ("north", "south")]
        spec = {
            "addresses": [made.address(name) for name in names],
            "streams": streams,
            "players": [(player, made.token(player)) for player in players],
        }
        try:
            async with generator("tests.bench.load", spec, LOAD_CORES) as load:
                # The data of the server is in a folder beside that of the stack.
                yield Backend(made, postmaster_of(folder.parent), load, matches)
        finally:
            # In the middle of everything: an orderly end would wait for matches that nobody plays any more.
            for process in made.processes.values():
                process.kill()
