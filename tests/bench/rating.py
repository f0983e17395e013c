"""How well the ladder finds out who is strong, beside plain Elo (K = 24), for players of known strength.

`python -m tests.bench.rating [--players N] [--seeds N]`. Both see the same matches: who meets whom depends on true
strength and chance alone, not on what either believes. At first anybody meets anybody; the more matches were played,
the nearer are opponents, as with any matchmaker that learns. Three worlds say how strength becomes a result; none has
been fitted to either system:

- Elo's logistic curve: 400 points are ten to one;
- Elo's first model, the normal one: each player's form varies by 200 points from match to match;
- luck: the logistic curve twice as flat, 800 points are ten to one, as may be in a game of hidden tiles.

In a further world strength is not constant: each player's moves by N(0, 6) points with every match.

Log-loss is expected, not sampled: what the prediction costs against the true probability, in nats a match; "ideal" is
what the true probability itself costs, 0.693 what a guess of one half costs. It is taken of near pairs, most of them
within 200 points, and of pairs of any two players.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import NormalDist, fmean
from typing import Final, Protocol

from rich.console import Console
from rich.table import Table

from matchmaker.rating import BETA, MODEL_VERSION, NEW, Rating, rate

LOOKS: Final = (10, 50, 200)
"""Matches a player after which the two are compared."""
K: Final = 24.0
SPREAD: Final = 300.0
"""Standard deviation of true strength, around 1500."""
NOISE_FIRST: Final = 900.0
NOISE_LEAST: Final = 100.0
"""Opponents are neighbours in true strength plus N(0, noise); the noise falls with the root of the matches played."""
NEAR: Final = 150.0
ANY: Final = 1e6
"""The same, for the pairs that predictions are judged by."""
FIGURES: Final = ("near", "any", "rank")
PHI: Final = NormalDist().cdf

Curve = Callable[[float], float]
"""From a difference of strength, in points, to the probability that the first wins."""


def logistic(scale: float) -> Curve:
    """`scale` points are ten to one."""
    return lambda gap: 1 / (1 + 10 ** (-gap / scale))


def normal(form: float) -> Curve:
    """Each player's form varies by `form` points."""
    return lambda gap: PHI(gap / (form * math.sqrt(2)))


@dataclass(frozen=True, slots=True)
class Scenario:
    """How strength becomes a result, and how strength moves."""

    curve: Curve
    drift: float = 0.0


WORLDS: Final = {
    "logistic, 400": Scenario(logistic(400)),
    "normal, 200": Scenario(normal(200)),
    "luck, 800": Scenario(logistic(800)),
    "logistic, 400, drifting": Scenario(logistic(400), drift=6.0),
}


class System(Protocol):
    """What learns from results."""

    def predict(self, one: int, other: int) -> float:
        """The probability that `one` wins."""

    def learn(self, winner: int, loser: int) -> None:
        """Take in a result."""

    def order(self) -> Sequence[float]:
        """What players are ranked by."""


class Elo:
    """Plain Elo, everybody from 1500."""

    def __init__(self, players: int) -> None:
        self.points = [1500.0] * players

    def predict(self, one: int, other: int) -> float:
        """The probability that `one` wins."""
        return logistic(400)(self.points[one] - self.points[other])

    def learn(self, winner: int, loser: int) -> None:
        """Take in a result."""
        change = K * (1 - self.predict(winner, loser))
        self.points[winner] += change
        self.points[loser] -= change

    def order(self) -> list[float]:
        """What players are ranked by."""
        return self.points


class Ladder:
    """Ours."""

    def __init__(self, players: int) -> None:
        self.ratings = [NEW] * players

    def predict(self, one: int, other: int) -> float:
        """The probability that `one` wins, as the model has it."""
        return chance(self.ratings[one], self.ratings[other])

    def learn(self, winner: int, loser: int) -> None:
        """Take in a result."""
        after = rate({"winner": self.ratings[winner], "loser": self.ratings[loser]}, "winner")
        self.ratings[winner], self.ratings[loser] = after["winner"], after["loser"]

    def order(self) -> list[float]:
        """What players are ranked by."""
        return [rating.mu - 2 * rating.sigma for rating in self.ratings]


