"""How the cost of a command, and of everything that is done beside it, grows with what there is.

`python -m tests.bench.growthcurve [--matches N ...] [--lengths N ...]`. One whole stack. First the number of live matches of
a process grows: all have a stream of each player and stand still, but a few that are played as fast as it goes. Then the
length of a log grows: a few matches are played to their end. What a quiet process does is taken off.

Whatever grows faster than what there is has a factor above 1 in the last column: the cost at the end over that at the
beginning, against how much more there was.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.bench.crowd import STREAMS_A_CONNECTION, Crowd, Seated, metrics
from tests.bench.report import Cell, Report
from tests.bench.scales import SETTLE_SECONDS, Scales, kibibytes, weighed_crowd
from tests.bench.usage import usage_of

MATCHES: Final = (100, 1_000, 10_000)
LENGTHS: Final = (25, 50, 100, 200, 300)
"""Commands of a match."""
PLAYED: Final = 50
"""Matches that are played."""
SECONDS: Final = 6.0
CALLS: Final = 200
CREATED: Final = 40
SCRAPES: Final = 5
_PUBLISH: Final = 'spectacular_bid_command_stage_seconds_%s{stage="publish"}'


class Bench:
    """One stack, its crowd, and what its processes use while something is done."""

    def __init__(self, crowd: Crowd, scales: Scales) -> None:
        self.made = crowd.made
        self.crowd = crowd
        self.scales = scales
        self.quiet = dict.fromkeys(scales.pids, 0.0)
        """Microseconds a second of each process while nothing is done."""

    async def rest(self) -> None:
        """Measures what is used while nothing is done."""
        self.quiet = dict(zip(self.scales.pids, await self.scales.idle(SECONDS), strict=True))

    async def cost(self, work: Awaitable[int]) -> dict[str, float]:
        """Microseconds of each process for each thing that the work has done, beside what it would have used anyway."""
        before, began = usage_of(self.scales.pids), time.monotonic()
        done = await work
        took = time.monotonic() - began
        used = usage_of(self.scales.pids).since(before)
        return {name: (seconds * 1e6 - took * self.quiet[name]) / done for name, seconds in used.items()}

    async def commands(self, matches: Sequence[Seated], seconds: float) -> int:
        """Plays as fast as it goes; how many commands that were."""
        until = time.monotonic() + seconds

        async def one(seated: Seated) -> int:
            count = 0
            while time.monotonic() < until and await seated.move() is not None:
                count += 1
            return count

        return sum(await asyncio.gather(*map(one, matches)))

    async def reads(self, matches: Sequence[Seated]) -> int:
        """Asks for the whole of a match, over and over."""
        stub = self.made.matches()
        for number in range(CALLS):
            seated = matches[number % len(matches)]
            metadata = seated.players.north.metadata
            await stub.GetMatch(pb.GetMatchRequest(match_id=seated.match_id), metadata=metadata)
        return CALLS

    async def scrapes(self) -> int:
        """Looks at the metrics page."""
        for _ in range(SCRAPES):
            await metrics(self.made, "game")
        return SCRAPES

    async def publish(self) -> tuple[float, float]:
        """How often, and for how many seconds in all, the game process has told of commands."""
        found = await metrics(self.made, "game")
        return found[_PUBLISH % "count"], found[_PUBLISH % "sum"]


async def grow_matches(bench: Bench, sizes: Sequence[int], report: Report) -> None:
    """A row for each number of matches."""
    rows: list[tuple[Cell, ...]] = []
    for size in sizes:
        report.progress(f"{size} matches …")
        new = await bench.crowd.seat(size - len(bench.crowd.matches), commands=2)
        await bench.crowd.join(new)
        await asyncio.sleep(SETTLE_SECONDS)
        await bench.rest()
        created = await bench.cost(_counted(bench.crowd.seat, CREATED))
        played = bench.crowd.matches[-PLAYED:]
        await bench.crowd.leave(played)
        await bench.crowd.join(played, follow=True)
        before = await bench.publish()
        command = await bench.cost(bench.commands(played, SECONDS))
        after = await bench.publish()
        read = await bench.cost(bench.reads(played))
        scraped = await bench.cost(bench.scrapes())
        rows.append(
            (
                *(len(bench.crowd.matches), *(command[name] for name in ("game", "clock", "postgres"))),
                (after[1] - before[1]) / (after[0] - before[0]) * 1e6,
                *(created["game"], created["postgres"], read["game"], scraped["game"] / 1000),
                *(bench.quiet["game"], bench.quiet["clock"], bench.quiet["postgres"]),
            )
        )
    columns = (
        *("matches", "command: game, µs", "clock, µs", "PostgreSQL, µs", "publish, µs"),
        *("match made: game, µs", "made: PostgreSQL, µs", "GetMatch, µs", "metrics page, ms"),
        *("quiet: game, µs/s", "quiet: clock, µs/s", "quiet: PostgreSQL, µs/s"),
    )
    report.table("With the matches of a process", columns, rows)
    if void := await bench.crowd.void():
        report.note(
            f"{void} matches are void or over: the machine had other things to do, or they were played to the end"
        )
    _factors(report, columns, rows)


async def _counted(seat: Callable[..., Awaitable[list[Seated]]], count: int) -> int:
    return len(await seat(count, commands=2))


async def grow_lengths(bench: Bench, lengths: Sequence[int], report: Report) -> None:
    """A row for each length of a log."""
    rows: list[tuple[Cell, ...]] = []
    played = await bench.crowd.seat(PLAYED, commands=2)
    await bench.crowd.join(played, follow=True)
    await bench.rest()
    first, length = kibibytes(bench.scales.pids["game"]), 2
    for wanted in lengths:
        report.progress(f"{wanted} commands a match …")
        command = await bench.cost(_each(played, wanted - length))
        length = wanted
        played = [seated for seated in played if not seated.over]
        if len(played) < PLAYED // 2:
            report.note(f"fewer than half of the matches last for {wanted} commands")
            break
        read = await bench.cost(bench.reads(played))
        snapshot, news = await _sizes(bench, played[0])
        grown = (kibibytes(bench.scales.pids["game"]) - first) / PLAYED
        rows.append((wanted, command["game"], command["postgres"], read["game"], snapshot, news, grown))
    columns = (
        *("commands", "command: game, µs", "PostgreSQL, µs", "GetMatch, µs"),
        *("snapshot, bytes", "all events, bytes", "memory more, KiB a match"),
    )
    report.table("With the length of a match", columns, rows)
    _factors(report, columns, rows)


async def _each(matches: Sequence[Seated], commands: int) -> int:
    async def one(seated: Seated) -> int:
        for count in range(commands):
            if await seated.move() is None:
                return count
        return commands

    return sum(await asyncio.gather(*map(one, matches)))


async def _sizes(bench: Bench, seated: Seated) -> tuple[int, int]:
    """Of a snapshot, and of all the events that a player has who comes back after the first."""
    stub, metadata = bench.made.matches(), seated.players.south.metadata
    snapshot = await stub.GetMatch(pb.GetMatchRequest(match_id=seated.match_id), metadata=metadata)
    watching = stub.Watch(pb.WatchRequest(match_id=seated.match_id, resume_after=1), metadata=metadata)
    news = await watching.read()
    watching.cancel()
    assert isinstance(news, pb.WatchResponse)
    return snapshot.ByteSize(), news.ByteSize()


def _factors(report: Report, columns: Sequence[str], rows: Sequence[tuple[Cell, ...]]) -> None:
    """What has grown faster than what there is."""
    if len(rows) < 2:
        return
    first, last = rows[0], rows[-1]
    more = float(last[0] or 0) / float(first[0] or 1)
    grown = {
        column: float(end) / float(begin)
        for column, begin, end in zip(columns[1:], first[1:], last[1:], strict=True)
        if isinstance(begin, float | int) and isinstance(end, float | int) and begin > 0
    }
    report.table(
        f"At the end over at the beginning, with {more:,.0f} times as much",
        ("what", "times", "against linear"),
        [(column, times, times / more) for column, times in grown.items()],
    )


async def measure(arguments: argparse.Namespace, report: Report) -> None:
    """The whole part."""
    async with weighed_crowd() as (gathered, scales):
        bench = Bench(gathered, scales)
        await grow_lengths(bench, arguments.lengths, report)
        await grow_matches(bench, arguments.matches, report)
    report.note(f"{PLAYED} matches are played, closed loop; {STREAMS_A_CONNECTION} streams a connection")


def main() -> None:
    """Measures and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--matches", type=int, nargs="+", default=list(MATCHES))
    parser.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS))
    report = Report("growthcurve")
    asyncio.run(measure(parser.parse_args(), report))
    report.finish()


if __name__ == "__main__":
    main()
