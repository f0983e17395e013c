"""The three promises about processes that go away, each under many running matches."""

from __future__ import annotations

import asyncio
import signal
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from client.errors import ClientError
from tests.chaos.checks import Findings, check
from tests.chaos.players import Book, Load, Pace
from tests.chaos.rig import CLOCKS, GAMES, Rig, rig

CONTINUED_SECONDS_MAX: Final = 15.0
NOTICED_SECONDS_MAX: Final = 5.0
"""How long a command may wait for its verdict while a clock is replaced."""
FINISH_SECONDS_MAX: Final = 600.0
STEADY_SECONDS: Final = 6.0
"""Undisturbed play before and after each blow."""

Tell = Callable[[str], None]


@dataclass
class Result:
    """What a scenario showed."""

    name: str
    tables: int
    findings: Findings
    book: Book
    lines: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether everything held."""
        return not self.faults and not self.findings.faults


class Waits:
    """How long matches were without an acknowledged command after a blow."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._book = load.book
        self.at = time.monotonic()
        self.live = set(self._book.live)
        self._said = len(self._book.said)
        self.seconds: dict[str, float] = {}
        """By match that was live: until its first command that was sent or answered after the blow was acknowledged."""

    async def all_go_on(self, seconds_max: float, *, after: float | None = None) -> None:
        """Waits until each of them is over or has had a command acknowledged since `after`; by default, since the blow."""
        give_up, after = time.monotonic() + seconds_max, after or self.at
        while time.monotonic() < give_up:
            self._load.check()
            for match_id in self.live - self.seconds.keys():
                last = self._book.last_said.get(match_id, 0.0)
                if last > after:
                    self.seconds[match_id] = last - self.at
                elif match_id not in self._book.live:
                    self.seconds[match_id] = time.monotonic() - self.at
            if len(self.seconds) == len(self.live):
                return
            await asyncio.sleep(0.02)

    def pause(self) -> float:
        """The longest time since the blow that one of them was without an acknowledged command, in seconds."""
        last = dict.fromkeys(self.live, self.at)
        longest = 0.0
        for said in self._book.said[self._said :]:
            if said.match_id in last:
                longest = max(longest, said.answered - max(self.at, last[said.match_id]))
                last[said.match_id] = said.answered
        return longest

    @property
    def missing(self) -> int:
        """Matches that have not gone on."""
        return len(self.live) - len(self.seconds)

    def line(self) -> str:
        """In words."""
        waits = sorted(self.seconds.values()) or [0.0]
        return (
            f"{len(self.seconds)} of {len(self.live)} matches went on: half of them within {statistics.median(waits):.1f} s,"
            f" the last after {waits[-1]:.1f} s"
        )


async def kill_game(folder: Path, tables: int, pace: Pace, tell: Tell) -> Result:
    """SIGKILL for the game process that plays all matches; a second one is alive."""
    async with rig(folder, proxied=False) as made:
        load = Load(made, pace, Book())
        load.games = ("game",)
        await _under_way(load, tables, tell)
        killed_at = made.kill("game")
        waits = Waits(load)
        waits.at = killed_at
        load.games = ("game-1",)
        tell(f"SIGKILL game: {len(waits.live)} matches were live")
        await waits.all_go_on(60)
        tell(waits.line())
        await asyncio.sleep(STEADY_SECONDS)
        result = await _finish(made, load, "kill-game", tables, tell)
        result.lines.append(waits.line())
        if waits.missing:
            result.faults.append(f"{waits.missing} matches never went on")
        slow = sum(seconds > CONTINUED_SECONDS_MAX for seconds in waits.seconds.values())
        if slow:
            result.faults.append(f"{slow} matches took more than {CONTINUED_SECONDS_MAX:.0f} s to go on")
        return result


