"""The house bots, weakest first: what each is called and how it chooses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from client.bots import easy, greedy, strong

if TYPE_CHECKING:
    import random

    from client.bots.memory import Memory
    from client.bots.search import Budget
    from client.table import TableState
    from engine.command import Command

Choose = Callable[["TableState", "Memory", "random.Random", "Budget"], "Command | None"]
"""What a bot does at a table: from what its seat sees and remembers, and nothing else."""


@dataclass(frozen=True, slots=True)
class Level:
    """A strength."""

    name: str
    choose: Choose
    thinks: bool
    """Whether a move may take the whole budget, so that it has to be found beside the event loop."""


def _easy(table: TableState, _: Memory, rng: random.Random, __: Budget) -> Command | None:
    return easy.choose(table, rng)


def _greedy(table: TableState, _: Memory, __: random.Random, ___: Budget) -> Command | None:
    return greedy.choose(table)


LEVELS: Final = {
    level.name: level
    for level in (
        Level(easy.NAME, _easy, thinks=False),
        Level(greedy.NAME, _greedy, thinks=False),
        Level(strong.NAME, strong.choose, thinks=True),
    )
}
"""By name, weakest first."""
