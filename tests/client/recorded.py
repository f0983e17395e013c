"""Random matches as a spectator is told of them, and their records."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from client.positions import Study, read
from client.table import TableState
from engine.clock import MILLISECOND
from engine.command import Resign
from engine.deal import Deal
from engine.event import Event
from engine.match import Match, Phase, deal_round, decide, evolve, legal, timed
from engine.record import record_lines
from engine.refusal import Refusal
from engine.seats import NORTH
from engine.tiles import DOUBLE_SIX
from services.game.story import Audience
from tests.client.tables import new_story, news, told
from tests.engine.randomplay import choose

HEADER = {
    "match_id": "3f1f7a3e-96a5-4e9e-9f0d-5bb24c2f9a10",
    "players": {"north": "guest-north", "south": "guest-south"},
    "rated": True,
    "started_at": "2026-01-02T00:00:00+00:00",
}


def rulings(state: Match, rng: random.Random, commands_max: int) -> Iterator[tuple[Event, ...]]:
    """A random match as its room stores it, with the time of each turn; resigned after so many commands."""
    for number in range(commands_max + 1):
        if state.phase is Phase.OVER:
            return
        ends = number == commands_max
        command = Resign(NORTH) if ends else choose(state, legal(state), rng)
        decided = decide(state, command)
        assert not isinstance(decided, Refusal), decided
        measured = state.to_act is not None and not ends
        clock = (timed(state, command, rng.randrange(14_000) * MILLISECOND),) if measured else ()
        ruling: tuple[Event, ...] = (*clock, *decided)
        for event in ruling:
            state = evolve(state, event)
        if state.phase is Phase.AWAITING_DEAL:
            dealt = deal_round(state, Deal.from_shuffle(rng.sample(DOUBLE_SIX, 28)), rng.randbytes(32))
            assert not isinstance(dealt, Refusal), dealt
            ruling += dealt
            for event in dealt:
                state = evolve(state, event)
        yield ruling


@dataclass(frozen=True)
class Told:
    """A match as a spectator was told of it, and its record."""

    events: tuple[Event, ...]
    tables: dict[int, TableState]
    """After so many events."""
    lines: tuple[str, ...]

    @property
    def study(self) -> Study:
        return read("\n".join(self.lines).encode())


@cache
def a_match(seed: int, *, same_device: bool = False, commands_max: int = 90) -> Told:
    rng = random.Random(seed)
    story = new_story(same_device=same_device)
    start, events, tables = story.state, list[Event](), dict[int, TableState]()
    table = told(None, news(story, Audience.SPECTATOR, 0))
    for ruling in rulings(start, rng, commands_max):
        story.tell(ruling, 0)
        events += ruling
        table = told(table, news(story, Audience.SPECTATOR, table.sequence))
        tables[table.sequence] = table
    return Told(tuple(events), tables, tuple(record_lines(start, events, HEADER)))