async def kill_clock(folder: Path, tables: int, pace: Pace, tell: Tell) -> Result:
    """SIGKILL for the clock that judges all matches, twice: another one is there, and then none until it is back."""
    async with rig(folder, proxied=False) as made:
        load = Load(made, pace, Book())
        load.games = GAMES
        await _under_way(load, tables, tell)
        lines, faults = [], []
        for name, alone in (("clock", False), ("clock-1", True)):
            if alone:
                tell("the other clock is taken away for good")
            before = len(load.book.said)
            made.kill(name)
            waits = Waits(load)
            tell(f"SIGKILL {name}" + (", the only one left" if alone else ", with another one alive"))
            if alone:
                await made.restart(name)
            await waits.all_go_on(60)
            await asyncio.sleep(STEADY_SECONDS)
            longest = max(said.answered - said.sent for said in load.book.said[before:])
            line = f"{name}: longest wait for an answer {longest:.2f} s; {waits.line()}"
            tell(line)
            lines.append(line)
            if waits.missing:
                faults.append(f"{waits.missing} matches never went on after {name}")
            if not alone and longest > NOTICED_SECONDS_MAX:
                faults.append(f"a verdict took {longest:.1f} s with another clock alive")
        result = await _finish(made, load, "kill-clock", tables, tell)
        result.lines += lines
        result.lines.append(f"streams that had to attach again: {load.book.reattached}")
        result.faults += faults
        if load.book.reattached:
            result.faults.append("players noticed more than a delayed verdict")
        return result


async def rolling(folder: Path, tables: int, pace: Pace, tell: Tell) -> Result:
    """SIGTERM and a new start for every process, one after the other."""
    async with rig(folder, proxied=False) as made:
        load = Load(made, pace, Book())
        load.games = GAMES
        await _under_way(load, tables, tell)
        lines, faults = [], []
        order = (made.leader(), made.other(made.leader()), *CLOCKS, *GAMES)
        for name in order:
            before = len(load.book.said)
            waits = Waits(load)
            took = await _restart(made, name)
            await waits.all_go_on(60)
            await asyncio.sleep(STEADY_SECONDS)
            longest = max((said.answered - said.sent for said in load.book.said[before:]), default=0.0)
            line = f"{name:<14} restarted in {took:4.1f} s; longest wait for an answer {longest:5.2f} s; {waits.line()}"
            tell(line)
            lines.append(line)
            if waits.missing:
                faults.append(f"{waits.missing} matches never went on after {name}")
        result = await _finish(made, load, "rolling", tables, tell)
        result.lines += lines
        result.faults += faults
        return result


async def _restart(made: Rig, name: str) -> float:
    """One step of a rolling restart, as an orchestrator does it. Seconds."""
    began = time.monotonic()
    other = made.other(name)
    if name in CLOCKS:
        made.prefer_clock(other)
    made.stack.processes[name].signal(signal.SIGTERM)
    await made.stack.processes[name].ended(seconds_max=60)
    if name not in (*CLOCKS, *GAMES) and made.leader() == other:
        await made.leading(other)
    await made.restart(name)
    return time.monotonic() - began


async def _under_way(load: Load, tables: int, tell: Tell) -> None:
    tell(f"{tables} matches begin …")
    try:
        await load.begin(tables)
    except (TimeoutError, ClientError):
        await load.cancel()
        raise
    await asyncio.sleep(STEADY_SECONDS)
    load.check()
    tell(f"{len(load.book.live)} matches under way, {len(load.book.said)} commands acknowledged")


async def _finish(made: Rig, load: Load, name: str, tables: int, tell: Tell) -> Result:
    tell("the matches are played to their end …")
    finishing = asyncio.create_task(load.finish(FINISH_SECONDS_MAX))
    while not finishing.done():
        await asyncio.wait({finishing}, timeout=10)
        if not finishing.done():
            tell(f"  {len(load.book.live)} still played, {len(load.book.said)} commands acknowledged")
    await finishing
    tell("everything is checked …")
    findings = await check(made.postgres.url, load.book)
    return Result(name, tables, findings, load.book)
