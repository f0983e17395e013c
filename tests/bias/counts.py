"""What is counted in shuffles, and what a fair one makes of each count.

Tiles and places are numbers from 0 to 27: places 0 to 6 are north's hand, 7 to 13 south's, the rest is the boneyard.
Each statistic has the distribution that is named with it whatever the number of deals, or nearly so from some thousands
on; none of them needs the counts of another one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from engine.tiles import DOUBLE_SIX
from tests.bias.chance import chi_squared, normal

TILES: Final = 28
HAND: Final = 7
_PIPS: Final = np.array([tile.pips for tile in DOUBLE_SIX])
_DOUBLES: Final = np.array([tile.is_double for tile in DOUBLE_SIX])
_SUITS: Final = np.array([[pip in (tile.low, tile.high) for tile in DOUBLE_SIX] for pip in range(7)])
_RANKS: Final = np.array([tile.low + 1 if tile.is_double else 0 for tile in DOUBLE_SIX])
_EXPECTED_MIN: Final = 10.0
"""Cells that are expected less often than this are counted together."""

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """One statistic."""

    what: str
    statistic: float
    freedom: int
    """Degrees of freedom of chi-squared; 0 for a normal value."""
    chance: float
    """How likely a fair shuffle is as far off, to either side; before any correction for their number."""


class Counts:
    """Counted so far."""

    def __init__(self) -> None:
        self.deals = 0
        self._places = np.zeros((TILES, TILES), np.int64)
        self._pairs = np.zeros((TILES - 1, TILES * TILES), np.int64)
        self._doubles = np.zeros((8, 8), np.int64)
        self._suits = np.zeros((2, 7, 8), np.int64)
        self._openers = np.zeros(3, np.int64)
        self._moves = {lag: np.zeros((TILES, TILES), np.int64) for lag in (1, 2)}
        self._sums = np.zeros(2)
        self._together = np.zeros(2)
        self._following = 0

    def take(self, matches: Array) -> None:
        """Shuffles by match, round and place: an array of three dimensions that holds tiles."""
        orders = matches.reshape(-1, TILES)
        self.deals += len(orders)
        for place in range(TILES):
            self._places[place] += np.bincount(orders[:, place], minlength=TILES)
        wide = orders.astype(np.int64)
        for place in range(TILES - 1):
            pair = wide[:, place] * TILES + wide[:, place + 1]
            self._pairs[place] += np.bincount(pair, minlength=TILES * TILES)
        north, south = orders[:, :HAND], orders[:, HAND : 2 * HAND]
        doubles = _DOUBLES[north].sum(1), _DOUBLES[south].sum(1)
        np.add.at(self._doubles, doubles, 1)
        for seat, hand in enumerate((north, south)):
            for pip in range(7):
                self._suits[seat, pip] += np.bincount(_SUITS[pip][hand].sum(1), minlength=8)
        highest = _RANKS[north].max(1).astype(int) - _RANKS[south].max(1)
        self._openers += ((highest > 0).sum(), (highest < 0).sum(), (highest == 0).sum())
        self._follow(matches, _PIPS[north].sum(1) - 42.0, doubles[0] - 1.75)

    def _follow(self, matches: Array, pips: Array, doubles: Array) -> None:
        """What one deal of a match says about the next ones."""
        rounds = matches.shape[1]
        places = np.argsort(matches, axis=2)
        for lag, moves in self._moves.items():
            # Where each tile was, and where it is `lag` rounds later.
            pair = places[:, :-lag].astype(np.int64) * TILES + places[:, lag:]
            moves += np.bincount(pair.ravel(), minlength=TILES * TILES).reshape(TILES, TILES)
        for number, values in enumerate((pips, doubles)):
            by_match = values.reshape(-1, rounds)
            self._together[number] += (by_match[:, :-1] * by_match[:, 1:]).sum()
            self._sums[number] += values.sum()
        self._following += len(matches) * (rounds - 1)

    # What comes of it

    def figures(self) -> list[Figure]:
        """All of them."""
        return list(self._figures())

    def _figures(self) -> Iterator[Figure]:
        yield _square("each tile in each place", self._places)
        for place, pairs in enumerate(self._pairs):
            expected = self.deals / (TILES * (TILES - 1))
            different = pairs.reshape(TILES, TILES)[~np.eye(TILES, dtype=bool)]
            yield _fit(f"two tiles in the places {place} and {place + 1}", different, expected)
        yield _by_cells("doubles in both hands", self._doubles, _joint_doubles())
        for seat, name in enumerate(("north", "south")):
            for pip in range(7):
                yield _by_cells(f"tiles of {name} with a {pip}", self._suits[seat, pip], _suit())
        none = math.comb(21, 14) / math.comb(28, 14)
        expected_openers: dict[tuple[int, ...], float] = {
            (0,): (1 - none) / 2,
            (1,): (1 - none) / 2,
            (2,): none,
        }
        yield _by_cells("who holds the highest double", self._openers, expected_openers)
        for lag, moves in self._moves.items():
            ahead = "in the next deal" if lag == 1 else f"{lag} deals later"
            yield _square(f"where a tile lies {ahead}", moves)
        for number, (what, variance) in enumerate((("pips", _PIPS.var()), ("doubles", _DOUBLES.var()))):
            one_hand = HAND * variance * (TILES - HAND) / (TILES - 1)
            yield _z(f"mean {what} of north", self._sums[number] / math.sqrt(self.deals * one_hand))
            along = self._together[number] / (one_hand * math.sqrt(self._following))
            yield _z(f"correlation of north's {what} with the next deal's", along)

    def widest_cell(self) -> float:
        """The largest distance of a tile's share of a place from 1/28, in standard deviations."""
        expected = self.deals / TILES
        return float(np.abs(self._places - expected).max() / math.sqrt(expected * (1 - 1 / TILES)))


