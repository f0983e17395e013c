"""What a finished match leaves in each table and index, before and after its log was moved: `make bench-growth`.

A house bot and an easier one play whole matches through the real services on a real PostgreSQL; half of the matches are for the
ladder. Sizes are those of files, vacuumed; what the empty schema takes is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from client.bots import easy, greedy
from client.bots.player import play
from engine.seats import BySeat
from services.local.postgres import EmbeddedPostgres
from services.storage import archiving
from services.storage.migrate import migrate
from services.storage.pool import Connection
from tests.seats import eventually
from tests.stack import Stack, stack

AT_ONCE: Final = 20
MILLION: Final = 1_000_000
GIGABYTE: Final = 1_000_000_000

Sizes = dict[str, int]
"""Bytes, by table and by index."""


@dataclass
class Growth:
    """What was measured."""

    matches: int
    rulings: int
    before: Sizes
    after: Sizes
    played_wal: int
    moved_wal: int
    moved_seconds: float
    moved_cpu_seconds: float
    """Of the job alone: what PostgreSQL needs beside it comes on top."""
    plain_bytes: int
    packed_bytes: int


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--matches", type=int, default=400)
    wanted = parser.parse_args().matches
    console = Console()
    with (
        tempfile.TemporaryDirectory(prefix="spectacular-bid-bench-") as folder,
        EmbeddedPostgres(Path(folder) / "postgres", durable=True) as server,
    ):
        migrate(server.url)
        show(console, asyncio.run(measure(Path(folder), server.url, wanted, console)))


async def measure(folder: Path, url: str, wanted: int, console: Console) -> Growth:
    """Everything."""
    async with stack(folder, url) as made:
        database = await made.database()
        empty, wal = await sizes(database), await wal_position(database)
        left = iter(range(wanted))
        await asyncio.gather(*(_keep_playing(made, number, left) for number in range(AT_ONCE)))
        console.print(f"{wanted} matches are played")

        async def all_decided() -> bool:
            return bool(await database.fetchval("select count(*) from rating_decision") == wanted)

        await eventually(all_decided)
        played_wal = await wal_position(database) - wal
        rulings = await database.fetchval("select count(*) from match_log")
        before = _less(await sizes(database), empty)
        wal, began, worked = await wal_position(database), time.perf_counter(), time.process_time()
        plain = packed = 0
        for match in await archiving.candidates(database, days=0, after=0, limit=wanted):
            moved = await archiving.move(database, match.match_id)
            assert moved is not None
            plain, packed = plain + moved.plain_bytes, packed + moved.packed_bytes
        seconds, cpu = time.perf_counter() - began, time.process_time() - worked
        moved_wal = await wal_position(database) - wal
        # As if what has become free were used again.
        await database.execute("vacuum full match_log")
        after = _less(await sizes(database), empty)
    return Growth(wanted, rulings, before, after, played_wal, moved_wal, seconds, cpu, plain, packed)


async def _keep_playing(made: Stack, number: int, left: Iterable[int]) -> None:
    north, south = await made.players(2)
    dice = random.Random(number)
    one, other = await made.client(north), await made.client(south)
    for count in left:
        match_id = await made.create(BySeat(north, south))
        if count % 2:
            # As matchmaking would have made it; a game process does not mind.
            await made.pool.execute(
                "update match set mode = 'rated', rated = true where match_id = $1", match_id
            )
        await asyncio.gather(
            play(one.play(match_id), greedy.choose),
            play(other.play(match_id), lambda table: easy.choose(table, dice)),
        )


async def sizes(database: Connection) -> Sizes:
    """Of every table and index of ours, vacuumed."""
    await database.execute("vacuum analyze")
    rows = await database.fetch(
        """
        select c.relname as name, case c.relkind when 'i' then pg_relation_size(c.oid) else pg_table_size(c.oid) end
               as bytes
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = 'public' and c.relkind in ('r', 'i')
        """
    )
    return {row["name"]: row["bytes"] for row in rows}


async def wal_position(database: Connection) -> int:
    """How much WAL was ever written, in bytes."""
    position: int = await database.fetchval("select pg_current_wal_lsn() - '0/0'::pg_lsn")
    return int(position)


def _less(now: Sizes, empty: Sizes) -> Sizes:
    return {name: max(0, size - empty.get(name, 0)) for name, size in now.items()}


def show(console: Console, grown: Growth) -> None:
    """The tables of what was found."""
    shown = Table(title=f"Bytes a finished match ({grown.matches} matches, {grown.rulings} rulings)")
    for column in ("table or index", "before", "after its log was moved", "GB a million", "after"):
        shown.add_column(column, justify="left" if column.startswith("table") else "right")

    def row(name: str, before: int, after: int) -> None:
        each, moved = before / grown.matches, after / grown.matches
        shown.add_row(
            name,
            f"{each:,.0f}",
            f"{moved:,.0f}",
            f"{each * MILLION / GIGABYTE:.2f}",
            f"{moved * MILLION / GIGABYTE:.2f}",
        )

    for name in sorted(grown.before, key=lambda each: -max(grown.before[each], grown.after[each])):
        if max(grown.before[name], grown.after[name]) / grown.matches >= 1:
            row(name, grown.before[name], grown.after[name])
    shown.add_section()
    row("all", sum(grown.before.values()), sum(grown.after.values()))
    console.print(shown)
    console.print(
        f"{grown.rulings / grown.matches:.1f} rulings a match; WAL {grown.played_wal / grown.matches:,.0f} bytes a match"
        f" while it was played, {grown.moved_wal / grown.matches:,.0f} while its log was moved;"
        f" {grown.matches / grown.moved_seconds:.0f} logs moved a second,"
        f" {grown.moved_cpu_seconds / grown.matches * 1000:.0f} ms of CPU each;"
        f" {grown.plain_bytes / grown.matches:,.0f} bytes of JSON became"
        f" {grown.packed_bytes / grown.matches:,.0f} ({grown.packed_bytes / grown.plain_bytes:.1%})"
    )


if __name__ == "__main__":
    main()
