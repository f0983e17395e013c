"""Everybody who waits at one instant, in order of rating: what each pair of them is worth, many at a time.

The same arithmetic as `acceptable` and `worth` of single tickets, on columns of numbers. Tests hold the two together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from matchmaker.ticket import MIXED_POINTS, POINT, REPEAT_POINTS, WINDOW_START, Ticket, window

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]
Named = defaultdict[int, set[int]]
"""The places of those who are named by, or name, the one at a place."""


class Crowd:
    """Tickets with the columns that pairing asks about. A ticket's place is its index in order of rating."""

    def __init__(self, tickets: Iterable[Ticket], now: int) -> None:
        self.tickets = sorted(tickets, key=lambda ticket: (ticket.rating, ticket.since, ticket.player_id))
        waited = [ticket.waited(now) for ticket in self.tickets]
        self._rating = np.array([ticket.rating for ticket in self.tickets])
        self._window = np.array([window(time) for time in waited], dtype=np.float64)
        # Whole nanoseconds, which floats keep exactly for more than a hundred days.
        self._weight = np.array([WINDOW_START * POINT + time for time in waited], dtype=np.float64)
        self._lowest = np.array([-np.inf if t.lowest is None else t.lowest for t in self.tickets])
        self._highest = np.array([np.inf if t.highest is None else t.highest for t in self.tickets])
        self._provisional = np.array([ticket.provisional for ticket in self.tickets], dtype=np.bool_)
        self._never: Named = defaultdict(set)
        self._again: Named = defaultdict(set)
        self._note_names()

    def __len__(self) -> int:
        return len(self.tickets)

    def worths(self, rows: Places, columns: Places) -> Numbers:
        """What each ticket of `rows` with each of `columns` is worth; 0 where a pair is not acceptable."""
        one, other = rows[:, None], columns[None, :]
        apart = np.abs(self._rating[one] - self._rating[other])
        apart += MIXED_POINTS * (self._provisional[one] != self._provisional[other])
        for row, column in self._named(self._again, rows, columns):
            apart[row, column] += REPEAT_POINTS
        fits = (
            (apart <= self._window[one])
            & (apart <= self._window[other])
            & (self._lowest[one] <= self._rating[other])
            & (self._rating[other] <= self._highest[one])
            & (self._lowest[other] <= self._rating[one])
            & (self._rating[one] <= self._highest[other])
            & (one != other)
        )
        for row, column in self._named(self._never, rows, columns):
            fits[row, column] = False
        return np.where(fits, self._weight[one] + self._weight[other] - np.rint(apart * POINT), 0.0)

    def stretches(self, size: int) -> Iterator[Places]:
        """The crowd cut into parts of at most `size` neighbours, provisional and established players apart."""
        for provisional in (False, True):
            places = np.flatnonzero(self._provisional == provisional)
            for start in range(0, len(places), size):
                yield places[start : start + size]

    def reach(self, place: int) -> Places:
        """The places that can be acceptable at all: inside this ticket's window and its range of ratings."""
        rating, wide = self._rating[place], self._window[place]
        # A point more than the window, so that rounding leaves nobody out; `worths` has the last word.
        low = max(rating - wide - 1, self._lowest[place])
        high = min(rating + wide + 1, self._highest[place])
        start = int(np.searchsorted(self._rating, low, "left"))
        return np.arange(start, int(np.searchsorted(self._rating, high, "right")))

    def seniority(self, place: int) -> tuple[int, str, int]:
        """Sorts the longest waiting first."""
        ticket = self.tickets[place]
        return ticket.since, ticket.player_id, place

    def _named(self, kind: Named, rows: Places, columns: Places) -> Iterator[tuple[int, int]]:
        """Where in a table of `rows` and `columns` those are who name each other."""
        if not kind:
            return
        column_of: dict[int, int] | None = None
        for row, place in enumerate(rows.tolist()):
            if place in kind:
                if column_of is None:
                    column_of = {other: column for column, other in enumerate(columns.tolist())}
                for other in kind[place]:
                    if other in column_of:
                        yield row, column_of[other]

    def _note_names(self) -> None:
        places: defaultdict[str, list[int]] = defaultdict(list)
        for place, ticket in enumerate(self.tickets):
            places[ticket.player_id].append(place)
        for place, ticket in enumerate(self.tickets):
            for kind, names in ((self._never, ticket.blocked), (self._again, ticket.recent)):
                for name in names:
                    for other in places.get(name, ()):
                        kind[place].add(other)
                        kind[other].add(place)
        for listed in places.values():
            if len(listed) > 1:
                # A player who is listed twice by mistake is still one player.
                for place in listed:
                    self._never[place].update(listed)