def _square(what: str, counts: Array) -> Figure:
    """Counts of permutations, whose rows and columns all have one sum."""
    total = counts.sum() / TILES
    expected = total / TILES
    statistic = float(((counts - expected) ** 2).sum() / expected * (TILES - 1) / TILES)
    return _chi(what, statistic, (TILES - 1) ** 2)


def _fit(what: str, counts: Array, expected: float) -> Figure:
    return _chi(what, float(((counts - expected) ** 2).sum() / expected), counts.size - 1)


def _by_cells(what: str, counts: Array, chances: Mapping[tuple[int, ...], float]) -> Figure:
    """Cells with chances of their own; those that hardly ever happen are one."""
    deals = counts.sum()
    statistic, cells, rare, rare_expected = 0.0, 0, 0, 0.0
    for cell, chance in chances.items():
        expected = deals * chance
        if expected < _EXPECTED_MIN:
            rare, rare_expected = rare + int(counts[cell]), rare_expected + expected
            continue
        statistic += float((counts[cell] - expected) ** 2 / expected)
        cells += 1
    if rare_expected > 0:
        statistic += (rare - rare_expected) ** 2 / rare_expected
        cells += 1
    return _chi(what, statistic, cells - 1)


def _chi(what: str, statistic: float, freedom: int) -> Figure:
    return Figure(what, statistic, freedom, chi_squared(statistic, freedom))


def _z(what: str, z: float) -> Figure:
    return Figure(what, float(z), 0, normal(float(z)))


def _suit() -> dict[tuple[int, ...], float]:
    """How many of the seven tiles with one pip are among the seven of a hand."""
    return {(k,): math.comb(7, k) * math.comb(21, 7 - k) / math.comb(28, 7) for k in range(8)}


def _joint_doubles() -> dict[tuple[int, ...], float]:
    """How many of the seven doubles each hand has."""
    return {
        (mine, theirs): math.comb(7, mine)
        * math.comb(21, 7 - mine)
        / math.comb(28, 7)
        * math.comb(7 - mine, theirs)
        * math.comb(14 + mine, 7 - theirs)
        / math.comb(21, 7)
        for mine in range(8)
        for theirs in range(8 - mine)
    }
