"""`python -m tests.bench.room [COMMANDS]`: what a command costs on its way through a room, without network and disk.

Real rooms, stories, courses and lines of the log. The clock says its verdicts and the journal its commits in the next
turn of the loop, so every command waits as often as in a process. What the players choose is chosen before. What is left
is what a room adds to each command, and the rules.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from prometheus_client import CollectorRegistry

from engine import clock
from engine.command import Command
from engine.match import Match, Phase, legal
from services.common import logs
from services.common.tracing import NoTracer
from services.game.asked import Asked
from services.game.course import Answer, Courses
from services.game.gaps import Gaps
from services.game.incarnation import Incarnation
from services.game.livetime import LiveTime
from services.game.metrics import GameMetrics
from services.game.room import Room
from services.game.shell import Shell
from services.game.shuffle import Seeds
from services.game.story import Audience, Story
from services.storage.entry import Entry
from services.wire.clock_messages import Applied, Arrival, Open, Policy, Verdict
from tests.bench.report import Report
from tests.engine.randomplay import choose
from tests.services.game.test_story import match_row

COMMANDS = 3_000
MATCHES = 50
ROUNDS = 10


class Turns:
    """Does in the next turn of the loop what was put off in this one."""

    def __init__(self) -> None:
        self._put_off: list[Any] = []

    def later(self, call: Any) -> None:
        """Calls it then."""
        if not self._put_off:
            asyncio.get_running_loop().call_soon(self._do)
        self._put_off.append(call)

    def _do(self) -> None:
        calls, self._put_off = self._put_off, []
        for call in calls:
            call()


class NearClock:
    """Takes the place of ClockLink: every command is in time."""

    clock_id = "near"

    def __init__(self) -> None:
        self._turns = Turns()
        self._open: dict[str, tuple[Open, Room]] = {}

    def open(self, opened: Open, listener: Room) -> None:
        """A decision is open."""
        self._open[opened.key.match_id] = opened, listener

    def arrive(self, arrival: Arrival) -> None:
        """A command is judged in the next turn of the loop."""
        opened, room = self._open[arrival.key.match_id]
        charge = clock.settle(
            *(opened.start_ns, arrival.arrive_ns, opened.consumed_ns),
            *(opened.bank_ns, opened.delay_ns, arrival.effect),
        )
        verdict = Verdict(arrival.key, arrival.command_id, *charge, 0)
        self._turns.later(lambda: room.on_verdict(verdict))

    def applied(self, *_: object) -> Applied | None:
        """Nothing to remember."""

    def close(self, *_: object) -> None:
        """Nothing to forget."""


class NearJournal:
    """Takes the place of the journal: what is appended is stored in the next turn of the loop."""

    def __init__(self) -> None:
        self._turns = Turns()

    def append(self, entry: Entry) -> asyncio.Future[None]:
        """Done when it is stored."""
        del entry
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.later(lambda: done.set_result(None))
        return done


class Fresh:
    """Takes the place of a lease that is always fresh."""

    fresh = True

    async def until_fresh(self) -> None:
        """At once."""


class Choices:
    """What is played in a match: the same in each round, and chosen before those that count."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._made: list[tuple[Command, str]] = []

    def at(self, number: int, state: Match) -> tuple[Command, str]:
        """The command of this number, and its request id."""
        if number == len(self._made):
            request_id = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
            self._made.append((choose(state, legal(state), self._rng), request_id))
        return self._made[number]


CHOICES = [Choices(number) for number in range(100 * MATCHES)]


class Table:
    """Both players of one match: they answer as soon as they are told."""

    def __init__(
        self,
        number: int,
        shell: Shell,
        courses: Courses,
        counted: Callable[[], None],
    ) -> None:
        row = replace(match_row(), match_id=str(uuid.UUID(int=number + 1)))
        self.room = Room(Story(row, Seeds(row.match_id, bytes(32))), 1, shell)
        self._counted = counted
        self._choices = CHOICES[number]
        self._courses = courses
        self._live = shell.livetime
        self._told = asyncio.Event()

    async def play(self) -> None:
        """To the end of the match."""
        room = self.room
        room.listen(self._told, Audience.NORTH)
        room.listen(asyncio.Event(), Audience.SOUTH)
        task = asyncio.create_task(room.run())
        await asyncio.sleep(0)
        for number in itertools.count():
            state = room.story.state
            if state.phase is Phase.OVER:
                break
            command, request_id = self._choices.at(number, state)
            self._counted()
            heard = self._live.heard()
            course = self._courses.begin(
                heard,
                match_id=room.story.row.match_id,
                player_id="guest-5d0cbb0c2a1ff0bd3c11",
                request_id=request_id,
                decision_id=state.decision_id,
                kind="play",
            )
            self._told.clear()
            room.ask(Asked(command, request_id, bytes(32), state.decision_id, heard, self._answered, course))
            await self._told.wait()
        await task

    def _answered(self, answer: Answer) -> None:
        self._told.set()


async def play(commands: int) -> float:
    """Microseconds of processor time a command."""
    livetime, metrics = LiveTime(), GameMetrics(CollectorRegistry())
    incarnation = Incarnation("near", livetime.incarnation, "near")
    parts = (
        NearJournal(),
        NearClock(),
        livetime,
        Gaps(livetime, incarnation, "1"),
        Fresh(),
    )
    shell = cast(Any, Shell)(incarnation, *parts, Policy(), metrics.matches)
    courses = Courses(metrics.commands, NoTracer())
    enough = asyncio.Event()
    left = commands

    def counted() -> None:
        nonlocal left
        left -= 1
        if not left:
            enough.set()

    async def keep_playing(number: int) -> None:
        while True:
            await Table(number, shell, courses, counted).play()
            number += MATCHES

    began = time.thread_time_ns()
    tables = [asyncio.create_task(keep_playing(number)) for number in range(MATCHES)]
    await enough.wait()
    spent = time.thread_time_ns() - began
    for table in tables:
        table.cancel()
    await asyncio.gather(*tables, return_exceptions=True)
    return spent / commands / 1000


def main() -> None:
    """Measures and prints."""
    commands = int(sys.argv[1]) if len(sys.argv) > 1 else COMMANDS
    report, talk = Report("room"), sys.stdout
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        sys.stdout = nowhere
        logs.configure("info")
        asyncio.run(play(commands))
        figures = [asyncio.run(play(commands)) for _ in range(ROUNDS)]
        sys.stdout = talk
    report.table(
        "A command in a room", ("matches", "us, best", "us, worst"), [(MATCHES, min(figures), max(figures))]
    )
    report.ratio(
        "a command in a room over the fixed piece of Python", min(figures) / report.spin_us, better="lower"
    )
    report.finish()


if __name__ == "__main__":
    main()
