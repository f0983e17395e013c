"""The search of the strongest bot: hidden tiles are drawn from what may be, and each choice is played out on them.

Pure: the answer follows from what the seat sees and remembers, from the random numbers, and from the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import sqrt
from typing import TYPE_CHECKING, Final, NamedTuple

from client.bots.rounds import habitual_opening, joined, opened, play_out, spot_of
from client.bots.worth import WORTH
from engine.layout import EMPTY
from engine.points import TOTAL, score
from engine.tiles import tiles_of

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

    from client.bots.deals import Deals, Hidden
    from client.bots.rounds import Spot
    from engine.layout import Layout
    from engine.tiles import End, Tile, TileSet

Play = tuple["Tile", "End | None"]

Budget = Callable[[float], Iterator[int]]
"""How many deals may be looked at: for a share of the whole, 0 to 1, an iterator with one step a deal."""

_LOOK: Final = 16
"""Deals that are looked at in any case, and between two looks at which plays are out of the running."""
_DOUBT: Final = 2.5
"""Standard errors by which a play must be behind the best one to be given up."""
_OPENING_SHARE: Final = 0.4
"""The part of the budget that finds the tile to open with, when a bid is thought about."""


def deals(count: int) -> Budget:
    """A budget of so many deals: the same answer on every machine."""

    def looks(share: float) -> Iterator[int]:
        yield from range(max(_LOOK, round(count * share)))

    return looks


def seconds(limit: float, clock: Callable[[], float]) -> Budget:
    """A budget of time, read on this clock."""

    def looks(share: float) -> Iterator[int]:
        end, looked = clock() + limit * share, 0
        while looked < _LOOK or clock() < end:
            yield looked
            looked += 1

    return looks


class _After(NamedTuple):
    """What one play leads to."""

    play: Play
    hand: TileSet
    spot: Spot
    balance: int

    def worth(self, hidden: Hidden) -> float:
        """The chance to win, as one deal plays out."""
        if self.balance >= TOTAL:
            return 1.0
        if not self.hand:
            return WORTH.jockey[self.balance]
        left = TOTAL - self.balance
        return 1.0 - play_out(hidden.hand, self.hand, hidden.boneyard, self.spot, left, WORTH)


def _after(play: Play, hand: TileSet, layout: Layout, balance: int) -> _After:
    tile, end = play
    spot = opened(tile) if end is None else joined(spot_of(layout), tile, end)
    return _After(play, hand ^ tile.bit, spot, min(balance + score(spot.total), TOTAL))


def best_play(
    plays: Iterable[Play],
    hand: TileSet,
    layout: Layout,
    balance: int,
    hidden: Deals,
    rng: random.Random,
    looks: Iterator[int],
) -> Play:
    """The play with the best chance to win the match."""
    running = [_after(play, hand, layout, balance) for play in plays]
    won = next((after.play for after in running if after.balance >= TOTAL), None)
    if won is not None or len(running) == 1:
        return won or running[0].play
    values: list[list[float]] = [[] for _ in running]
    for looked in looks:
        deal = hidden.draw(rng)
        for after, found in zip(running, values, strict=True):
            found.append(after.worth(deal))
        if looked % _LOOK == _LOOK - 1:
            kept = _in_the_running(values)
            running, values = [running[index] for index in kept], [values[index] for index in kept]
            if len(running) == 1:
                break
    totals = [sum(found) for found in values]
    return running[totals.index(max(totals))].play


def _in_the_running(values: list[list[float]]) -> list[int]:
    """Which plays may still be the best: compared with the best so far, deal by deal."""
    totals = [sum(found) for found in values]
    best = values[totals.index(max(totals))]
    count = len(best)
    kept = []
    for index, found in enumerate(values):
        behind = [one - other for one, other in zip(best, found, strict=True)]
        mean = sum(behind) / count
        variance = sum((each - mean) ** 2 for each in behind) / (count - 1)
        if mean <= _DOUBT * sqrt(variance / count):
            kept.append(index)
    return kept


def opening_pays(
    hand: TileSet, balance: int, price: int, paid: int, hidden: Deals, rng: random.Random, budget: Budget
) -> bool:
    """Whether opening for `price` is worth more than letting the other seat open, and being `paid` for it.

    `price` must leave something of the balance, and `paid` something of the other one.
    """
    plays = [(tile, None) for tile in tiles_of(hand)]
    tile, _ = best_play(plays, hand, EMPTY, balance - price, hidden, rng, budget(_OPENING_SHARE))
    own = _after((tile, None), hand, EMPTY, balance - price)
    gain = 0.0
    for _ in budget(1 - _OPENING_SHARE):
        deal = hidden.draw(rng)
        gain += own.worth(deal) - _let(hand, balance + paid, deal)
    return gain > 0


def _let(hand: TileSet, balance: int, deal: Hidden) -> float:
    """The chance to win when the other seat opens, as it opens by habit."""
    tile = habitual_opening(deal.hand)
    left = balance - score(tile.pips)
    if left <= 0:
        return 0.0
    return play_out(hand, deal.hand ^ tile.bit, deal.boneyard, opened(tile), left, WORTH)
