"""The short version of `make bias`: no bias in our shuffle, and the same statistics find it in shuffles that have some."""

from __future__ import annotations

import math

import pytest

from tests.bias import source
from tests.bias.chance import chi_squared, normal
from tests.bias.counts import Counts, _joint_doubles, _suit
from tests.bias.source import Source
from tests.bias.verdict import Worst, worst


def judged(shuffles: Source, matches: int) -> tuple[Worst, Counts]:
    counts = Counts()
    counts.take(shuffles(matches))
    return worst(counts.figures()), counts


def test_fc_57_our_shuffle_is_not_biased() -> None:
    """FC-57: 20,000 deals through the functions that deal. A fair shuffle fails here once in a million runs."""
    found, counts = judged(source.ours, 2_000)
    assert counts.deals == 20_000
    assert not found.biased, found


@pytest.mark.parametrize(
    ("shuffles", "what"),
    [
        (source.without_rejection, "each tile in each place"),
        (source.one_too_few, "each tile in each place"),
        (source.one_tile_favoured, "who holds the highest double"),
        (source.half_remembered, "where a tile lies in the next deal"),
    ],
)
def test_a_biased_shuffle_is_found(shuffles: Source, what: str) -> None:
    found, counts = judged(shuffles, 5_000)
    assert found.biased, found
    by_name = {figure.what: figure for figure in counts.figures()}
    assert by_name[what].chance * len(by_name) < 1e-6


def test_a_fair_shuffle_of_somebody_elses_is_not_called_biased() -> None:
    """Of 20 generators that have nothing to do with ours, none is, and their figures are spread as chance has it."""
    chances = []
    for seed in range(20):
        counts = Counts()
        counts.take(source.fair(50, seed))
        figures = counts.figures()
        assert not worst(figures).biased
        chances += [figure.chance for figure in figures if "two tiles" not in figure.what]
    below = sum(chance < 0.25 for chance in chances) / len(chances)
    assert abs(below - 0.25) < 6 * math.sqrt(0.25 * 0.75 / len(chances))


def test_the_distributions_are_those_of_the_tables() -> None:
    """Quantiles of the chi-squared and the normal distribution as any table has them; both tails count."""
    for freedom, quantile in (
        (1, 3.841459),
        (2, 5.991465),
        (10, 18.307038),
        (100, 124.342113),
        (729, 792.931),
    ):
        assert chi_squared(quantile, freedom) == pytest.approx(2 * 0.05, rel=1e-3)
    assert chi_squared(3.940299, 10) == pytest.approx(2 * 0.05, rel=1e-3)
    assert normal(1.959964) == pytest.approx(0.05, rel=1e-5)
    assert sum(_joint_doubles().values()) == pytest.approx(1)
    assert sum(_suit().values()) == pytest.approx(1)
