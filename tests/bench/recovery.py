"""How long it takes to have a match again from its log: reading it, replaying it, by the length of the log.

One process, one match, a PostgreSQL without fsync (nothing is written). Processor time of this process, least of some
rounds. `python -m tests.bench.recovery`.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Final

import asyncpg

from services.game.story import Story
from services.local.postgres import EmbeddedPostgres
from services.storage import matches
from services.storage.migrate import migrate
from tests.bench.logrows import copy_logs, long_match, owned_matches
from tests.bench.report import Report

LENGTHS: Final = (10, 100, 300, 1000)
ROUNDS: Final = 7


async def measure(url: str, report: Report) -> None:
    """The table."""
    pool = await asyncpg.create_pool(url, min_size=1, max_size=1)
    rows = []
    try:
        for length in LENGTHS:
            report.progress(f"{length} rulings")
            async with pool.acquire() as connection:
                (match_id,) = await owned_matches(connection, 1)
                await copy_logs(connection, [long_match(length, match_id)])
            row = await matches.get_match(pool, match_id)
            assert row is not None
            read = replayed = float("inf")
            for _ in range(ROUNDS):
                began = time.process_time()
                log = await matches.get_log(pool, match_id)
                read = min(read, (between := time.process_time()) - began)
                story = Story.from_log(row, log)
                replayed = min(replayed, time.process_time() - between)
                assert story.revision == length
            rows.append((length, read * 1000, replayed * 1000, (read + replayed) / length * 1e6))
    finally:
        await pool.close()
    report.table("A match from its log", ("rulings", "read ms", "replay ms", "µs a ruling"), rows)
    report.ratio("µs a ruling, 100 over 1,000", rows[1][3] / rows[-1][3], better="higher")
    report.finish()


def main() -> None:
    """Measures and prints."""
    report = Report("recovery")
    with (
        tempfile.TemporaryDirectory(prefix="spectacular-bid-bench-") as place,
        EmbeddedPostgres(Path(place) / "postgres", durable=False) as server,
    ):
        migrate(server.url)
        asyncio.run(measure(server.url, report))


if __name__ == "__main__":
    main()
