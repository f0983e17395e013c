"""A game process with many live matches is drained while people play on it: how long each match stood still.

`python -m tests.bench.drain [--matches N] [--games N] [--sigterm]`, or `make bench-drain`. Real processes on a PostgreSQL with
fsync, players with the client library who think for a while before each command, and the operator's own command. Ends
with status 1 when a match is void or lost on time, a command is lost, or a figure does not follow from what is stored.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import asyncpg
from rich.console import Console
from rich.table import Table

from services.local.postgres import EmbeddedPostgres
from services.storage.migrate import migrate
from tests.drains import (
    Sitting,
    credited_seconds,
    drained,
    faults_of,
    operate,
    pauses,
    quantile,
    sit_down,
    stopped,
)
from tests.stack import Stack

THINKING: Final = (1.0, 6.0)
"""Seconds a player takes for a command."""
OTHERS: Final = 10
"""Matches that each of the other processes has of its own."""


def row(name: str, values: Iterable[float]) -> tuple[str, ...]:
    """Count, median, 99 of 100 and most, in milliseconds."""
    sorted_values = sorted(values)
    if len(sorted_values) < 2:
        return (name, str(len(sorted_values)), "", "", "")
    cuts = statistics.quantiles(sorted_values, n=100, method="inclusive")
    figures = (cuts[49], cuts[98], sorted_values[-1])
    return (name, str(len(sorted_values)), *(f"{figure * 1000:,.0f}" for figure in figures))


async def measure(
    made: Stack, matches: int, games: list[str], console: Console, *, sigterm: bool = False
) -> int:
    """Plays, drains, and prints; how many faults there were."""
    first, *others = games
    console.print(f"  {matches} matches on {first}, {OTHERS} on each of {', '.join(others)} …")
    sittings = [await sit_down(made, first, THINKING, number) for number in range(matches)]
    beside = [
        await sit_down(made, game, THINKING, 10_000 + number) for game in others for number in range(OTHERS)
    ]
    playing = asyncio.gather(*(sitting.play() for sitting in (*sittings, *beside)))
    await asyncio.gather(*(sitting.under_way.wait() for sitting in (*sittings, *beside)))
    live: int = await made.pool.fetchval(
        "select count(*) from match_owner where engine_id = $1 and released_at is null", first
    )
    seconds = await (stopped if sigterm else drained)(made, sittings, first)
    left = await made.pool.fetch(
        "select engine_id, count(*) from match_owner where released_at is null group by engine_id order by 1"
    )
    for sitting in beside:
        sitting.ends = True
    await playing
    histogram = await pauses(made, *others)
    faults = await faults_of(made, [*sittings, *beside])
    console.print(report(sittings, histogram))
    console.print(await operate(made, "list"), markup=False, highlight=False)
    causes = await made.pool.fetch("select cause, count(*) from match_outcome group by cause order by cause")
    ended = ", ".join(f"{count} by {cause}" for cause, count in causes)
    now_at = ", ".join(f"{count} on {game}" for game, count in left)
    moved = histogram[-1][1]
    console.print(f"{live} live matches drained in {seconds:.1f} s, {moved} handed over; live then: {now_at}")
    console.print(
        f"commands accepted: {sum(len(sitting.accepted) for sitting in sittings)}, lost: 0 unless named below"
    )
    console.print(f"ended: {ended}; not charged in all: {await credited_seconds(made, sittings):.1f} s")
    for fault in faults:
        console.print(f"  {fault}", markup=False)
    return len(faults) + (moved < live) + (live < matches)


def report(sittings: list[Sitting], histogram: list[tuple[float, int]]) -> Table:
    """What processes measured and what players felt."""
    table = Table(title="Matches handed to other processes, ms")
    for column in ("", "count", "p50", "p99", "most"):
        table.add_column(column, justify="left" if not column else "right")
    most = next(bound for bound, count in histogram if count == histogram[-1][1])
    figures = (quantile(histogram, 0.5), quantile(histogram, 0.99))
    table.add_row(
        "pause: last command the old could take to first the new could",
        str(histogram[-1][1]),
        *(f"{figure * 1000:,.0f}" for figure in figures),
        f"<= {most * 1000:,.0f}",
    )
    away = [seconds for sitting in sittings for stream in sitting.streams for seconds in stream.away]
    table.add_row(*row("stream away: `reconnect` to first word of the new", away))
    felt = [sitting.felt for sitting in sittings if sitting.felt is not None]
    table.add_row(*row("match: last answer of the old to first of the new, without thinking", felt))
    first = [sitting.elsewhere[0].took for sitting in sittings if sitting.elsewhere]
    table.add_row(*row("first command at the new: sent to answered", first))
    usual = [command.took for sitting in sittings for command in sitting.accepted]
    table.add_row(*row("any command: sent to answered", usual))
    return table


async def run(matches: int, games: int, console: Console, *, sigterm: bool) -> int:
    """One stack, one drain."""
    with (
        tempfile.TemporaryDirectory(prefix="spectacular-bid-bench-") as folder,
        EmbeddedPostgres(Path(folder) / "postgres", durable=True) as server,
    ):
        await asyncio.to_thread(migrate, server.url)
        names = ["game", *(f"game-{number}" for number in range(1, games))]
        async with AsyncExitStack() as exits:
            pool = await exits.enter_async_context(asyncpg.create_pool(server.url, min_size=1, max_size=4))
            place = Path(folder) / "stack"
            place.mkdir()
            made = Stack(place, server.url, exits, _pool=pool)
            await made.start("clock", "matchmaking", *names)
            return await measure(made, matches, names, console, sigterm=sigterm)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--matches", type=int, default=100)
    parser.add_argument("--games", type=int, default=3)
    parser.add_argument("--sigterm", action="store_true", help="the process is told to end instead")
    options = parser.parse_args()
    console = Console(width=120)
    console.print(
        f"services, PostgreSQL and players share {os.cpu_count()} cores; players think {THINKING} s"
    )
    sys.exit(1 if asyncio.run(run(options.matches, options.games, console, sigterm=options.sigterm)) else 0)


if __name__ == "__main__":
    main()
