"""What live matches cost in memory, and what they cost while nobody moves.

`python -m tests.bench.memory [--matches N ...] [--commands N] [--own-connections]`. One whole stack; the number of matches
grows step by step. Each was played for a few commands, so that it has a state, a log and answers; then nobody moves. A step
measures first its matches without streams, and then with a Play stream of each player.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from typing import Final

from tests.bench.crowd import STREAMS_A_CONNECTION, Crowd
from tests.bench.report import Report
from tests.bench.scales import SETTLE_SECONDS, Scales, weighed_crowd

MATCHES: Final = (500, 2_000, 10_000)
COMMANDS: Final = 12
QUIET_SECONDS: Final = 10.0
"""How long nobody moves while processor time is counted: two heartbeats of every stream."""


async def weigh_matches(
    crowd: Crowd, scales: Scales, sizes: Sequence[int], commands: int, report: Report
) -> None:
    """A row for each number of matches."""
    memory, shares, quiet = [], [], []
    before = scales.weigh()
    memory.append((0, *(each / 1024 for each in before.values())))
    quiet.append((0, *await scales.idle(QUIET_SECONDS)))
    for size in sizes:
        more = size - len(crowd.matches)
        began = time.monotonic()
        report.progress(f"{more} matches more, {commands} commands each …")
        new = await crowd.seat(more, commands=commands)
        await asyncio.sleep(SETTLE_SECONDS)
        played = scales.weigh()
        await crowd.join(new)
        report.progress(f"… played and joined in {time.monotonic() - began:.0f} s")
        await asyncio.sleep(SETTLE_SECONDS)
        quiet.append((size, *await scales.idle(QUIET_SECONDS)))
        joined = scales.weigh()
        memory.append((size, *(each / 1024 for each in joined.values())))
        match, streams = (played["game"] - before["game"]) / more, (joined["game"] - played["game"]) / more
        clock = (joined["clock"] - before["clock"]) / more
        shares.append((size, match, streams, match + streams, clock))
        before = joined
        if void := await crowd.void():
            report.note(f"{void} of {size} matches are void: the machine had other things to do")
    report.table("Memory, MiB", ("live matches", *scales.pids), memory)
    report.table(
        "Memory of one more match, KiB",
        ("up to", "game: the match", "game: its two streams", "game: both", "clock"),
        shares,
    )
    report.table("While nobody moves, µs of processor time a second", ("live matches", *scales.pids), quiet)


async def measure(arguments: argparse.Namespace, report: Report) -> None:
    """The whole part."""
    each = 1 if arguments.own_connections else STREAMS_A_CONNECTION
    async with weighed_crowd(durable=False, streams_a_connection=each) as (gathered, scales):
        await weigh_matches(gathered, scales, arguments.matches, arguments.commands, report)
    report.note(
        f"{arguments.commands} commands in each match; two Play streams a match, {each} streams a connection"
    )


def main() -> None:
    """Measures and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--matches", type=int, nargs="+", default=list(MATCHES))
    parser.add_argument("--commands", type=int, default=COMMANDS)
    parser.add_argument("--own-connections", action="store_true", help="a connection for each stream")
    report = Report("memory")
    asyncio.run(measure(parser.parse_args(), report))
    report.finish()


if __name__ == "__main__":
    main()
