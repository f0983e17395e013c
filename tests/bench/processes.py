"""Several game processes behind one clock and one PostgreSQL, and a model that says what more of them would bring.

All cores are the service's here; the load generator shares the last one, and its processor time is in the model.
`python -m tests.bench.processes [--games K ...] [--matches N] [--seconds S]`.
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
from tests.bench.backend import Phase, backend
from tests.bench.floor import LOAD_CORES, STREAMS
from tests.bench.report import Report
from tests.bench.scaling import Costs

GAMES: Final = (1, 2, 4)
MATCHES: Final = 400
SECONDS: Final = 10.0
LARGER: Final = (2, 4, 8, 16, 32)


async def measure(report: Report, options: argparse.Namespace) -> dict[int, Phase]:
    """As fast as it goes, with each number of game processes; a fresh stack each."""
    phases = {}
    with tempfile.TemporaryDirectory(prefix="spectacular-bid-bench-") as place, ExitStack() as stack:
        server = stack.enter_context(EmbeddedPostgres(Path(place) / "postgres", durable=True))
        migrate(server.url)
        for games in options.games:
            report.progress(f"{games} game processes, {options.matches} matches")
            folder = Path(place) / str(games)
            folder.mkdir()
            cores = os.sched_getaffinity(0)
            async with backend(
                folder, server.url, options.matches, games=games, streams=STREAMS, cores=cores
            ) as made:
                phases[games] = await made.run(None, options.seconds)
    return phases


def costs_of(phase: Phase, *, with_load: bool) -> Costs:
    """Microseconds a move, as measured."""
    cost = dict(zip(phase.spent, phase.costs, strict=False))
    return Costs(
        cost["game"],
        cost["clock"],
        cost["postgres"],
        load=phase.load_cost if with_load else 0.0,
        fixed=phase.spent["matchmaking"] / float(phase.found["seconds"]),
    )


def tell(report: Report, phases: dict[int, Phase]) -> None:
    """What was measured beside what the model says, then larger machines."""
    cores = len(os.sched_getaffinity(0))
    first, one = next(iter(phases.items()))
    model = costs_of(one, with_load=True)
    rows = []
    for games, phase in phases.items():
        predicted, full = model.predicted(games, cores)
        gain = phase.rate / one.rate
        shares = [seconds / phase.found["seconds"] for seconds in phase.spent.values()]
        rows.append(
            (
                games,
                phase.rate,
                gain,
                f"{gain * first / games:.0%}",
                predicted,
                full,
                *(phase.found[name] for name in ("p50", "p99")),
                *(f"{share:.2f}" for share in (*shares, phase.found["busy"])),
                f"{sum(phase.cores):.2f}",
            )
        )
    report.table(
        f"{cores} cores, all shared, the generator among them: moves/s; cores used by each kind of process",
        (
            *("game processes", "moves/s", "gain", "efficiency", "model", "full in the model", "p50", "p99"),
            *(*one.spent, "generator", "all"),
        ),
        rows,
    )
    report.table(
        "Microseconds of processor time a move",
        ("game processes", *one.spent, "generator", "all"),
        [
            (games, *phase.costs[:-1], phase.load_cost, phase.costs[-1] + phase.load_cost)
            for games, phase in phases.items()
        ],
    )
    alone = costs_of(one, with_load=False)
    larger = []
    for count in LARGER:
        games = alone.games_for(count)
        larger.append((count, games, *alone.predicted(games, count)))
    report.table(
        "The model for larger machines, players elsewhere: the fewest game processes after which more bring nothing",
        ("cores", "game processes", "moves/s", "full"),
        larger,
    )


def main() -> None:
    """Measures and tells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, nargs="+", default=list(GAMES))
    parser.add_argument("--matches", type=int, default=MATCHES)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    options = parser.parse_args()
    report = Report("processes")
    tell(report, asyncio.run(measure(report, options)))
    report.note(
        f"PostgreSQL with fsync; {STREAMS} streams a connection; the generator is on core {max(LOAD_CORES)}"
    )
    report.finish()


if __name__ == "__main__":
    main()