def chance(one: Rating, other: Rating) -> float:
    """The probability that the first wins, as the rating model has it."""
    return PHI((one.mu - other.mu) / math.sqrt(2 * BETA**2 + one.sigma**2 + other.sigma**2))


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's, for values without ties to speak of."""

    def ranks(values: Sequence[float]) -> list[float]:
        places = [0.0] * len(values)
        for rank, place in enumerate(sorted(range(len(values)), key=lambda place: values[place])):
            places[place] = float(rank)
        return places

    mean = (len(one) - 1) / 2
    top = sum((a - mean) * (b - mean) for a, b in zip(ranks(one), ranks(other), strict=True))
    return top / sum((rank - mean) ** 2 for rank in range(len(one)))


def cost(truth: float, said: float) -> float:
    """Expected log-loss of a prediction."""
    said = min(max(said, 1e-9), 1 - 1e-9)
    return -truth * math.log(said) - (1 - truth) * math.log(1 - said)


def meetings(strength: Sequence[float], noise: float, random: Random) -> list[tuple[int, int]]:
    """Everybody meets somebody of about the same strength, the less exactly the more noise there is."""
    order = sorted(range(len(strength)), key=lambda player: strength[player] + random.gauss(0, noise))
    return [(order[place], order[place + 1]) for place in range(0, len(order) - 1, 2)]


@dataclass(frozen=True, slots=True)
class Figures:
    """How well a system knows the players."""

    near: float
    """Log-loss of near pairs."""
    any: float
    """Log-loss of pairs of any two players."""
    rank: float
    """Rank correlation with true strength."""


def look(system: System | None, scenario: Scenario, strength: Sequence[float], seed: int) -> Figures:
    """Judge a system; None stands for one that knows everything."""
    losses = []
    for noise in (NEAR, ANY):
        random = Random(seed)
        pairs = [pair for _ in range(10) for pair in meetings(strength, noise, random)]
        truth = [scenario.curve(strength[one] - strength[other]) for one, other in pairs]
        said = truth if system is None else [system.predict(*pair) for pair in pairs]
        losses.append(fmean(map(cost, truth, said)))
    near, anybody = losses
    return Figures(near, anybody, 1.0 if system is None else rank_correlation(strength, system.order()))


def play(scenario: Scenario, players: int, seed: int) -> dict[int, dict[str, Figures]]:
    """One population, seen by both systems: what they know after so many matches a player."""
    random = Random(seed)
    strength = [random.gauss(1500, SPREAD) for _ in range(players)]
    systems: dict[str, System] = {"ladder": Ladder(players), "elo": Elo(players)}
    figures = {}
    for number in range(1, max(LOOKS) + 1):
        noise = max(NOISE_LEAST, NOISE_FIRST / math.sqrt(number))
        for one, other in meetings(strength, noise, random):
            won = random.random() < scenario.curve(strength[one] - strength[other])
            for system in systems.values():
                system.learn(*((one, other) if won else (other, one)))
        if scenario.drift:
            strength = [value + random.gauss(0, scenario.drift) for value in strength]
        if number in LOOKS:
            judged: dict[str, System | None] = {**systems, "ideal": None}
            figures[number] = {name: look(one, scenario, strength, seed) for name, one in judged.items()}
    return figures


def main() -> None:
    """One table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--players", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    table = Table(
        title=f"{MODEL_VERSION} beside Elo K={K:g}: {options.players} players, mean of {options.seeds} seeds"
    )
    table.add_column("world")
    for column in ("matches", "log-loss, near: ladder / Elo / ideal", "any pair", "rank: ladder / Elo"):
        table.add_column(column, justify="right")
    for name, scenario in WORLDS.items():
        runs = [play(scenario, options.players, seed) for seed in range(1, options.seeds + 1)]
        for matches in LOOKS:
            mean = {
                system: [fmean(getattr(run[matches][system], which) for run in runs) for which in FIGURES]
                for system in ("ladder", "elo", "ideal")
            }
            near, anybody, rank = zip(*mean.values(), strict=True)
            table.add_row(
                name,
                str(matches),
                " / ".join(f"{value:.4f}" for value in near),
                " / ".join(f"{value:.4f}" for value in anybody),
                " / ".join(f"{value:.4f}" for value in rank[:2]),
            )
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
