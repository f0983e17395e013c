"""A game process with many live matches is killed: how long until another one plays all of them, and what that costs.

Real processes on a PostgreSQL with fsync; the matches are in the middle of their first round. The process starts on them
as after a crash of its own, then it is killed and another one takes them up once its lease has run out.
`python -m tests.bench.takeover [--matches N ...]`.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import asyncpg

from services.local.postgres import EmbeddedPostgres
from services.storage.migrate import migrate
from tests.bench.logrows import copy_logs, owned_matches, rulings
from tests.bench.report import Report
from tests.bench.usage import Usage, postmaster_of, usage_of
from tests.processes import SECONDS_MAX
from tests.stack import Stack

MATCHES: Final = (500, 2000)
LOG: Final = 12
"""Rulings of each match: some way into the first round."""
GAME, OTHER = "game", "game-1"
LOOK_SECONDS: Final = 0.02


async def opened(made: Stack, name: str, matches: int) -> None:
    """All of them go on in this process."""
    give_up = time.monotonic() + SECONDS_MAX
    process = made.processes[name]
    while True:
        lines = [line for line in process.events() if line["event"] == "matches_taken_up"]
        if sum(line["matches"] for line in lines) >= matches:
            return
        assert time.monotonic() < give_up, process.log_tail()
        await asyncio.sleep(LOOK_SECONDS)


async def leave_matches(made: Stack, matches: int) -> None:
    """Live matches of a game process that is gone."""
    log = rulings("", random.Random(3))[:LOG]
    connection = await made.database()
    await connection.execute("truncate player cascade")
    ids = await owned_matches(connection, matches, GAME)
    await copy_logs(connection, [[replace(entry, match_id=match_id) for entry in log] for match_id in ids])
    await connection.execute("analyze")


def usage(made: Stack, postmaster: int, *names: str) -> Usage:
    """Of those that have something to do with it."""
    return usage_of({"postgres": postmaster} | {name: made.processes[name].pid for name in names})


async def measure(folder: Path, url: str, matches: int, report: Report) -> list[list[str | float | int]]:
    """A row for the start and one for the takeover."""
    async with AsyncExitStack() as exits:
        pool = await exits.enter_async_context(asyncpg.create_pool(url, min_size=1, max_size=4))
        made = Stack(folder, url, exits, _pool=pool)
        postmaster = postmaster_of(folder.parent)
        await made.start("clock", "matchmaking")
        await leave_matches(made, matches)
        report.progress(f"{matches} matches: the process starts again")
        before, began = usage(made, postmaster, "clock"), time.perf_counter()
        await made.launch(GAME)
        await opened(made, GAME, matches)
        took = time.perf_counter() - began
        spent = usage(made, postmaster, "clock").since(before)
        start = usage(made, postmaster, GAME).seconds[GAME]
        rows: list[list[str | float | int]] = [
            ["start on its own matches", matches, took, *costs(matches, start, spent), None]  # type: ignore[list-item]
        ]
        await made.start(OTHER)
        report.progress(f"{matches} matches: the process is killed")
        before = usage(made, postmaster, "clock", OTHER)
        killed = time.perf_counter()
        made.processes.pop(GAME).kill()
        first = await noticed(made)
        free = time.perf_counter()
        await opened(made, OTHER, matches)
        took = time.perf_counter() - free
        spent = usage(made, postmaster, "clock", OTHER).since(before)
        rows.append(
            [
                "killed, taken up by another",
                matches,
                took,
                *costs(matches, spent[OTHER], spent),
                first - killed,
            ]
        )
        return rows


async def noticed(made: Stack) -> float:
    """When the first of them is another's."""
    give_up = time.monotonic() + SECONDS_MAX
    while not await made.pool.fetchval("select exists (select from match_owner where engine_id = $1)", OTHER):
        assert time.monotonic() < give_up
        await asyncio.sleep(LOOK_SECONDS)
    return time.perf_counter()


def costs(matches: int, game: float, spent: dict[str, float]) -> tuple[float, float, float]:
    """Microseconds a match: of the game process, the clock and PostgreSQL."""
    return tuple(seconds / matches * 1e6 for seconds in (game, spent["clock"], spent["postgres"]))  # type: ignore[return-value]


async def run(folder: Path, url: str, sizes: list[int]) -> None:
    """The table."""
    report = Report("takeover")
    rows = []
    for matches in sizes:
        place = folder / str(matches)
        place.mkdir()
        rows += await measure(place, url, matches, report)
    report.table(
        "Live matches that change hands, until all are played on",
        ("", "matches", "s", "game µs a match", "clock µs", "PostgreSQL µs", "s until the lease had run out"),
        rows,
    )
    report.note(
        f"{LOG} rulings a match; the start has that of the process in it (see coldstart), its processor time too"
    )
    report.finish()


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--matches", type=int, nargs="+", default=list(MATCHES))
    sizes = parser.parse_args().matches
    with (
        tempfile.TemporaryDirectory(prefix="spectacular-bid-bench-") as place,
        EmbeddedPostgres(Path(place) / "postgres", durable=True) as server,
    ):
        migrate(server.url)
        asyncio.run(run(Path(place), server.url, sizes))


if __name__ == "__main__":
    main()
