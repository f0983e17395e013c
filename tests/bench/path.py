"""The whole path: clock, matchmaking, game process and a PostgreSQL with fsync on one core, players on the other.

For each number of matches: as fast as it goes (closed loop), then an open loop at shares of that. A move counts when
the other player has it: judged by the clock, stored, told. Beside it the floor of the same run.
`python -m tests.bench.path [--matches N ...] [--seconds S]`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import urllib.request
from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from services.local.postgres import EmbeddedPostgres
from services.storage.migrate import migrate
from tests.bench import floor
from tests.bench.generator import Figures, Generator, generator
from tests.bench.report import Report
from tests.bench.stack import known_players
from tests.bench.usage import core_seconds, pinned, postmaster_of, usage_of
from tests.stack import Stack

MATCHES: Final = (1, 10, 100, 500, 2000)
SHARES: Final = (0.25, 0.5, 0.75)
SECONDS: Final = 10.0
WARMUP_SECONDS: Final = 2.0
SERVICES: Final = ("game", "clock", "matchmaking")
STAGES: Final = ("queue", "verdict", "commit", "publish")
_STAGE: Final = "spectacular_bid_command_stage_seconds"
_GROUP: Final = "spectacular_bid_commit_rulings"


@dataclass(slots=True)
class Phase:
    """One pace at one number of matches, and what came of it."""

    matches: int
    pace: float | None
    found: Figures = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    """Processor seconds by process."""
    cores: list[float] = field(default_factory=list)
    """Share of the time each core was busy."""
    stages: dict[str, float] = field(default_factory=dict)
    """Mean milliseconds."""
    group: float = 0.0
    """Rulings in a transaction."""

    def cost(self, name: str) -> float:
        """Microseconds of processor time a move."""
        return self.spent[name] / float(self.found["moves"]) * 1e6

    @property
    def costs(self) -> list[float]:
        """Of each process, then all together."""
        each = [self.cost(name) for name in self.spent]
        return [*each, sum(each)]

    @property
    def sizes(self) -> floor.Sizes:
        """Of messages, as the floor needs them: what a player is told of its move in one."""
        sent, mover, other = (self.found["sizes"][kind] for kind in ("in", "mover", "other"))
        told = mover["bytes"] * mover["a_move"] / sent["a_move"]
        return floor.Sizes(round(sent["bytes"]), round(told), round(other["bytes"]))


class Bench:
    """One stack, its players, and what is looked at."""

    def __init__(self, made: Stack, postmaster: int) -> None:
        self._made = made
        self._pids = {name: made.processes[name].pid for name in SERVICES} | {"postgres": postmaster}

    async def run(self, load: Generator, matches: int, pace: float | None, seconds: float) -> Phase:
        """One phase."""
        await load.go(pace, WARMUP_SECONDS)
        metrics = await self._metrics()
        cores, usage = core_seconds(), usage_of(self._pids)
        await load.count(seconds)
        spent, after = usage_of(self._pids).since(usage), core_seconds()
        changed = {name: value - metrics.get(name, 0.0) for name, value in (await self._metrics()).items()}
        found = await load.counted()
        return Phase(
            matches,
            pace,
            found,
            spent,
            cores=[(end - begin) / seconds for begin, end in zip(cores, after, strict=True)],
            stages={stage: _mean(changed, _STAGE, f'{{stage="{stage}"}}') * 1000 for stage in STAGES},
            group=_mean(changed, _GROUP),
        )

    async def _metrics(self) -> dict[str, float]:
        """Of the game process."""
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


async def measure(
    report: Report, folder: Path, url: str, matches: int, options: argparse.Namespace
) -> list[Phase]:
    """A stack of its own, its players, all paces."""
    async with AsyncExitStack() as exits:
        made = Stack(folder, url, exits)
        with pinned(floor.SERVICE_CORES):
            await made.start(*reversed(SERVICES))
        await known_players(made, matches)
        names = [f"bench-{number}-{seat}" for number in range(matches) for seat in ("north", "south")]
        spec = {
            "address": made.address("game"),
            "streams": options.streams,
            "players": [(name, made.token(name)) for name in names],
        }
        report.progress(f"{matches} matches: being made")
        load = await exits.enter_async_context(generator("tests.bench.load", spec, floor.LOAD_CORES))
        bench = Bench(made, postmaster_of(folder.parent))
        report.progress(f"{matches} matches: as fast as it goes")
        phases = [await bench.run(load, matches, None, options.seconds)]
        for share in options.shares:
            pace = phases[0].found["rate"] * share
            report.progress(
                f"{matches} matches: {pace:,.0f} moves/s, {share:.0%} of {phases[0].found['rate']:,.0f}"
            )
            phases.append(await bench.run(load, matches, pace, options.seconds))
    return phases


async def measure_floor(report: Report, path: Phase, options: argparse.Namespace) -> list[floor.Found]:
    """Every variant, with as many pairs and the sizes of messages that the path had."""
    found = []
    for variant in floor.VARIANTS:
        report.progress(f"floor of {path.matches} matches: {variant.name}")
        seconds = min(options.seconds, floor.SECONDS)
        found.append(
            await floor.measure(variant, path.matches, path.sizes, seconds=seconds, streams=options.streams)
        )
    return found


async def measure_all(report: Report, options: argparse.Namespace) -> tuple[list[Phase], list[floor.Found]]:
    """Every number of matches, each on a fresh stack, then its floor; one server of PostgreSQL."""
    phases: list[Phase] = []
    floors: list[floor.Found] = []
    with tempfile.TemporaryDirectory(prefix="spectacular-bid-bench-") as place, ExitStack() as stack:
        with pinned(floor.SERVICE_CORES):
            server = stack.enter_context(EmbeddedPostgres(Path(place) / "postgres", durable=True))
            migrate(server.url)
        for matches in options.matches:
            folder = Path(place) / str(matches)
            folder.mkdir()
            paces = await measure(report, folder, server.url, matches, options)
            phases += paces
            if matches in floor.MATCHES:
                floors += await measure_floor(report, paces[0], options)
    return phases, floors


def tell(report: Report, phases: list[Phase], streams: int) -> None:
    """The tables."""
    closed = [phase for phase in phases if phase.pace is None]
    report.table(
        "Saturated: moves a second, milliseconds until the other player has a move",
        (
            "matches",
            "moves/s",
            "p50",
            "p95",
            "p99",
            "group",
            "new matches",
            "refused",
            "core 0",
            "core 1",
            "load",
        ),
        [
            (
                phase.matches,
                phase.found["rate"],
                *(phase.found[name] for name in ("p50", "p95", "p99")),
                phase.group,
                phase.found["created"],
                phase.found["refused"],
                *(f"{share:.0%}" for share in (*phase.cores[:2], phase.found["busy"])),
            )
            for phase in closed
        ],
    )
    report.table(
        "Saturated: microseconds of processor time a move",
        (
            "matches",
            *SERVICES,
            "postgres",
            "all",
            "messages in",
            "bytes",
            "to mover",
            "bytes",
            "to other",
            "bytes",
        ),
        [(phase.matches, *phase.costs, *_sizes(phase)) for phase in closed],
    )
    report.table(
        "Saturated: milliseconds a command waits for each stage, mean",
        ("matches", *STAGES),
        [(phase.matches, *(phase.stages[stage] for stage in STAGES)) for phase in closed],
    )
    report.table(
        "Open loop: milliseconds from when a move was due until the other player has it",
        (
            "matches",
            "due/s",
            "moves/s",
            "p50",
            "p95",
            "p99",
            "no turn open",
            "lag p99",
            "unfinished",
            "µs a move",
        ),
        [
            (
                phase.matches,
                phase.pace,
                phase.found["rate"],
                *(phase.found[name] for name in ("p50", "p95", "p99")),
                f"{phase.found['waited']:.1%}",
                phase.found["lag_p99"],
                phase.found["unfinished"],
                phase.costs[-1],
            )
            for phase in phases
            if phase.pace is not None
        ],
    )
    report.note(
        f"services and PostgreSQL (fsync on) on core 0, players on core 1; {streams} streams a connection; "
        "load: share of its core that the generator used"
    )
    for phase in phases:
        if phase.found["refused"]:
            report.note(f"{phase.matches} matches: refused, for example: {phase.found['refusal']}")


def compare(report: Report, phases: list[Phase], floors: list[floor.Found], streams: int) -> None:
    """The path beside its floor."""
    saturated = {phase.matches: phase for phase in phases if phase.pace is None}
    floor.tell(report, floors, saturated[floors[-1].pairs].sizes, streams)
    rows = []
    for below in floors:
        path = saturated[below.pairs]
        costs = below.cost_us / path.costs[-1]
        rows.append((path.matches, below.variant.name, path.found["rate"] / below.rate, costs))
        if below.variant in (floor.TOGETHER, floor.BOTH_TOLD):
            name = f"processor time of the floor ({below.variant.name}) over that of a move, {path.matches} matches"
            report.ratio(name, costs, better="higher")
    columns = (
        "matches",
        "floor",
        "moves/s over messages/s",
        "processor time of a message over that of a move",
    )
    report.table("The path over its floor", columns, rows)


def _sizes(phase: Phase) -> list[float]:
    sizes = phase.found["sizes"]
    return [sizes[kind][what] for kind in ("in", "mover", "other") for what in ("a_move", "bytes")]


def main() -> None:
    """Measures and tells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--matches", type=int, nargs="+", default=list(MATCHES))
    parser.add_argument(
        "--shares", type=float, nargs="*", default=list(SHARES), help="of saturation, open loop"
    )
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--streams", type=int, default=floor.STREAMS, help="on one connection")
    options = parser.parse_args()
    os.sched_setaffinity(0, floor.LOAD_CORES)
    report = Report("path")
    phases, floors = asyncio.run(measure_all(report, options))
    tell(report, phases, options.streams)
    if floors:
        compare(report, phases, floors, options.streams)
    report.finish()


if __name__ == "__main__":
    main()
