"""Three ways to pair those who wait: ours, and two simple ones to compare with. All keep the hard limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, takewhile
from typing import Final

from matchmaker.pairing import pair
from matchmaker.ticket import Ticket, possible

Pairs = list[tuple[Ticket, Ticket]]
Rule = Callable[[list[Ticket], int], Pairs]


def ours(waiting: list[Ticket], now: int) -> Pairs:
    """What the service does."""
    return [(pairing.first, pairing.second) for pairing in pair(waiting, now)]


def first_come(waiting: list[Ticket], now: int) -> Pairs:
    """First come, first served: the longest waiting gets the next longest waiting whom the limits of both allow."""
    line = sorted(waiting, key=lambda ticket: ticket.since)
    pairs: Pairs = []
    kept: list[Ticket] = []
    for ticket in line:
        partner = next((other for other in kept if possible(ticket, other)), None)
        if partner is None:
            kept.append(ticket)
        else:
            kept.remove(partner)
            pairs.append((partner, ticket))
    return pairs


def nearest(waiting: list[Ticket], now: int) -> Pairs:
    """Nearest neighbour: the longest waiting first, each gets whoever is nearest in rating, however far that is."""
    line = sorted(waiting, key=lambda ticket: ticket.rating)
    before = list(range(-1, len(line) - 1))
    after = list(range(1, len(line) + 1))
    taken = [False] * len(line)

    def take(place: int) -> None:
        taken[place] = True
        if before[place] >= 0:
            after[before[place]] = after[place]
        if after[place] < len(line):
            before[after[place]] = before[place]

    def walk(place: int, steps: list[int]) -> Iterator[int]:
        places = (place := steps[place] for _ in count())
        return takewhile(lambda at: 0 <= at < len(line), places)

    pairs: Pairs = []
    for place in sorted(range(len(line)), key=lambda place: line[place].since):
        if taken[place]:
            continue
        found = [
            next((other for other in walk(place, steps) if possible(line[place], line[other])), None)
            for steps in (before, after)
        ]
        near = [other for other in found if other is not None]
        if near:
            other = min(near, key=lambda other: abs(line[other].rating - line[place].rating))
            pairs.append((line[place], line[other]))
            take(place)
            take(other)
    return pairs


RULES: Final[dict[str, Rule]] = {
    "ours": ours,
    "first come, first served": first_come,
    "nearest neighbour": nearest,
}
