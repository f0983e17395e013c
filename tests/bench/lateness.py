"""How late losses on time are stored while a game process serves load: real processes, PostgreSQL with fsync.

`python -m tests.bench.lateness [--armed N] [--losing N] [--seconds S] [--levels none RATE max]`. The whole stack in a test
configuration, one game process. N matches stay armed all the time: both players have pressed Start and nobody moves. In
each level others, armed before as well, come due one after the other, evenly over its seconds, while bots play matches of
their own: none, at a steady rate, or (`max`) each as fast as it is answered.

Late is what passes on the game's own timeline from the deadline until the loss is stored and told: the clock's timer, its
question, the answer behind everything the process has in hand, the proof, the commit. The game process says it of each
match in its log (`match_over`, `late_ns`).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import tempfile
import time
import urllib.request
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from engine.clock import MILLISECOND
from services.local.postgres import EmbeddedPostgres
from services.storage.migrate import migrate
from services.storage.pool import Connection
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import match_service_pb2_grpc
from tests.bench.report import Report
from tests.bench.stack import Tally, keep_playing
from tests.stack import Stack, time_control

ARMED: Final = 10_000
LOSING: Final = 1_200
"""Losses a level."""
SECONDS: Final = 12.0
"""How long a level lasts."""
PARTS: Final = {
    "timer": "spectacular_bid_clock_timer_lag_seconds",
    "probe": "spectacular_bid_clock_probe_seconds",
    "commit": "spectacular_bid_commit_seconds",
}
"""Means that say where the time goes: of the clock's timer, its question with the answer, and of every group commit."""
LEVELS: Final = ("none", "100", "300", "max")
TABLES: Final = 40
"""Matches that bots play at once."""
PATIENCE_SECONDS: Final = 30.0
"""How long after the last level a loss may still come."""
WARMUP_SECONDS: Final = 3.0
HANDS: Final = 6
"""Matches set up at once."""
MARGIN: Final = 1.4
"""How much longer the rest of the setup may take than its first matches promise."""


@dataclass
class Level:
    """One load, and what came of it."""

    name: str
    begins: float = 0.0
    window: tuple[datetime, datetime] | None = None
    """When it was counted, by the wall clock, as the logs are."""
    commands: int = 0
    gaps: float = 0.0
    cpu: float = 0.0
    """Of the game process, share of one core."""
    parts: dict[str, float] = field(default_factory=dict)
    """Means of what a loss consists of, in milliseconds."""
    late_ns: list[int] = field(default_factory=list)
    took_ms: float = 0.0
    """Half of the bots' answers came within this."""

    @property
    def rate(self) -> float | None:
        """Commands a second that bots may send; None for as many as they can."""
        return None if self.name == "max" else 0.0 if self.name == "none" else float(self.name)


