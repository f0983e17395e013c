"""The model of several game processes: each resource limits where it is full, and the first one decides."""

from __future__ import annotations

import pytest

from tests.bench.scaling import CLOCK, CORES, GAME, POSTGRES, Costs

COSTS = Costs(game=400.0, clock=100.0, postgres=80.0, load=20.0, fixed=0.1)


@pytest.mark.parametrize(
    ("costs", "games", "cores", "moves", "full"),
    [
        (COSTS, 1, 2, 2_500.0, GAME),
        (COSTS, 1, 1, 1_500.0, CORES),
        (COSTS, 2, 2, 1.9e6 / 600, CORES),
        (COSTS, 8, 32, 10_000.0, CLOCK),
        (Costs(game=50.0, clock=10.0, postgres=80.0), 1, 4, 12_500.0, POSTGRES),
    ],
)
def test_the_first_full_resource_decides(
    costs: Costs, games: int, cores: int, moves: float, full: str
) -> None:
    predicted, first = costs.predicted(games, cores)
    assert predicted == pytest.approx(moves)
    assert first == full


def test_no_more_processes_than_bring_something() -> None:
    assert [COSTS.games_for(cores) for cores in (1, 2, 8, 32)] == [1, 2, 4, 4]
