"""Seekers on real processes: how fast they are placed, and that nobody is lost while the leader is killed.

`python -m tests.bench.population [--seekers N ...] [--kills N]`. Times share the machine with the load itself, which
is one process with a client for each seeker. Ends with status 1 when anything is not as it must be.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from services.local.postgres import EmbeddedPostgres
from services.storage.migrate import migrate
from tests.population import Report, kills, percentile, rush, town

SEED: Final = 20
BATCH: Final = 20
"""Seekers that come for each kill."""
COLUMNS: Final = (
    "seekers",
    "cancelled",
    "leader killed",
    "matches",
    "seconds",
    "matches/s",
    "waited, s (p50 / p90 / most)",
    "after a kill, s (p50 / most)",
    "told before placed",
    "in two matches, lost, or told wrong",
)


def row(report: Report) -> tuple[str, ...]:
    """One line of the table."""
    waited = [seeker.waited for seeker in report.matched]
    matches = len(waited) // 2
    return (
        f"{len(report.seekers):,}",
        str(report.cancelled),
        str(report.kills),
        f"{matches:,}",
        f"{report.seconds:.1f}",
        f"{matches / report.seconds:.1f}",
        f"{percentile(waited, 50):.2f} / {percentile(waited, 90):.2f} / {max(waited):.2f}",
        f"{percentile(report.recovered, 50):.2f} / {max(report.recovered):.2f}" if report.recovered else "",
        str(report.told_early),
        str(len(report.faults)),
    )


async def measure(sizes: Sequence[int], times: int, console: Console) -> int:
    """Every row; how many faults there were."""
    table = Table(title="Seekers on real processes: clock, game, two of matchmaking, PostgreSQL with fsync")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    faults = 0
    runs = [(size, cancel, kill) for size in sizes for cancel, kill in ((0.0, False), (0.1, True))]
    for size, cancel, kill in [*runs, *([(0, 0.0, True)] if times else [])]:
        with (
            tempfile.TemporaryDirectory(prefix="spectacular-bid-bench-") as folder,
            EmbeddedPostgres(Path(folder) / "postgres", durable=True) as server,
        ):
            await asyncio.to_thread(migrate, server.url)
            async with town(Path(folder), server.url) as found:
                if size:
                    console.print(
                        f"  {size:,} seekers, {cancel:.0%} cancel{', the leader is killed' * kill} …"
                    )
                    report = await rush(
                        found, size, seed=SEED, cancel=cancel, kill=kill, spread_seconds=size / 200
                    )
                else:
                    console.print(f"  the leader is killed {times} times …")
                    report = await kills(found, times, seed=SEED, batch=BATCH)
        table.add_row(*row(report))
        for fault in report.faults[:20]:
            console.print(f"    {fault}", markup=False)
        faults += len(report.faults)
    console.print(table)
    return faults


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seekers", type=int, nargs="*", default=[200, 2000])
    parser.add_argument("--kills", type=int, default=20, help="kill the leader so often under load")
    options = parser.parse_args()
    sys.exit(1 if asyncio.run(measure(options.seekers, options.kills, Console(width=200))) else 0)


if __name__ == "__main__":
    main()
