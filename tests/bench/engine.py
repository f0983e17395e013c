"""How fast the rules are: commands a second on random matches, beside the PyPI package `dominoes`.

`python -m tests.bench.engine [SECONDS]`. Both sides play random games in the same process, in short turns one after
the other, so that whatever else the machine does hits both; the best turn of each counts, as that is the one least
disturbed.

A command of ours is the legal list, decide and evolve, in random matches that were chosen before; the second line
adds dealing (with its commitment) and choosing. A ply of the peer is choosing and make_move, which keeps its own list
of valid moves; there is no other way to drive it.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.match import Match, Phase, deal_round, decide, evolve, legal
from engine.refusal import Refusal
from tests.engine.randomplay import choose, shuffled

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.command import Command
    from engine.event import Event

SALT = bytes(32)
OVER, AWAITING_DEAL = Phase.OVER, Phase.AWAITING_DEAL
SECONDS = 8.0
TURN_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table."""

    name: str
    per_second: float
    unit: str


def play_engine(rng: random.Random) -> int:
    """One random match; how many commands it took."""
    state = Match.start()
    commands = 0
    while (phase := state.phase) is not OVER:
        if phase is AWAITING_DEAL:
            ruling = deal_round(state, shuffled(rng), SALT)
        else:
            ruling = decide(state, choose(state, legal(state), rng))
            commands += 1
        assert not isinstance(ruling, Refusal)
        for event in ruling:
            state = evolve(state, event)
    return commands


Step = tuple["Command | None", "tuple[Event, ...]"]


def record_matches(rng: random.Random, count: int) -> list[list[Step]]:
    """Random matches as their commands and events, to be run again without choosing and dealing."""
    matches = []
    for _ in range(count):
        state, steps = Match.start(), list[Step]()
        while state.phase is not Phase.OVER:
            dealing = state.phase is Phase.AWAITING_DEAL
            command = None if dealing else choose(state, legal(state), rng)
            ruling = deal_round(state, shuffled(rng), SALT) if command is None else decide(state, command)
            assert not isinstance(ruling, Refusal)
            steps.append((command, ruling))
            for event in ruling:
                state = evolve(state, event)
        matches.append(steps)
    return matches


def run_engine(steps: list[Step]) -> int:
    """One recorded match through legal, decide and evolve; how many commands it took."""
    state = Match.start()
    commands = 0
    for command, events in steps:
        if command is not None:
            legal(state)
            ruling = decide(state, command)
            assert not isinstance(ruling, Refusal)
            events = ruling
            commands += 1
        for event in events:
            state = evolve(state, event)
    return commands


def peer() -> Callable[[random.Random], int] | None:
    """One random game of the package `dominoes`; None when it is not installed."""
    try:
        import dominoes
    except ImportError:
        return None

    def play_peer(rng: random.Random) -> int:
        game = dominoes.Game.new()
        plies = 1
        while game.result is None:
            game.make_move(*rng.choice(game.valid_moves))
            plies += 1
        return plies

    return play_peer


def rate(play: Callable[[], int]) -> float:
    """Steps a second of processor time in one short turn."""
    gc.collect()
    steps, began = 0, time.process_time()  # time given to other processes is nobody's
    while (spent := time.process_time() - began) < TURN_SECONDS:
        steps += play()
    return steps / spent


def measure(seconds: float = SECONDS) -> list[Figure]:
    """All figures; the peer's is left out when it is not installed."""
    rng = random.Random(6)
    recorded = record_matches(rng, 4)
    players: dict[str, tuple[Callable[[], int], str]] = {
        "engine: legal + decide + evolve": (lambda: run_engine(rng.choice(recorded)), "commands"),
        "engine: the same + dealing + choice": (lambda: play_engine(rng), "commands"),
    }
    other = peer()
    if other is not None:
        players["dominoes 6.1.0: choice + make_move"] = (lambda: other(rng), "plies")
    best = dict.fromkeys(players, 0.0)
    for _ in range(max(1, round(seconds / TURN_SECONDS / len(players)))):
        for name, (play, _) in players.items():
            best[name] = max(best[name], rate(play))
    return [Figure(name, best[name], unit) for name, (_, unit) in players.items()]


def main(seconds: float = SECONDS) -> list[Figure]:
    """Measure and print a table; each ratio is against the peer."""
    figures = measure(seconds)
    theirs = next((figure.per_second for figure in figures if figure.unit == "plies"), None)
    for figure in figures:
        ratio = f"{figure.per_second / theirs:6.2f}x" if theirs else ""
        print(f"{figure.name:<42} {figure.per_second:>10,.0f} {figure.unit + '/s':<11} {ratio}")
    if theirs is None:
        print("The package dominoes 6.1.0 is not installed: nothing to compare with.")
    return figures


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]))