class Pace:
    """Hands out evenly spaced times to send at, at a rate that changes from level to level."""

    def __init__(self) -> None:
        self._rate: float | None = 0.0
        self._next = 0.0
        self._changed = asyncio.Condition()

    async def become(self, rate: float | None) -> None:
        """So many a second from now on; None for no limit."""
        async with self._changed:
            self._rate, self._next = rate, time.monotonic()
            self._changed.notify_all()

    async def __call__(self) -> None:
        """Waits for one's turn."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._rate != 0)
        if self._rate:
            # Whatever could not be sent in time is left out: there is no burst afterwards.
            now = time.monotonic()
            self._next = max(self._next + 1 / self._rate, now - 0.1)
            await asyncio.sleep(max(0.0, self._next - now))


class Bench:
    """One stack, its matches, and the levels."""

    def __init__(self, made: Stack, database: Connection, report: Report) -> None:
        self.made = made
        self.report = report
        self._database = database
        self._numbers = itertools.count()
        self.pace = Pace()
        self.tally = Tally(counting=True)
        self.losing: set[str] = set()

    async def set_up(self, armed: int, losing: int, seconds: float, levels: list[Level]) -> None:
        """Arms all clocks so that the losing ones of the levels come due one after the other."""
        began = time.monotonic()
        first = max(1, armed // 20)
        await self._arm([600_000] * first)
        left = armed - first + losing * len(levels)
        each = (time.monotonic() - began) / first
        at = time.monotonic() + left * each * MARGIN + 2
        self.report.progress(
            f"{first} clocks armed in {time.monotonic() - began:.1f} s; {left} more in {left * each:.0f} s"
        )
        for level in levels:
            level.begins = at
            at += WARMUP_SECONDS + seconds
        await self._arm([600_000] * (armed - first))
        for level in levels:
            due = [level.begins + WARMUP_SECONDS + seconds * n / losing for n in range(losing)]
            self.losing |= await self._arm_until(due)
        gaps = (await self._figures())["spectacular_bid_game_gap_seconds"]
        self.report.progress(f"gaps while setting up: {gaps:.2f} s")
        spare = levels[0].begins - time.monotonic()
        self.report.progress(
            f"all armed after {time.monotonic() - began:.1f} s, {spare:.1f} s before they come due"
        )
        if spare < 0:
            raise SystemExit("the setup took longer than its beginning promised; try again")

    async def _arm(self, delays_ms: list[int]) -> set[str]:
        return await self._arm_until([time.monotonic() + ms / 1000 for ms in delays_ms])

    async def _arm_until(self, due: list[float]) -> set[str]:
        """One match for each instant of our own clock at which its first decision is to be lost, about."""
        names = [f"late-{next(self._numbers)}" for _ in due]
        await self._known([f"{name}-south" for name in names])
        made: set[str] = set()
        queue = iter(zip(names, due, strict=True))

        async def hand(channel: int) -> None:
            stub = self.made.matches()
            for name, at in queue:
                made.add(await self._match(stub, name, at))

        await asyncio.gather(*(hand(number) for number in range(HANDS)))
        return made

    async def _match(self, stub: match_service_pb2_grpc.MatchServiceStub, name: str, at: float) -> str:
        tokens = [
            (("authorization", f"Bearer {self.made.token(f'{name}-{seat}')}"),) for seat in ("north", "south")
        ]
        created = await stub.CreateMatch(
            pb.CreateMatchRequest(
                request_id=uuid.uuid4().hex,
                player_id=f"{name}-south",
                time_control=time_control(0, max(1, int((at - time.monotonic()) * 1000))),
                start_limit_ms=3_600_000,
            ),
            metadata=tokens[0],
        )
        for token in tokens:
            start = pb.SubmitRequest(
                match_id=created.match_id,
                request_id=uuid.uuid4().hex,
                decision_id=1,
                command=pb.Command(start=pb.Start()),
            )
            await stub.Submit(start, metadata=token)
        return str(created.match_id)

    @contextlib.asynccontextmanager
    async def bots(self) -> AsyncIterator[None]:
        """They stay to the end, since leaving all at once would be a mass loss, in which nobody's time runs."""
        names = [f"bench-{number}-{seat}" for number in range(TABLES) for seat in ("north", "south")]
        await self._known(names)
        tasks = [
            asyncio.create_task(keep_playing(self.made, number, self.tally, self.pace))
            for number in range(TABLES)
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        faults = [end for end in ended if not isinstance(end, asyncio.CancelledError)]
        if faults:
            raise ExceptionGroup("bots failed", [fault for fault in faults if isinstance(fault, Exception)])

    async def _known(self, names: list[str]) -> None:
        """Whoever is invited must be known."""
        await self._database.executemany(
            "insert into player (player_id, name) values ($1, $1)", [(name,) for name in names]
        )

    async def run(self, level: Level, seconds: float) -> None:
        """Plays at the level's rate while its matches are lost."""
        await asyncio.sleep(max(0.0, level.begins - time.monotonic()))
        await self.pace.become(level.rate)
        await asyncio.sleep(max(0.0, level.begins + WARMUP_SECONDS - time.monotonic()))
        self.tally.latencies.clear()
        before, began, from_ = await self._figures(), time.monotonic(), datetime.now(UTC)
        await asyncio.sleep(max(0.0, level.begins + WARMUP_SECONDS + seconds - time.monotonic()))
        latencies = list(self.tally.latencies)
        level.window = from_, datetime.now(UTC)
        after, took = await self._figures(), time.monotonic() - began
        level.commands = round(len(latencies) / took)
        level.took_ms = sorted(latencies or [0.0])[len(latencies) // 2] * 1000
        level.gaps = after["spectacular_bid_game_gap_seconds"] - before["spectacular_bid_game_gap_seconds"]
        level.parts = {name: _mean_ms(series, before, after) for name, series in PARTS.items()}
        level.cpu = (after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]) / took

    async def _figures(self) -> dict[str, float]:
        """The metrics of game and clock that have no labels; those that both have are the game's."""
        return {**await self._page("clock"), **await self._page("game")}

    async def _page(self, process: str) -> dict[str, float]:
        address = await self.made.metrics_address(process)

        def read() -> str:
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as page:
                return str(page.read().decode())

        lines = (await asyncio.to_thread(read)).splitlines()
        return {
            name: float(value)
            for name, _, value in (line.partition(" ") for line in lines if not line.startswith("#"))
            if "{" not in name
        }

    async def collect(self, levels: list[Level]) -> None:
        """What the game process said of each loss, waiting for the last ones; each counts where its deadline was.

        A deadline moves when time is credited: what comes due between two levels counts nowhere.
        """
        game, seen, waiting = self.made.processes["game"], 0, set(self.losing)
        give_up = time.monotonic() + PATIENCE_SECONDS
        while waiting and time.monotonic() < give_up:
            await asyncio.sleep(0.5)
            lines = game.events()
            for line in lines[seen:]:
                if line["event"] == "match_over" and line["match_id"] in waiting:
                    waiting.remove(line["match_id"])
                    if line["cause"] != "time":
                        raise SystemExit(f"a match did not end on time: {line}")
                    due = datetime.fromisoformat(line["at"]) - timedelta(microseconds=line["late_ns"] / 1000)
                    for level in levels:
                        if level.window is not None and level.window[0] <= due < level.window[1]:
                            level.late_ns.append(line["late_ns"])
            seen = len(lines)
        if waiting:
            raise SystemExit(f"{len(waiting)} matches were not lost in {PATIENCE_SECONDS} s")

    async def early(self) -> int:
        """Losses whose stored proof is from before their deadline: there must be none."""
        found: int = await self._database.fetchval(
            """
            select count(*) from match_outcome join clock_evidence using (evidence_id)
            where cause = 'time' and (clock_evidence.detail->>'proof_ns')::bigint < (clock_evidence.detail->>'deadline_ns')::bigint
            """
        )
        return found


def _mean_ms(series: str, before: dict[str, float], after: dict[str, float]) -> float:
    """Of what a histogram of seconds observed in between."""
    seconds, count = (after[f"{series}_{end}"] - before[f"{series}_{end}"] for end in ("sum", "count"))
    return seconds / count * 1000 if count else 0.0


async def measure(options: argparse.Namespace, report: Report) -> list[Level]:
    """All levels, one after the other."""
    levels = [Level(name) for name in options.levels]
    with (
        tempfile.TemporaryDirectory(prefix="spectacular-bid-bench-") as folder,
        EmbeddedPostgres(Path(folder) / "postgres", durable=True) as server,
    ):
        migrate(server.url)
        async with AsyncExitStack() as exits:
            made = Stack(Path(folder), server.url, exits)
            await made.start("clock", "matchmaking", "game")
            bench = Bench(made, await made.database(), report)
            await bench.set_up(options.armed, options.losing, options.seconds, levels)
            async with bench.bots():
                for level in levels:
                    await bench.run(level, options.seconds)
                    report.progress(f"{level.name}: over")
                await bench.pace.become(0.0)
                await bench.collect(levels)
            if found := await bench.early():
                raise SystemExit(f"{found} losses were proven before their deadline")
    return levels


def _at(late_ns: list[int], share: float) -> float | None:
    return late_ns[min(len(late_ns) - 1, int(len(late_ns) * share))] / MILLISECOND if late_ns else None


def tell(report: Report, levels: list[Level], armed: int) -> None:
    """How late the losses were, and what made them so."""
    late = [sorted(level.late_ns) for level in levels]
    report.table(
        f"Losses on time, {armed:,} more clocks armed: milliseconds from deadline to commit",
        ("bots", "commands/s", "losses", "p50", "p99", "max", "early"),
        [
            (
                level.name,
                level.commands,
                len(level.late_ns),
                *(_at(ns, share) for share in (0.5, 0.99, 1)),
                sum(1 for each in ns if each < 0),
            )
            for level, ns in zip(levels, late, strict=True)
        ],
    )
    report.table(
        "Meanwhile: means in milliseconds; gaps are seconds in which the game process stood still",
        ("bots", "answer p50", "game CPU", "gaps", *PARTS),
        [
            (
                level.name,
                level.took_ms if level.commands else None,
                f"{level.cpu:.0%}",
                level.gaps,
                *level.parts.values(),
            )
            for level in levels
        ],
    )


def main() -> None:
    """Measures and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--armed", type=int, default=ARMED)
    parser.add_argument("--losing", type=int, default=LOSING)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--levels", nargs="+", default=list(LEVELS))
    options = parser.parse_args()
    report = Report("lateness")
    report.note(f"services, PostgreSQL and load share {os.cpu_count()} cores")
    levels = asyncio.run(measure(options, report))
    tell(report, levels, options.armed)
    report.finish()


if __name__ == "__main__":
    main()
