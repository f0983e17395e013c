"""All faults in turn under running matches, each followed by a look at what it did."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import asyncpg

from engine.clock import SECOND
from tests.chaos.checks import Findings, check
from tests.chaos.injections import Injection
from tests.chaos.players import Book, Load, Pace
from tests.chaos.rig import GAMES, Rig, rig
from tests.chaos.scenarios import Waits

GO_ON_SECONDS_MAX: Final = 45.0
"""A match that has not gone on so long after the end of a fault never will."""


@dataclass(frozen=True)
class Seen:
    """What one fault did."""

    kind: str
    target: str
    seconds: float
    matches: int
    went_on: int
    pause: float
    """The longest time without an acknowledged command in any match, from the strike, thoughts included. Seconds."""
    answer: float
    """The longest wait for an answer. Seconds."""
    credited: float
    voids: int
    forfeits: int
    skipped: str = ""


@dataclass
class Campaign:
    """The whole."""

    seen: list[Seen] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)
    book: Book = field(default_factory=Book)
    faults: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether everything held."""
        return not self.faults and not self.findings.faults


async def campaign(
    folder: Path,
    injections: Sequence[Injection],
    tables: int,
    pace: Pace,
    tell: Callable[[str], None],
    *,
    quick: dict[str, str] | None = None,
    calm_seconds: float = 2.0,
) -> Campaign:
    """Inflicts everything, then checks everything."""
    done = Campaign()
    async with rig(folder, proxied=True, quick=quick) as made:
        load = Load(made, pace, done.book)
        load.games = GAMES
        tell(f"{tables} matches begin …")
        await load.begin(tables)
        try:
            for number, injection in enumerate(injections, 1):
                await asyncio.sleep(calm_seconds)
                seen = await _inflict(made, load, injection, done)
                done.seen.append(seen)
                tell(f"{number:2} of {len(injections)}: {describe(seen)}")
            tell("the matches are played to their end …")
            await load.finish(300)
        finally:
            await load.cancel()
        tell("everything is checked …")
        done.findings = await check(made.postgres.url, done.book)
    return done


async def _inflict(made: Rig, load: Load, injection: Injection, done: Campaign) -> Seen:
    if injection.skip:
        return Seen(injection.kind, injection.target, 0, 0, 0, 0, 0, 0, 0, 0, injection.skip)
    target = await injection.resolve(made)
    before, said = await figures(made), len(load.book.said)
    waits = Waits(load)
    await injection.strike(made, target)
    await asyncio.sleep(injection.seconds)
    await injection.heal(made, target)
    await waits.all_go_on(GO_ON_SECONDS_MAX, after=time.monotonic())
    if waits.missing:
        done.faults.append(f"{injection.kind} {target}: {waits.missing} matches never went on")
    after = await figures(made)
    return Seen(
        injection.kind,
        target,
        injection.seconds,
        len(waits.live),
        len(waits.seconds),
        waits.pause(),
        max((each.answered - each.sent for each in load.book.said[said:]), default=0.0),
        after[0] - before[0],
        after[1] - before[1],
        after[2] - before[2],
    )


async def figures(made: Rig) -> tuple[float, int, int]:
    """Credits in seconds, voids and forfeits so far."""
    connection = await asyncpg.connect(made.postgres.url, timeout=30)
    try:
        credited = await connection.fetchval("select coalesce(sum(credited_ns), 0) from match_log")
        voids = await connection.fetchval("select count(*) from match_outcome where cause = 'void'")
        forfeits = await connection.fetchval("select count(*) from match_outcome where cause = 'time'")
    finally:
        await connection.close()
    return float(credited) / SECOND, voids, forfeits


def describe(seen: Seen) -> str:
    """One line."""
    name = f"{seen.kind} {seen.target}"
    if seen.skipped:
        return f"{name}: skipped, {seen.skipped}"
    return (
        f"{name} for {seen.seconds:g} s: {seen.went_on} of {seen.matches} went on, longest pause {seen.pause:.1f} s,"
        f" longest answer {seen.answer:.1f} s, credited {seen.credited:.1f} s, {seen.voids} void,"
        f" {seen.forfeits} forfeits"
    )
