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
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from services.local.postgres import EmbeddedPostgres
from services.storage.migrate import migrate
from tests.bench import floor
from tests.bench.backend import STAGES, Phase, backend
from tests.bench.report import Report
from tests.bench.usage import pinned

MATCHES: Final = (1, 10, 100, 500, 2000)
SHARES: Final = (0.25, 0.5, 0.75)
SECONDS: Final = 10.0
QUANTILES: Final = ("p50", "p95", "p99")
CORES: Final = ("core 0", "core 1")


async def measure(
    report: Report, folder: Path, url: str, matches: int, options: argparse.Namespace
) -> list[Phase]:
    """All paces at one number of matches."""
    report.progress(f"{matches} matches: being made")
    async with backend(folder, url, matches, streams=options.streams, cores=floor.SERVICE_CORES) as made:
        report.progress(f"{matches} matches: as fast as it goes")
        rounds = [await made.run(None, options.seconds) for _ in range(options.rounds)]
        phases = [min(rounds, key=lambda phase: phase.costs[-1])]
        for share in options.shares:
            pace = phases[0].rate * share
            report.progress(f"{matches} matches: {pace:,.0f} moves/s, {share:.0%} of {phases[0].rate:,.0f}")
            phases.append(await made.run(pace, options.seconds))
    return phases


async def measure_floor(report: Report, path: Phase, options: argparse.Namespace) -> list[floor.Found]:
    """Every variant, with as many pairs and the sizes of messages that the path had."""
    found = []
    for variant in floor.VARIANTS:
        report.progress(f"floor of {path.matches} matches: {variant.name}")
        seconds = min(options.seconds, floor.SECONDS)
        found.append(
            await floor.measure(
                variant,
                path.matches,
                path.sizes,
                seconds=seconds,
                streams=options.streams,
                rounds=options.rounds,
            )
        )
    return found


async def measure_all(
    report: Report, options: argparse.Namespace, phases: list[Phase], floors: list[floor.Found]
) -> None:
    """Every number of matches, each on a fresh stack, then its floor; one server of PostgreSQL. Fills both lists."""
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


def tell(report: Report, phases: list[Phase], streams: int) -> None:
    """The tables."""
    closed = [phase for phase in phases if phase.pace is None]
    processes = tuple(closed[0].spent)
    report.table(
        "Saturated: moves a second, ms until the other player has a move, µs of processor time a move",
        ("matches", "moves/s", *QUANTILES, "µs a move", *processes),
        [
            (phase.matches, phase.rate, *_quantiles(phase), phase.costs[-1], *phase.costs[:-1])
            for phase in closed
        ],
    )
    report.table(
        "Saturated: µs of the game process a move, by thread and mode",
        ("matches", *closed[0].threads),
        [(phase.matches, *phase.thread_costs) for phase in closed],
    )
    report.table(
        "Saturated: ms a command waits for each stage, mean; rulings in a transaction; time credited to players",
        ("matches", *STAGES, "rulings", "credited", "new matches", "refused"),
        [
            (
                phase.matches,
                *(phase.stages[stage] for stage in STAGES),
                phase.group,
                f"{phase.gaps:.1%}",
                phase.found["created"],
                phase.found["refused"],
            )
            for phase in closed
        ],
    )
    report.table(
        "Saturated: messages a move and their mean bytes; how busy the cores were, and the generator its own",
        (
            "matches",
            "in",
            "bytes in",
            "to mover",
            "bytes each",
            "to other",
            "bytes each",
            *CORES,
            "generator",
        ),
        [
            (
                phase.matches,
                *_messages(phase),
                *(f"{share:.0%}" for share in (*phase.cores[: len(CORES)], phase.found["busy"])),
            )
            for phase in closed
        ],
    )
    if opened := [phase for phase in phases if phase.pace is not None]:
        open_loop(report, opened)
    report.note(
        f"services and PostgreSQL (fsync on) on core 0, players on core 1; {streams} streams a connection; "
        "load: share of its core that the generator used"
    )
    for phase in phases:
        causes = {cause: count for cause, count in phase.found["causes"].items() if cause != "CAUSE_BALANCE"}
        if causes:
            report.note(f"{phase.matches} matches: some ended otherwise than by a balance: {causes}")
        if phase.found["broken"]:
            report.note(
                f"{phase.matches} matches: streams ended early, or no match was made: {phase.found['broken']}"
            )
        if phase.found["refused"]:
            report.note(f"{phase.matches} matches: refused, for example: {phase.found['refusal']}")


def open_loop(report: Report, phases: list[Phase]) -> None:
    """The table of due times."""
    report.table(
        "Open loop: milliseconds from when a move was due until the other player has it",
        (
            "matches",
            "due/s",
            "moves/s",
            *QUANTILES,
            "no turn open",
            "lag p99",
            "unfinished",
            "µs a move",
        ),
        [
            (
                phase.matches,
                phase.pace,
                phase.rate,
                *_quantiles(phase),
                f"{phase.found['waited']:.1%}",
                phase.found["lag_p99"],
                phase.found["unfinished"],
                phase.costs[-1],
            )
            for phase in phases
        ],
    )


def compare(report: Report, phases: list[Phase], floors: list[floor.Found], streams: int) -> None:
    """The path beside its floor."""
    saturated = {phase.matches: phase for phase in phases if phase.pace is None}
    floor.tell(report, floors, saturated[floors[-1].pairs].sizes, streams)
    rows = []
    for below in floors:
        path = saturated[below.pairs]
        costs = below.cost_us / path.costs[-1]
        rows.append((path.matches, below.variant.name, path.rate / below.rate, costs))
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


def _quantiles(phase: Phase) -> list[float]:
    return [phase.found[name] for name in QUANTILES]


def _messages(phase: Phase) -> list[float]:
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
    parser.add_argument(
        "--rounds",
        type=int,
        default=1,
        help="of each closed loop; the one with the least processor time counts",
    )
    parser.add_argument("--streams", type=int, default=floor.STREAMS, help="on one connection")
    options = parser.parse_args()
    os.sched_setaffinity(0, floor.LOAD_CORES)
    report = Report("path")
    phases: list[Phase] = []
    floors: list[floor.Found] = []
    try:
        asyncio.run(measure_all(report, options, phases, floors))
    finally:
        # What was measured before something failed is not lost.
        if phases:
            tell(report, phases, options.streams)
        if floors:
            compare(report, phases, floors, options.streams)
        report.finish()


if __name__ == "__main__":
    main()
