"""What a stored ruling costs by the size of its group: our statement beside bare inserts of the same rows, fsync on.

A group is one transaction. COPY and the bare insert check nothing but what the table does; ours looks who owns each
match and where its log ends; with credits each ruling rests on one of two incidents, as after a stall of the process.
Run with `python -m tests.bench.commits [--seconds S]`.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import asyncpg
from prometheus_client import CollectorRegistry

from services.game.metrics import CommitMetrics
from services.local.postgres import EmbeddedPostgres
from services.storage.entry import COLUMNS, NAMES, Entry
from services.storage.incidents import Effect, Incident, Kind, Touched
from services.storage.journal import Journal
from services.storage.migrate import migrate
from services.storage.pool import Pool, open_pool
from tests.bench.logrows import ENGINE, groups, owned_matches, records, rulings
from tests.bench.report import Report
from tests.bench.usage import family_seconds, postmaster_of

SIZES: Final = (1, 10, 50, 100, 250)
SECONDS: Final = 1.0
"""Of each kind of write at each size, in each of the rounds."""
ROUNDS: Final = 2
MATCHES: Final = 500
POLICY: Final = "1"

_PARAMETERS = ", ".join(f"${number}::{kind}[]" for number, (_, kind) in enumerate(COLUMNS, 1))
_VALUES = NAMES.replace("events", "events::jsonb")
_BARE: Final = f"insert into match_log ({NAMES}) select {_VALUES} from unnest({_PARAMETERS}) as i ({NAMES})"  # noqa: S608

Write = Callable[[Sequence[Entry]], Awaitable[Any]]


class Kinds:
    """The ways to store a group."""

    def __init__(self, pool: Pool, connection: asyncpg.Connection[Any]) -> None:
        self._connection = connection
        self._journal = Journal(pool, ENGINE, CommitMetrics(CollectorRegistry()))
        self._running = asyncio.create_task(self._journal.run())
        self.all: dict[str, Write] = {
            "COPY": self._copy,
            "insert from unnest": self._bare,
            "ours": self._ours,
            "ours, all credited": self._credited,
        }

    async def close(self) -> None:
        """Nothing is written any more."""
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    async def _copy(self, group: Sequence[Entry]) -> None:
        await self._connection.copy_records_to_table(
            "match_log",
            columns=[name for name, _ in COLUMNS],
            records=records(group),
        )

    async def _bare(self, group: Sequence[Entry]) -> None:
        await self._connection.execute(_BARE, *map(list, zip(*records(group), strict=True)))

    async def _ours(self, group: Sequence[Entry]) -> None:
        await asyncio.gather(*map(self._journal.append, group))

    async def _credited(self, group: Sequence[Entry]) -> None:
        stalls = [
            Incident.lasting(Kind.STALL, f"game/{ENGINE}", 10**8, POLICY, engine_id=ENGINE) for _ in range(2)
        ]
        await self._ours(
            [
                replace(entry, touched=(Touched(stalls[number % 2], Effect.CREDITED, 10**8),))
                for number, entry in enumerate(group)
            ]
        )


class Cost:
    """The least that was found."""

    def __init__(self) -> None:
        self.postgres_us = self.writer_us = self.seconds = float("inf")

    def least(self, postgres_us: float, writer_us: float, seconds: float) -> None:
        """One more round."""
        self.postgres_us = min(self.postgres_us, postgres_us)
        self.writer_us = min(self.writer_us, writer_us)
        self.seconds = min(self.seconds, seconds)


async def measure(
    pool: Pool, kinds: Kinds, postmaster: int, seconds: float, report: Report
) -> dict[tuple[str, int], Cost]:
    """By kind and size of the group; the least of some rounds of everything."""
    found: dict[tuple[str, int], Cost] = {}
    dice = random.Random(1)
    templates = rulings("", dice, rounds=3)
    for number in range(ROUNDS):
        for size in SIZES:
            report.progress(f"round {number + 1} of {ROUNDS}: groups of {size}")
            for name, write in kinds.all.items():
                async with pool.acquire() as connection:
                    await connection.execute("truncate player, incident cascade")
                    ids = await owned_matches(connection, MATCHES)
                    await connection.execute("checkpoint")
                logs = [[replace(entry, match_id=match_id) for entry in templates] for match_id in ids]
                cost = await _spend(write, logs, size, postmaster, seconds)
                found.setdefault((name, size), Cost()).least(*cost)
    return found


async def _spend(
    write: Write, logs: list[list[Entry]], size: int, postmaster: int, seconds: float
) -> tuple[float, float, float]:
    """µs of PostgreSQL and of the writer a row, seconds a row."""
    waiting = groups(logs, size)
    for _ in range(8):  # the plan of a statement is settled after its first few calls
        await write(next(waiting))
    server, own, began, rows = family_seconds(postmaster), time.process_time(), time.perf_counter(), 0
    for group in waiting:
        await write(group)
        rows += size
        if time.perf_counter() - began > seconds:
            break
    took, own = time.perf_counter() - began, time.process_time() - own
    return (family_seconds(postmaster) - server) / rows * 1e6, own / rows * 1e6, took / rows


async def run(folder: Path, url: str, seconds: float) -> Report:
    """The table."""
    report = Report("commits")
    pool = await open_pool(url, name="game", size=2, wait_seconds=10)
    connection = await asyncpg.connect(url)
    kinds = Kinds(pool, connection)
    try:
        found = await measure(pool, kinds, postmaster_of(folder), seconds, report)
    finally:
        await kinds.close()
        await connection.close()
        await pool.close()
    report.table(
        "A ruling stored in PostgreSQL with fsync, by size of its group",
        ("group", "how", "rows/s", "groups/s", "PostgreSQL µs a row", "writer µs a row"),
        [
            (size, name, 1 / cost.seconds, 1 / cost.seconds / size, cost.postgres_us, cost.writer_us)
            for (name, size), cost in sorted(found.items(), key=lambda item: item[0][1])
        ],
    )
    for size in (50, 250):
        floor, ours = found["COPY", size], found["ours", size]
        report.ratio(
            f"processor time of PostgreSQL, COPY over ours, groups of {size}",
            floor.postgres_us / ours.postgres_us,
            better="higher",
        )
    report.note(
        "least of the rounds; one writer that waits for each commit; its time includes one future a row"
    )
    report.finish()
    return report


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    seconds = parser.parse_args().seconds
    with (
        tempfile.TemporaryDirectory(prefix="spectacular-bid-bench-") as place,
        EmbeddedPostgres(Path(place) / "postgres", durable=True) as server,
    ):
        migrate(server.url)
        asyncio.run(run(Path(place), server.url, seconds))


if __name__ == "__main__":
    main()
