"""What watchers cost, and what players notice of them.

`python -m tests.bench.watchers [--watchers N] [--matches N] [--rates N ...]`. One whole stack; the matches are played at a
fixed rate of all together, first with nobody watching and then with the same number of watchers at each. A watcher has a
move when it was read from the connection; a player's latency is from sending a command until the other player has it.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

from tests.bench.crowd import STREAMS_A_CONNECTION, Crowd, Seated, Stream
from tests.bench.report import Cell, Report
from tests.bench.scales import SETTLE_SECONDS, Scales, weighed_crowd
from tests.bench.usage import usage_of

WATCHERS: Final = 10_000
MATCHES: Final = 100
RATES: Final = (10, 25)
"""Moves a second of all matches. 3,200 streams are woken a second (`services/game/listeners.py`): with a hundred watchers
at each match, beyond 32 moves a second they are told of several at once."""
SECONDS: Final = 10.0
WARMUP_MOVES: Final = 30


class Arrivals:
    """When the watchers of a match had its newest move."""

    def __init__(self, watchers: Sequence[Stream]) -> None:
        self.last: list[float] = []
        """Seconds from each move until the last of them had it."""
        self._watchers = watchers
        self._missing: set[Stream] = set()
        self._sent = 0.0
        for watcher in watchers:
            watcher.heard = self._heard

    def moved(self) -> None:
        """A move is on its way; one that not all have yet is told with this one."""
        if not self._missing:
            self._missing, self._sent = set(self._watchers), time.perf_counter()

    def _heard(self, watcher: Stream) -> None:
        self._missing.discard(watcher)
        if not self._missing and self._sent:
            self.last.append(time.perf_counter() - self._sent)
            self._sent = 0.0


def quantile(values: Sequence[float], share: float) -> float | None:
    """In milliseconds; None of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000 if ordered else None


async def play(
    matches: Sequence[Seated], arrivals: Sequence[Arrivals], rate: float, moves: int
) -> list[float]:
    """So many moves at a rate, one match after the other; the latencies of the players.

    A move is due at its time, whatever became of those before it.
    """
    latencies: list[float] = []
    under_way: set[asyncio.Task[None]] = set()
    turns = itertools.cycle(range(len(matches)))
    busy = [asyncio.Lock() for _ in matches]

    async def one(number: int, due: float) -> None:
        async with busy[number]:
            if arrivals:
                arrivals[number].moved()
            waited = time.perf_counter() - due
            took = await matches[number].move()
            if took is not None:
                latencies.append(waited + took)

    began = time.perf_counter()
    for count in range(moves):
        due = began + count / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        task = asyncio.create_task(one(next(turns), max(due, time.perf_counter())))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    await asyncio.gather(*under_way)
    return latencies


async def measure_rate(
    crowd: Crowd, scales: Scales, watchers: int, arrivals: Sequence[Arrivals], rate: int
) -> tuple[Cell, ...]:
    """A row."""
    await play(crowd.matches, arrivals, rate, WARMUP_MOVES)
    for each in arrivals:
        each.last.clear()
    idle = (await scales.idle(SECONDS))[0]
    before = usage_of(scales.pids)
    began = time.monotonic()
    latencies = await play(crowd.matches, arrivals, rate, int(rate * SECONDS))
    await asyncio.sleep(SETTLE_SECONDS)
    used = usage_of(scales.pids).since(before)["game"] * 1e6 - idle * (time.monotonic() - began)
    last = [seconds for each in arrivals for seconds in each.last]
    return (
        watchers,
        rate,
        used / len(latencies),
        quantile(latencies, 0.5),
        quantile(latencies, 0.99),
        quantile(last, 0.5),
        quantile(last, 0.99),
    )


async def measure(arguments: argparse.Namespace, report: Report) -> None:
    """The whole part."""
    each = arguments.watchers // arguments.matches
    async with weighed_crowd() as (gathered, scales), AsyncExitStack() as exits:
        await gathered.join(await gathered.seat(arguments.matches, commands=4), follow=True)
        report.progress("nobody watches …")
        rows = [await measure_rate(gathered, scales, 0, [], rate) for rate in arguments.rates]
        before = scales.weigh()["game"]
        report.progress(f"{each} watchers come to each match …")
        arrivals = []
        for seated in gathered.matches:
            watchers = await gathered.watch(seated, each)
            exits.push_async_callback(_close, watchers)
            arrivals.append(Arrivals(watchers))
        await asyncio.sleep(SETTLE_SECONDS)
        count = each * arguments.matches
        memory = (scales.weigh()["game"] - before) / count
        report.progress("… and all is played again")
        rows += [await measure_rate(gathered, scales, count, arrivals, rate) for rate in arguments.rates]
    report.table(
        f"{arguments.matches} matches",
        (
            *("watchers", "moves/s", "game, µs a move"),
            *("player p50, ms", "player p99, ms", "last watcher p50, ms", "last watcher p99, ms"),
        ),
        rows,
    )
    cost = [(float(seen[2] or 0) - float(alone[2] or 0)) / each for alone, seen in _pairs(rows)]
    report.table(
        "A watcher",
        ("moves/s", "game, µs a move", "KiB"),
        [(rate, us, memory) for rate, us in zip(arguments.rates, cost, strict=True)],
    )
    report.note(f"{STREAMS_A_CONNECTION} streams a connection; what a quiet process does is taken off")


def _pairs(rows: Sequence[tuple[Cell, ...]]) -> list[tuple[tuple[Cell, ...], tuple[Cell, ...]]]:
    half = len(rows) // 2
    return list(zip(rows[:half], rows[half:], strict=True))


async def _close(streams: Sequence[Stream]) -> None:
    await asyncio.gather(*(stream.close() for stream in streams))


def main() -> None:
    """Measures and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--watchers", type=int, default=WATCHERS)
    parser.add_argument("--matches", type=int, default=MATCHES)
    parser.add_argument("--rates", type=int, nargs="+", default=list(RATES))
    report = Report("watchers")
    asyncio.run(measure(parser.parse_args(), report))
    report.finish()


if __name__ == "__main__":
    main()
