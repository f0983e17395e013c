"""A house bot at a table of the service: it remembers the same as in the arena, and keeps off its bank."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterable
from dataclasses import replace

import pytest

from client.arena.seat import remember
from client.bots import greedy
from client.bots.levels import LEVELS, Level
from client.bots.memory import Memory
from client.bots.search import Budget
from client.bots.sitting import Sitting, Thinker, time_left
from client.hotseat import options
from client.match import News
from client.table import TableState
from engine.command import Command
from engine.event import Event
from engine.seats import NORTH
from engine.view import redact
from services.common.auth import HOUSE_BOTS
from services.game.story import Audience, Story
from tests.client.tables import carry_out, new_story, news, told

BOTH = (Audience.NORTH, Audience.SOUTH)


def test_the_levels_are_the_house_bots_one_may_ask_for() -> None:
    assert tuple(LEVELS) == HOUSE_BOTS


class Recorded(Story):
    """What is told, and to what memory it comes."""

    def __init__(self) -> None:
        super().__init__(new_story().row)
        self.memory = Memory(NORTH)

    def tell(self, events: Iterable[Event], credited_ns: int) -> None:
        happened = tuple(events)
        for event in happened:
            remember(self.memory, redact(event, NORTH))
        super().tell(happened, credited_ns)


class Watched:
    """A match of the service that is played at random, with a bot that hears of it on the north seat."""

    def __init__(self, level: Level, thinker: Thinker, seed: int) -> None:
        self.story = Recorded()
        self.rng = random.Random(seed)
        self.reports: list[str] = []
        self.bot = Sitting(level, thinker, self.reports.append)
        self.tables = {audience: told(None, news(self.story, audience, 0)) for audience in BOTH}
        self.bot.hear(News(self.table, (), snapshot=True))

    @property
    def table(self) -> TableState:
        """North's."""
        return self.tables[Audience.NORTH]

    def step(self) -> None:
        """One command, of whoever is asked."""
        asked = self.rng.choice([table for table in self.tables.values() if table.asks_me])
        assert asked.seat is not None
        _, command = self.rng.choice(options(asked, asked.seat))
        assert carry_out(self.story, command, self.rng) is None
        for audience, before in self.tables.items():
            message = news(self.story, audience, before.sequence)
            self.tables[audience] = told(before, message)
            if audience is Audience.NORTH:
                self.bot.hear(News(self.table, tuple(message.events), snapshot=False))

    def until_it_must_think(self) -> TableState:
        """Play on until the bot has a choice."""
        while len(self.table.prompt.legal.plays) < 2:
            self.step()
        return self.table


@pytest.mark.parametrize("seed", range(4))
async def test_it_remembers_of_the_service_what_it_remembers_in_the_arena(seed: int) -> None:
    async with Thinker() as thinker:
        watched = Watched(LEVELS["strong"], thinker, seed)
        while not watched.story.over:
            watched.step()
            assert not watched.table.round_no or watched.bot.memory == watched.story.memory
        assert watched.table.round_no > 1


async def test_a_bot_that_sits_down_again_goes_on_with_what_it_can_see() -> None:
    async with Thinker(0.0) as thinker:
        watched = Watched(LEVELS["strong"], thinker, 1)
        table = watched.until_it_must_think()
        again = Sitting(LEVELS["strong"], thinker, watched.reports.append)
        again.hear(News(table, (), snapshot=True))
        assert again.memory is not None
        assert again.memory.turns == []
        assert again.memory.layout == watched.story.memory.layout
        assert await again.choose(table) is not None
    assert watched.reports == []


def test_a_move_is_never_thought_about_on_the_bank() -> None:
    """Three seconds of the delay are kept for the way."""
    story = new_story()
    table = told(None, news(story, Audience.NORTH, 0))
    clock = replace(table.prompt.clock, delay_left_ms=10_000, remaining_ms=130_000, as_of=100.0)
    table = replace(table, prompt=replace(table.prompt, clock=clock))
    assert time_left(table, 100.0) == pytest.approx(7)
    assert time_left(table, 106.5) == pytest.approx(0.5)
    assert time_left(table, 200.0) == 0


