"""How many moves a second so many game processes and cores make: which resource is full first.

A game process, the clock and matchmaking are one thread each that does the work, so none uses more than one core; what
PostgreSQL does for a game process it does on one connection. The cores are shared by all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MICROSECONDS: Final = 1e6
GAME, CLOCK, POSTGRES, CORES = "a game process", "the clock", "a connection to PostgreSQL", "all cores"


@dataclass(frozen=True, slots=True)
class Costs:
    """What is used: microseconds of processor time a move, and what runs whether or not anybody moves."""

    game: float
    clock: float
    postgres: float
    load: float = 0.0
    """Of a load generator that shares the cores."""
    fixed: float = 0.0
    """Cores that are used all the time: matchmaking."""

    @property
    def all(self) -> float:
        """Microseconds a move, of everything."""
        return self.game + self.clock + self.postgres + self.load

    def limits(self, games: int, cores: float) -> dict[str, float]:
        """Moves a second at which each resource is full."""
        return {
            GAME: games * MICROSECONDS / self.game,
            CLOCK: MICROSECONDS / self.clock,
            POSTGRES: games * MICROSECONDS / self.postgres,
            CORES: (cores - self.fixed) * MICROSECONDS / self.all,
        }

    def predicted(self, games: int, cores: float) -> tuple[float, str]:
        """Moves a second, and what is full then."""
        limits = self.limits(games, cores)
        full = min(limits, key=lambda name: limits[name])
        return limits[full], full

    def games_for(self, cores: float) -> int:
        """The fewest game processes with which another one brings no more."""
        games = 1
        while self.predicted(games + 1, cores)[0] > self.predicted(games, cores)[0]:
            games += 1
        return games
