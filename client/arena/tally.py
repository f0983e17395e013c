"""What a number of pairs shows: win rate with its confidence interval, lengths, time for a move."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from statistics import mean, stdev
from typing import TYPE_CHECKING, Final

from engine.points import START_BALANCE
from engine.seats import NORTH, SOUTH

if TYPE_CHECKING:
    from client.arena.match import Effort, Played

_NORMAL_95: Final = 1.96
_ADDED: Final = (1.0, 1.0, 0.0, 0.0)


@dataclass(slots=True)
class Tally:
    """Pairs between two bots, as the first one sees them."""

    scores: list[float] = field(default_factory=list)
    """What each pair was worth: 0, 0.5 or 1."""
    rounds: int = 0
    one: list[Effort] = field(default_factory=list)
    other: list[Effort] = field(default_factory=list)

    def add(self, pair: tuple[Played, Played]) -> None:
        """One more pair: the first bot sat north, then south."""
        first, second = pair
        self.scores.append(((first.winner is NORTH) + (second.winner is SOUTH)) / 2)
        self.rounds += first.rounds + second.rounds
        self.one += [first.efforts.north, second.efforts.south]
        self.other += [first.efforts.south, second.efforts.north]

    @property
    def matches(self) -> int:
        """Two a pair."""
        return 2 * len(self.scores)

    @property
    def wins(self) -> int:
        """Matches that the first bot has won."""
        return round(2 * sum(self.scores))

    @property
    def rate(self) -> float:
        """The share of all matches that the first bot has won."""
        return mean(self.scores)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the rate.

        The units are pairs: the two matches of a pair share their deals, so they are no independent witnesses. It is
        the normal one after two won and two lost pairs are added (Agresti and Coull), so that it does not claim to be
        certain where every pair was won.
        """
        scores = [*self.scores, *_ADDED]
        half = _NORMAL_95 * stdev(scores) / sqrt(len(scores))
        return max(0.0, mean(scores) - half), min(1.0, mean(scores) + half)

    @property
    def points_a_round(self) -> float:
        """Points that the first bot has won in a round, less those it has lost, on average."""
        return START_BALANCE * (2 * self.wins - self.matches) / self.rounds

    @property
    def rounds_a_match(self) -> float:
        """The length of a match."""
        return self.rounds / self.matches


def thinking_ms(efforts: list[Effort]) -> tuple[float, float]:
    """The mean and the longest time for a move with a choice, in milliseconds."""
    moves = sum(effort.moves for effort in efforts)
    seconds = sum(effort.seconds for effort in efforts)
    return 1000 * seconds / max(1, moves), 1000 * max(effort.seconds_max for effort in efforts)
