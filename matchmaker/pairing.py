"""Who plays whom: a pure function of tickets and time.

Nearest ratings first; where gaps differ by less than a band, the longest waiting first. Every ticket is in at most one
pair, nobody is paired with herself, and no two tickets are left over that would accept each other.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from matchmaker.ticket import Ticket, acceptable, window

BAND: Final = 25
"""Gaps in the same band of rating points count as equal: less than this says nothing about who wins."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two tickets that become a match; `first` has waited at least as long as `second`."""

    first: Ticket
    second: Ticket

    @property
    def gap(self) -> float:
        """The distance of the two, in rating points."""
        return abs(self.first.rating - self.second.rating)


def pair(tickets: Iterable[Ticket], now: int) -> list[Pairing]:
    """The pairs to be made now, in the order in which they were found.

    Two passes over the tickets in order of rating. The first joins neighbours, nearest first, and makes every pair
    that is close. What it leaves over is sparse: neighbours are further apart than a window. The second pass lets each
    of those, the longest waiting first, look past neighbours whose window is still narrow. Time grows as n log n.
    """
    line = _Line(sorted(tickets, key=lambda ticket: (ticket.rating, ticket.since, ticket.player_id)))
    return [*_neighbours(line, now), *_reach(line, now)]


class _Line:
    """Tickets in order of rating, of which some have been taken out."""

    def __init__(self, tickets: list[Ticket]) -> None:
        self.tickets = tickets
        self.before = list(range(-1, len(tickets) - 1))
        self.after = list(range(1, len(tickets) + 1))
        self.present = [True] * len(tickets)

    def remove(self, place: int) -> None:
        before, after = self.before[place], self.after[place]
        self.present[place] = False
        if before >= 0:
            self.after[before] = after
        if after < len(self.tickets):
            self.before[after] = before

    def take(self, one: int, other: int) -> Pairing:
        self.remove(one)
        self.remove(other)
        first, second = sorted((self.tickets[one], self.tickets[other]), key=_seniority)
        return Pairing(first, second)

    def below(self, place: int) -> Iterator[int]:
        place = self.before[place]
        while place >= 0:
            yield place
            place = self.before[place]

    def above(self, place: int) -> Iterator[int]:
        place = self.after[place]
        while place < len(self.tickets):
            yield place
            place = self.after[place]


def _seniority(ticket: Ticket) -> tuple[int, str]:
    return ticket.since, ticket.player_id


def _neighbours(line: _Line, now: int) -> Iterator[Pairing]:
    heap: list[tuple[int, int, int, int, int]] = []

    def offer(one: int, other: int) -> None:
        low, high = line.tickets[one], line.tickets[other]
        if acceptable(low, high, now):
            band = int(high.rating - low.rating) // BAND
            senior, junior = sorted((low.since, high.since))
            heapq.heappush(heap, (band, senior, junior, one, other))

    for place in range(len(line.tickets) - 1):
        offer(place, place + 1)
    while heap:
        *_, one, other = heapq.heappop(heap)
        if not (line.present[one] and line.present[other]):
            continue
        before, after = line.before[one], line.after[other]
        yield line.take(one, other)
        if before >= 0 and after < len(line.tickets):
            offer(before, after)


def _reach(line: _Line, now: int) -> Iterator[Pairing]:
    left = [place for place in range(len(line.tickets)) if line.present[place]]
    for place in sorted(left, key=lambda place: _seniority(line.tickets[place])):
        if line.present[place]:
            partner = _nearest(line, place, now)
            if partner is not None:
                yield line.take(place, partner)


def _nearest(line: _Line, place: int, now: int) -> int | None:
    """The nearest ticket that `place` and it accept, if there is one; of two that are equally near the senior."""
    ticket = line.tickets[place]
    reach = window(ticket.waited(now))
    found: list[tuple[float, int, str, int]] = []
    for direction in (line.below(place), line.above(place)):
        for other in direction:
            candidate = line.tickets[other]
            gap = abs(candidate.rating - ticket.rating)
            if gap > reach:
                break
            if acceptable(ticket, candidate, now):
                found.append((gap, *_seniority(candidate), other))
                break
    return min(found)[-1] if found else None