async def test_the_more_moves_wait_the_less_time_each_gets_and_one_is_thought_about_at_a_time() -> None:
    looked: list[int] = []
    busy = threading.Lock()
    now = 0.0

    def clock() -> float:
        """A millisecond passes with each look at it."""
        nonlocal now
        now += 0.001
        return now

    def choose(table: TableState, memory: Memory, rng: random.Random, budget: Budget) -> Command | None:
        assert busy.acquire(blocking=False)
        looked.append(sum(1 for _ in budget(1.0)))
        busy.release()
        return None

    async with Thinker(1.0, clock, lambda _: None) as thinker:
        table = Watched(LEVELS["greedy"], thinker, 1).until_it_must_think()
        prompt = replace(table.prompt, clock=replace(table.prompt.clock, delay_left_ms=10_000, as_of=0.0))
        level, table = Level("counting", choose, thinks=True), replace(table, prompt=prompt)
        thoughts = (thinker.think(level, table, Memory(NORTH), random.Random(1)) for _ in range(10))
        await asyncio.gather(*thoughts)
    # The first looks of each are free of the clock.
    assert looked == [pytest.approx(16 + 900 / waiting, abs=3) for waiting in range(1, 11)]


class Passing:
    """Time that passes a millisecond with each look at the clock, and as it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        self.now += 0.001
        return self.now

    def rest(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(
    "level", [LEVELS["strong"], Level("instant", lambda *_: None, thinks=True)], ids=["strong", "instant"]
)
@pytest.mark.parametrize(("at_once", "seconds"), [(1, 0.2), (2, 0.2 + 0.1)])
async def test_how_soon_a_bot_answers_does_not_tell_whether_it_had_a_choice(
    level: Level, at_once: int, seconds: float
) -> None:
    """The same position but for the bot's hand: one playable tile, or several. The answer comes after the same time, and a
    move of another table that waits behind it waits as long."""
    took = [await _time_of(level, at_once, plays_max) for plays_max in (1, 99)]
    assert took == [pytest.approx(seconds, abs=0.01)] * 2


async def _time_of(level: Level, at_once: int, plays_max: int) -> float:
    """How long so many moves take that are asked for at once, each with so many plays."""
    passing = Passing()
    async with Thinker(0.2, passing.clock, passing.rest) as thinker:
        watched = Watched(level, thinker, 1)
        table = watched.until_it_must_think()
        legal = replace(table.prompt.legal, plays=table.prompt.legal.plays[:plays_max])
        table = with_time(replace(table, prompt=replace(table.prompt, legal=legal)))
        await asyncio.gather(*(watched.bot.choose(table) for _ in range(at_once)))
    return passing.now


def with_time(table: TableState) -> TableState:
    """The same, with all of the delay left."""
    clock = replace(table.prompt.clock, delay_left_ms=10_000, as_of=0.0)
    return replace(table, prompt=replace(table.prompt, clock=clock))


async def test_what_everybody_sees_is_not_held_up() -> None:
    """A draw or a pass shows by itself that there was no other answer; nor does Start say anything of a hand."""
    passing = Passing()
    async with Thinker(0.2, passing.clock, passing.rest) as thinker:
        watched = Watched(LEVELS["strong"], thinker, 1)
        assert await watched.bot.choose(with_time(watched.table)) is not None
        while not (watched.table.prompt.legal.draw or watched.table.prompt.legal.pass_turn):
            watched.step()
        assert await watched.bot.choose(with_time(watched.table)) is not None
    assert passing.now < 0.01


async def test_a_bot_that_stumbles_plays_on_and_says_so() -> None:
    def choose(table: TableState, memory: Memory, rng: random.Random, budget: Budget) -> Command | None:
        raise ZeroDivisionError("a bug")

    async with Thinker() as thinker:
        for thinks in (False, True):
            watched = Watched(Level("clumsy", choose, thinks), thinker, 1)
            table = watched.until_it_must_think()
            assert await watched.bot.choose(table) == greedy.choose(table)
            (report,) = watched.reports
            assert "clumsy plays on without thinking: ZeroDivisionError('a bug')" in report
