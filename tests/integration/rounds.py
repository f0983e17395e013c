"""Rounds that end as a test needs it, found by playing at random."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from engine.command import Command
from engine.deal import Deal
from engine.event import Event
from engine.match import Match, Phase, deal_round, decide, legal, replay
from engine.refusal import Refusal
from tests.engine.randomplay import choose, shuffled
from tests.engine.tables import SALT, started

Course = tuple[Deal, list[Command]]


def find_round(wanted: Callable[[Sequence[Event], Sequence[Match]], bool], seed: int) -> Course:
    """A random first round that ends as wanted: its deal and its commands."""
    rng = random.Random(seed)
    while True:
        dealt = shuffled(rng)
        state = started()
        ruling = deal_round(state, dealt, SALT)
        assert not isinstance(ruling, Refusal)
        state = replay(state, ruling)
        commands: list[Command] = []
        events: list[Event] = []
        states = [state]
        while state.phase not in (Phase.SETTLED, Phase.OVER):
            command = choose(state, legal(state), rng)
            decided = decide(state, command)
            assert not isinstance(decided, Refusal)
            state = replay(state, decided)
            commands.append(command)
            events += decided
            states.append(state)
        if state.phase is Phase.SETTLED and wanted(events, states):
            return dealt, commands
