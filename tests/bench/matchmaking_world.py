"""A population that seeks, plays and seeks again, in virtual time: one seed, one course of events a rule."""

from __future__ import annotations

import heapq
import time
from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Final

from matchmaker.ticket import SECOND, Ticket
from tests.bench.matchmaking_rules import Rule

RECENT_OPPONENTS: Final = 3
RECENT: Final = 3600 * SECOND
"""Who was met within the last hour, and is among the last three, is a recent opponent, as in the service."""
NEVER: Final = 1 << 62


@dataclass(slots=True)
class Player:
    """Somebody with a rating, perhaps with wishes, who remembers the last opponents."""

    name: str
    rating: float
    sigma: float
    lowest: float | None = None
    highest: float | None = None
    blocked: frozenset[str] = frozenset()
    met: deque[tuple[str, int]] = field(default_factory=lambda: deque(maxlen=RECENT_OPPONENTS))

    def ticket(self, now: int, since: int) -> Ticket:
        """A seek that was opened at `since`; what is recent is looked up at `now`, once, as the service does."""
        recent = frozenset(name for name, at in self.met if now - at <= RECENT)
        return Ticket(
            self.name, self.rating, since, self.sigma, recent, self.lowest, self.highest, self.blocked
        )


def population(size: int, random: Random) -> list[Player]:
    """Ratings N(1500, 300); of a hundred 15 are provisional, 10 accept 100 or 200 points only, 5 block five others."""
    players = []
    for number in range(size):
        provisional = random.random() < 0.15
        rating = random.gauss(1500, 150 if provisional else 300)
        player = Player(
            str(number), rating, random.uniform(140, 350) if provisional else random.uniform(40, 90)
        )
        if random.random() < 0.1:
            reach = random.choice([100, 200])
            player.lowest, player.highest = rating - reach, rating + reach
        if random.random() < 0.05:
            player.blocked = frozenset(str(random.randrange(size)) for _ in range(5))
        players.append(player)
    return players


@dataclass(frozen=True, slots=True)
class Scenario:
    """How many there are and how they come."""

    players: int
    backlog: int
    """Players who wait at the beginning; they came within the last ten seconds."""
    per_second: float
    """Arrivals of players who were idle; 0 in a closed circle, where everybody seeks again after each match."""
    break_seconds: float
    """Mean pause after a match in a closed circle."""
    match_seconds: tuple[float, float]
    seconds: int
    period_seconds: float = 0.2


@dataclass(slots=True)
class Report:
    """What became of them."""

    waited: list[float] = field(default_factory=list)
    """Seconds, of everybody who was paired."""
    gaps: list[float] = field(default_factory=list)
    repeats: int = 0
    mixed: int = 0
    left: int = 0
    oldest: float = 0.0
    """Seconds that the longest waiting of those left over has waited."""
    passes: list[float] = field(default_factory=list)
    """Processor seconds of each pass over at least two tickets."""

    @property
    def matches(self) -> int:
        """Matches made."""
        return len(self.gaps)


def live(scenario: Scenario, rule: Rule, seed: int) -> Report:
    """One course of events under one rule."""
    return _World(scenario, rule, seed).run()


class _World:
    def __init__(self, scenario: Scenario, rule: Rule, seed: int) -> None:
        self.scenario = scenario
        self.rule = rule
        self.random = Random(seed)
        players = population(scenario.players, self.random)
        self.players = {player.name: player for player in players}
        self.idle = [player.name for player in players]
        self.random.shuffle(self.idle)
        self.waiting: dict[str, Ticket] = {}
        self.coming: list[tuple[int, str]] = []
        """When somebody's match and the break after it are over."""
        self.now = 1_000 * SECOND
        self.report = Report()

    def run(self) -> Report:
        scenario = self.scenario
        for _ in range(scenario.backlog):
            self._seek(self.idle.pop(), self.now - int(self.random.uniform(0, 10) * SECOND))
        if not scenario.per_second:
            for name in self.idle:
                self._come(name, 0.0)
            self.idle = []
        due = self.now + self._gap()
        end = self.now + scenario.seconds * SECOND
        while self.now < end:
            self.now += int(scenario.period_seconds * SECOND)
            while due <= self.now and self.idle:
                self._swap_out()
                self._seek(self.idle.pop(), due)
                due += self._gap()
            self._return_players()
            self._wave()
        self.report.left = len(self.waiting)
        since = min((ticket.since for ticket in self.waiting.values()), default=self.now)
        self.report.oldest = (self.now - since) / SECOND
        return self.report

    def _gap(self) -> int:
        rate = self.scenario.per_second
        return int(self.random.expovariate(rate) * SECOND) if rate else NEVER

    def _swap_out(self) -> None:
        place = self.random.randrange(len(self.idle))
        self.idle[place], self.idle[-1] = self.idle[-1], self.idle[place]

    def _seek(self, name: str, since: int) -> None:
        self.waiting[name] = self.players[name].ticket(self.now, since)

    def _come(self, name: str, after_seconds: float) -> None:
        pause = (
            self.random.expovariate(1 / self.scenario.break_seconds) if self.scenario.break_seconds else 0.0
        )
        heapq.heappush(self.coming, (self.now + int((after_seconds + pause) * SECOND), name))

    def _return_players(self) -> None:
        while self.coming and self.coming[0][0] <= self.now:
            due, name = heapq.heappop(self.coming)
            if self.scenario.per_second:
                self.idle.append(name)
            else:
                self._seek(name, due)

    def _wave(self) -> None:
        if len(self.waiting) < 2:
            return
        began = time.process_time()
        pairs = self.rule(list(self.waiting.values()), self.now)
        self.report.passes.append(time.process_time() - began)
        for one, other in pairs:
            for ticket, opponent in ((one, other), (other, one)):
                del self.waiting[ticket.player_id]
                self.report.waited.append(ticket.waited(self.now) / SECOND)
                self.players[ticket.player_id].met.append((opponent.player_id, self.now))
            self.report.gaps.append(abs(one.rating - other.rating))
            self.report.repeats += one.player_id in other.recent or other.player_id in one.recent
            self.report.mixed += one.provisional is not other.provisional
            length = self.random.uniform(*self.scenario.match_seconds)
            self._come(one.player_id, length)
            self._come(other.player_id, length)
