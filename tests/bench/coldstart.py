"""How long each process takes from its start until it is ready, and what of that is importing code.

Real processes on a PostgreSQL with fsync and an empty database. `python -m tests.bench.coldstart`.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from services.local.postgres import EmbeddedPostgres
from services.storage.migrate import migrate
from tests.bench.report import Report
from tests.bench.usage import processor_seconds
from tests.stack import Stack

NAMES: Final = ("clock", "matchmaking", "game")
ROUNDS: Final = 3


def importing(module: str) -> float:
    """Processor seconds of a process that imports this and ends."""
    before = os.times()
    subprocess.run([sys.executable, "-c", f"import {module}.__main__"], check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


async def started(folder: Path, url: str) -> dict[str, tuple[float, float]]:
    """Wall and processor seconds of each process until it is ready, the others being there."""
    found = {}
    async with AsyncExitStack() as exits:
        made = Stack(folder, url, exits)
        for name in NAMES:
            began = time.perf_counter()
            await made.start(name)
            found[name] = (time.perf_counter() - began, processor_seconds(made.processes[name].pid))
    return found


def measure(folder: Path, report: Report) -> None:
    """The table: least of the rounds."""
    began, worked = time.perf_counter(), os.times()
    with EmbeddedPostgres(folder / "postgres", durable=True) as server:
        up = time.perf_counter() - began
        migrate(server.url)
        migrated = time.perf_counter() - began - up
        best: dict[str, tuple[float, float]] = {}
        for number in range(ROUNDS):
            report.progress(f"round {number + 1} of {ROUNDS}")
            place = folder / str(number)
            place.mkdir()
            for name, (wall, cpu) in asyncio.run(started(place, server.url)).items():
                before = best.get(name, (wall, cpu))
                best[name] = (min(before[0], wall), min(before[1], cpu))
    ended = os.times()
    imports = {name: min(importing(f"services.{name}") for _ in range(ROUNDS)) for name in NAMES}
    report.table(
        "From start to ready",
        ("process", "s", "processor s", "of it importing"),
        [
            ("PostgreSQL, new data", up, None, None),
            ("migrations", migrated, None, None),
            *((name, *best[name], imports[name]) for name in NAMES),
        ],
    )
    report.note(f"this process took {ended.user - worked.user:.1f} s meanwhile")


def main() -> None:
    """Measures and prints."""
    report = Report("coldstart")
    with tempfile.TemporaryDirectory(prefix="spectacular-bid-bench-") as place:
        measure(Path(place), report)
    report.finish()


if __name__ == "__main__":
    main()
