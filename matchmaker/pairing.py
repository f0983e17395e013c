"""Who plays whom: a pure function of tickets and time.

Pairing makes the matches that are worth most together. What a match is worth is counted in waiting time: what both
have waited, less 20 ms for each rating point between them. So a second of waiting weighs as much as 50 points, and the
patient are served first wherever it costs little.

Up to `EXACT_MAX` tickets the matches are the best possible ones. A larger crowd is cut, in order of rating and
provisional players apart, into stretches that are matched exactly; then whoever is left over may still be added, or
take the place of somebody who was worth less. When nobody can do either any more, two things hold, as they do for the best matches too:

- no two tickets are left over that accept each other;
- a ticket is passed over only for others who waited longer, or less by no more than the distance is worth.

And from these two follows that the matches of a large crowd are worth at least half of the best possible ones: a pair
that both have better matches instead of is worth no more than these two together, since each of the two is worth at
least the window of each of its players, and no pair is worth more than the sum of the windows. In practice they are
worth more than 98 hundredths; docs/matchmaking.md has the figures.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import rustworkx

from matchmaker.crowd import Crowd, Places
from matchmaker.ticket import Ticket

EXACT_MAX: Final = 128
"""As many tickets are matched exactly. The time of that grows with the third power; this many take 17 ms at most."""
STRETCH: Final = 32
"""Tickets of a larger crowd that are matched exactly with each other. Even, so that all of a stretch can be paired."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two tickets that become a match; `first` has waited at least as long as `second`."""

    first: Ticket
    second: Ticket

    @property
    def gap(self) -> float:
        """The distance of the two ratings, in rating points."""
        return abs(self.first.rating - self.second.rating)


def pair(
    tickets: Iterable[Ticket], now: int, *, exact_max: int = EXACT_MAX, stretch: int = STRETCH
) -> list[Pairing]:
    """The pairs to be made now, those with the longest waiting first.

    `now` is on the timeline of the tickets, in nanoseconds. Each ticket is in at most one pair; both of a pair accept
    each other. The order of `tickets` does not matter. `exact_max` and `stretch` are for measurements: more tickets than
    the one are taken for a crowd, the other says how long its stretches are.
    """
    crowd = Crowd(tickets, now)
    matching = _Matching(crowd)
    if len(crowd) <= exact_max:
        matching.match_exactly(np.arange(len(crowd)))
    else:
        for places in crowd.stretches(stretch):
            matching.match_exactly(places)
        matching.settle()
    return [Pairing(crowd.tickets[one], crowd.tickets[other]) for one, other in matching.pairs()]


class _Matching:
    """Who is with whom so far."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._mate: list[int | None] = [None] * len(crowd)
        self._worth = np.zeros(len(crowd))
        """What the pair is worth that a place is in; 0 for one that is left over."""

    def pairs(self) -> Iterator[tuple[int, int]]:
        """The senior and the junior place of each pair, the most senior first."""
        for place in sorted(range(len(self._crowd)), key=self._crowd.seniority):
            mate = self._mate[place]
            if mate is not None and self._crowd.seniority(place) < self._crowd.seniority(mate):
                yield place, mate

    def match_exactly(self, places: Places) -> None:
        """Pair these tickets with each other so that the pairs are worth as much as possible."""
        worths = np.triu(self._crowd.worths(places, places), 1)
        ones, others = np.nonzero(worths)
        values = worths[ones, others].astype(np.int64).tolist()
        graph: rustworkx.PyGraph[None, int] = rustworkx.PyGraph(multigraph=False)
        graph.add_nodes_from([None] * len(worths))
        graph.add_edges_from(list(zip(ones.tolist(), others.tolist(), values, strict=True)))
        for one, other in rustworkx.max_weight_matching(graph, weight_fn=int):
            low, high = sorted((one, other))
            self._join(int(places[low]), int(places[high]), float(worths[low, high]))

    def settle(self) -> None:
        """Let everybody who is left over, the most senior first, join or replace whoever that gains most from.

        Each step makes the whole worth more, by whole nanoseconds, so there is an end. A ticket that finds nothing needs
        not look again: the pairs it could break have only become worth more, and one that is left over later looks at
        everybody, and so at this one too.
        """
        left = [self._crowd.seniority(place) for place, mate in enumerate(self._mate) if mate is None]
        heapq.heapify(left)
        while left:
            *_, place = heapq.heappop(left)
            if self._mate[place] is not None:
                continue
            reach = self._crowd.reach(place)
            if not len(reach):
                continue
            (worths,) = self._crowd.worths(np.array([place]), reach)
            gains = np.where(worths > 0, worths - self._worth[reach], 0.0)
            best = int(gains.argmax())
            if gains[best] > 0:
                other = int(reach[best])
                displaced = self._mate[other]
                if displaced is not None:
                    self._mate[displaced] = None
                    self._worth[displaced] = 0.0
                    heapq.heappush(left, self._crowd.seniority(displaced))
                self._join(place, other, float(worths[best]))

    def _join(self, one: int, other: int, worth: float) -> None:
        self._mate[one], self._mate[other] = other, one
        self._worth[one] = self._worth[other] = worth
