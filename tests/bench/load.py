"""Players of many matches, match after match, each on one Play stream: the load generator of the whole path.

A move is a command that the clock judges: bid, accept, decline, place, draw, pass. It counts when the other player has
it. Start and Continue are pressed as soon as they are asked for and are not counted, nor is making a match; the service
does both all the same. In an open loop a move is due at a time that was fixed ahead. It is given to the turn that has
been open longest, or waits for the next one that opens; how long it took is counted from when it was due.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.bench.generator import Figures, Tally, serve
from tests.bench.http2 import Call, Connection, connect
from tests.bench.stack import answer

CREATE: Final = "/spectacularbid.match.v1.MatchService/CreateMatch"
PLAY: Final = "/spectacularbid.match.v1.MatchService/Play"
PRESSES: Final = ("start", "continue_round")
"""Commands that no clock judges."""
CREATING_MAX: Final = 4
"""Matches that are being made at once: few, since a process without an idle instant credits all matches it has, and too
much credit makes them void."""
BACK_SECONDS: Final = 0.5
"""After which a player comes back whose stream ended before the match."""
STRAGGLING_SECONDS: Final = 5.0
"""How long moves that were due in time may take to be counted as what they took; then as what they have taken."""
LIMIT_MS: Final = 3_600_000
"""Nobody loses on time here, or for not pressing Start: a turn waits for its due time."""
DELAY_MS: Final = 10_000
SEED: Final = 20260704


@dataclass(slots=True)
class Mean:
    """Messages of a kind."""

    messages: int = 0
    size: int = 0
    """Bytes of all of them."""

    def add(self, message: bytes) -> None:
        """One more."""
        self.messages += 1
        self.size += len(message)

    def figures(self, moves: int) -> Figures:
        """Mean size, and how many there were for each move."""
        return {"bytes": self.size / max(self.messages, 1), "a_move": self.messages / max(moves, 1)}


@dataclass(slots=True, eq=False, repr=False)
class Player:
    """One seat of one match at a time."""

    match: Match
    player_id: str
    metadata: tuple[tuple[str, str], ...]
    connection: Connection
    other: Player = field(init=False)
    call: Call | None = None
    seen: int = 0
    """The last event."""
    answered: int = 0
    """The last question."""
    over: bool = False
    """Whether the end of the match was told."""
    awaited: deque[tuple[int, float]] = field(default_factory=deque)
    """Moves of the other player under way: the event they come after, and when they were due."""

    def join(self, match_id: str) -> None:
        """Takes the seat in a match."""
        self.seen = self.answered = 0
        self.over = False
        self.match.load.lost += len(self.awaited)
        self.awaited.clear()
        self.call = self.connection.call(PLAY, self.metadata, self._heard, self._ended)
        join = pb.PlayRequest(join=pb.WatchRequest(match_id=match_id))
        self.call.send(join.SerializeToString())

    def submit(self, decision_id: int, command: pb.Command) -> None:
        """Answers a question."""
        load = self.match.load
        load.requests += 1
        submit = pb.SubmitRequest(
            request_id=f"{load.requests:032x}", decision_id=decision_id, command=command
        )
        message = pb.PlayRequest(submit=submit).SerializeToString()
        load.said.add(message)
        if self.call is not None:
            self.call.send(message)

    def move(self, decision_id: int, command: pb.Command, due: float) -> None:
        """Answers a question of the clock."""
        self.match.mover = self
        self.other.awaited.append((self.seen, due))
        self.submit(decision_id, command)

    def _heard(self, message: bytes) -> None:
        response = pb.PlayResponse.FromString(message)
        load, news, answers = self.match.load, response.news, response.answers
        for done in answers:
            if done.HasField("refused"):
                load.refused.append(f"{done.refused.reason_word} {done.refused.message}")
        prompt = news.prompt
        if news.events:
            last = news.events[-1]
            self._follow(last.sequence)
            if last.HasField("match_ended"):
                self.over = True
                if self is self.match.seats[0]:
                    load.causes[table_pb2.Cause.Name(last.match_ended.outcome.cause)] += 1
        elif news.HasField("snapshot"):
            self._follow(news.snapshot.sequence)
            prompt = news.snapshot.table.prompt
        elif not answers:
            return
        (load.to_mover if answers or self.match.mover is self else load.to_other).add(message)
        if prompt.decision_id > self.answered and (command := answer(prompt)) is not None:
            self.answered = prompt.decision_id
            if command.WhichOneof("action") in PRESSES:
                self.submit(prompt.decision_id, command)
            else:
                load.turn(self, prompt.decision_id, command)

    def _follow(self, sequence: int) -> None:
        self.seen = sequence
        while self.awaited and self.awaited[0][0] < sequence:
            self.match.load.delivered(self.awaited.popleft()[1])

    def _ended(self) -> None:
        self.match.load.alive(self.connection)
        if not self.over:
            # As a client does: it comes back.
            load = self.match.load
            load.broken.append(self.call.status if self.call is not None else "")
            asyncio.get_running_loop().call_later(BACK_SECONDS, self.join, self.match.match_id)
            return
        self.call = None
        if self.other.call is None:
            self.match.over()


@dataclass(slots=True, eq=False, repr=False)
class Turn:
    """A question of the clock that nobody has answered."""

    player: Player
    call: Call | None
    """The stream it was asked on."""
    decision_id: int
    command: pb.Command
    """What is to be answered."""

    @property
    def open(self) -> bool:
        """Whether its match goes on."""
        return self.call is self.player.call

    def move(self, due: float) -> None:
        """Answers it."""
        self.player.move(self.decision_id, self.command, due)


@dataclass(slots=True, eq=False, repr=False)
class Match:
    """Two players who play on, match after match."""

    load: Matches
    seats: tuple[Player, Player] = field(init=False)
    mover: Player | None = None
    """Who moved last."""
    match_id: str = ""
    asking: Call | None = None
    """The call that is to make the next one."""

    def create(self) -> None:
        """Asks for a new match."""
        self.load.requests += 1
        self._ask(f"{self.load.requests:032x}")

    def _ask(self, request_id: str) -> None:
        north, south = self.seats
        wanted = pb.CreateMatchRequest(
            request_id=request_id,
            player_id=south.player_id,
            time_control=pb.TimeControl(bank_ms=LIMIT_MS, delay_ms=DELAY_MS),
            start_limit_ms=LIMIT_MS,
            continue_limit_ms=LIMIT_MS,
        )
        again = partial(self._answered, request_id)
        self.asking = north.connection.call(CREATE, north.metadata, self._created, again)
        self.asking.send(wanted.SerializeToString(), last=True)

    def _created(self, message: bytes) -> None:
        self.asking = None
        self.match_id = pb.CreateMatchResponse.FromString(message).match_id
        for player in self.seats:
            player.join(self.match_id)
        self.load.created += 1
        self.load.create_next()

    def _answered(self, request_id: str) -> None:
        self.load.alive(self.seats[0].connection)
        if self.asking is not None:
            # The same again: at most one match comes of it.
            self.load.broken.append(self.asking.status)
            asyncio.get_running_loop().call_later(BACK_SECONDS, self._ask, request_id)

    def over(self) -> None:
        """Both streams have ended."""
        self.mover = None
        self.load.wanting.append(self)
        self.load.create_next()


class Matches:
    """All of them."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec
        self._players: list[Player] = []
        self._counter = Tally()
        self._counting = False
        self._moves = 0
        self._pace: float | None = 0.0
        self._turns: deque[Turn] = deque()
        self._dues: deque[float] = deque()
        """Due, and no turn is open."""
        self._timer: asyncio.TimerHandle | None = None
        self._dice = random.Random(SEED)
        self._late: list[float] = []
        self._waited = 0
        self.wanting: deque[Match] = deque()
        self.created = 0
        self.lost = 0
        """Moves under way when their match ended otherwise."""
        self.causes: Counter[str] = Counter()
        """Why matches ended."""
        self.requests = 0
        self.refused: list[str] = []
        self.broken: list[str] = []
        """Streams that ended before their match, and matches not made at once: what the service said."""
        self.said, self.to_mover, self.to_other = Mean(), Mean(), Mean()

    # Matches.

    async def set_up(self) -> None:
        """Connects, makes every match, and has everybody seated."""
        players, addresses = self._spec["players"], self._spec["addresses"]
        count = connections_of(self._spec)
        places = [[await connect(address) for _ in range(count)] for address in addresses]
        for number in range(len(players) // 2):
            match = Match(self)
            place = places[number % len(places)]
            north, south = (
                Player(match, player_id, (("authorization", f"Bearer {token}"),), place[at % count])
                for at, (player_id, token) in enumerate(
                    players[2 * number : 2 * number + 2], number // len(places)
                )
            )
            north.other, south.other = south, north
            match.seats = north, south
            self.wanting.append(match)
            self._players += match.seats
        for _ in range(CREATING_MAX):
            self.create_next()
        # In their first turn, all of them.
        while len(self._turns) < len(self._players) // 2:  # noqa: ASYNC110 - a bench may look
            await asyncio.sleep(0.05)

    def create_next(self) -> None:
        """Makes the next match that is wanted."""
        if self.wanting:
            self.wanting.popleft().create()

    def alive(self, connection: Connection) -> None:
        """Raises where a connection is of no more use: a run that lost one measures something else."""
        if connection.error is not None:
            raise connection.error

    # Moves.

    def go(self, pace: float | None) -> None:
        """A new pace; what was due and has no turn is forgotten."""
        self._pace = pace
        self._dues.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if pace is None:
            now = time.monotonic()
            while (turn := self._open_longest()) is not None:
                turn.move(now)
        elif pace > 0:
            self._due(time.monotonic())

    def turn(self, player: Player, decision_id: int, command: pb.Command) -> None:
        """Somebody is to move."""
        turn = Turn(player, player.call, decision_id, command)
        if self._pace is None:
            turn.move(time.monotonic())
        elif self._dues:
            turn.move(self._dues.popleft())
        else:
            self._turns.append(turn)

    def _open_longest(self) -> Turn | None:
        """The next that is to be moved, without those of matches that have ended meanwhile."""
        while self._turns:
            if (turn := self._turns.popleft()).open:
                return turn
        return None

    def _due(self, at: float) -> None:
        """A move was due `at`, perhaps more since: one for each, and a timer for the next."""
        assert self._pace is not None
        now = time.monotonic()
        while at <= now:
            turn = self._open_longest()
            if self._counting:
                self._late.append(now - at)
                self._waited += turn is None
            if turn is None:
                self._dues.append(at)
            else:
                turn.move(at)
            at += self._dice.expovariate(self._pace)
        self._timer = asyncio.get_running_loop().call_at(at, self._due, at)

    def delivered(self, due: float) -> None:
        """A move that was due then has arrived."""
        now = time.monotonic()
        if self._counting:
            self._moves += 1
        if self._counting if self._pace is None else self._counted(due):
            self._counter.latencies.append(now - due)

    def _counted(self, due: float) -> bool:
        return self._counter.began <= due and (
            self._counting or due < self._counter.began + self._counter.seconds
        )

    # Figures.

    def count(self) -> None:
        """From now on."""
        self.created = self.lost = self._moves = self._waited = 0
        self._late.clear()
        self.causes.clear()
        self.refused.clear()
        self.broken.clear()
        self.said, self.to_mover, self.to_other = Mean(), Mean(), Mean()
        self._counting = True
        self._counter.begin()

    def stop(self) -> None:
        """Up to now."""
        self._counter.end()
        self._counting = False

    async def counted(self) -> Figures:
        """In an open loop also what was due in time and arrives later."""
        moves = self._moves
        sizes = {
            name: mean.figures(moves)
            for name, mean in (("in", self.said), ("mover", self.to_mover), ("other", self.to_other))
        }
        unfinished = 0
        if self._pace is not None:
            give_up = time.monotonic() + STRAGGLING_SECONDS
            while (left := self._left()) and time.monotonic() < give_up:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            now, unfinished = time.monotonic(), len(left) + self.lost
            self._counter.latencies += [now - due for due in left]
        return {
            **self._counter.figures(moves),
            "created": self.created,
            "causes": self.causes,
            "refused": len(self.refused),
            "broken": self.broken[:9],
            "refusal": self.refused[0] if self.refused else "",
            "waited": self._waited / max(len(self._late), 1),
            "lag_p99": sorted(self._late)[len(self._late) * 99 // 100] * 1000 if self._late else 0.0,
            "unfinished": unfinished,
            "sizes": sizes,
        }

    def _left(self) -> list[float]:
        """When moves were due that are not there yet and should have been counted."""
        under_way = (due for player in self._players for _, due in player.awaited)
        return [due for due in (*self._dues, *under_way) if self._counted(due)]


def connections_of(spec: dict[str, Any]) -> int:
    """How many there are to each game process."""
    players, streams, places = len(spec["players"]), int(spec["streams"]), len(spec["addresses"])
    return -(-players // (streams * places))


if __name__ == "__main__":
    # The specification: addresses of the game processes, streams (on a connection), players (id and token; each two
    # play each other).
    wanted = json.loads(sys.stdin.readline())
    serve(Matches(wanted), connections_of(wanted) * len(wanted["addresses"]))
