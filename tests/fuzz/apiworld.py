"""What all actors share: the stack, the matches there are, who is who, and what was found."""

from __future__ import annotations

import random
import secrets
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.message import DecodeError

from engine.deal import Deal
from engine.seats import NORTH, SOUTH
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.engine.randomplay import shuffled
from tests.fuzz.apicalls import METHODS, Caller, Heard, unfit
from tests.fuzz.apiledger import Exchange, Ledger, course_of, judged
from tests.fuzz.apirequests import Guise, Guises
from tests.seats import new_id, scripted
from tests.stack import Player, Stack

ENOUGH: Final = 10
"""After so many findings, or more, nothing new begins."""
FINDINGS_MAX: Final = 50
"""So many are told; by then enough is wrong."""
NO_MATCH: Final = frozenset(
    {"MALFORMED", "WRONG_ADDRESS", "MATCH_NOT_FOUND", "LIMIT_REACHED", "RESOURCE_EXHAUSTED"}
)
"""What a command may be told that names no match."""
TAIL: Final = 25
"""So many of the last calls about a match stand below a finding."""


@dataclass(slots=True)
class World:
    """Everything there is while the fuzzer runs."""

    made: Stack
    seed: int
    caller: Caller
    guises: Guises
    until: float
    """When nobody begins anything new any more, on the monotonic clock."""
    calls_max: int
    """After so many calls, too."""
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    """The matches that are not judged yet."""
    judged: int = 0
    commands: int = 0
    salts: list[bytes] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    """Players that the services know."""
    ever: set[str] = field(default_factory=set)
    """All matches that there were."""

    @classmethod
    def on(cls, made: Stack, seed: int, seconds: float, calls_max: int) -> World:
        """A world on a running stack, for so long and so many calls."""
        until = time.monotonic() + seconds
        return cls(made, seed, Caller(made.channel), Guises(made, made.folder), until, calls_max)

    @property
    def open(self) -> bool:
        """Whether there is time for more, and a reason."""
        in_time = time.monotonic() < self.until and self.caller.calls < self.calls_max
        return in_time and len(self.findings) < ENOUGH

    def find(self, what: str, tail: Sequence[str] = ()) -> None:
        """Something is wrong."""
        if len(self.findings) < FINDINGS_MAX:
            below = "".join(f"\n    {line}" for line in tail[-TAIL:])
            self.findings.append(f"seed {self.seed}: {what}{below}")

    @property
    def games(self) -> list[str]:
        """The game processes."""
        return [name for name in self.made.processes if name.startswith("game")]

    # Players.

    async def players(self, count: int) -> list[Player]:
        """New players that the services know."""
        made = await self.made.players(count)
        self.known.update(player.player_id for player in made)
        return made

    def token_of(self, player_id: str) -> Player:
        """Any player, with a token."""
        return Player(player_id, self.made.token(player_id))

    def ids(self) -> list[str]:
        """Ids that mean something: of players and of matches."""
        return [*sorted(self.known)[:20], *self.ledgers]

    # Calls.

    async def call(
        self, name: str, sent: bytes, guise: Guise | Player, *, home: str | None = None, most: int = 3
    ) -> Heard:
        """One call; whatever no answer may be is found here."""
        heard = await self.caller.once(METHODS[name], sent, guise.metadata, home=home, most=most)
        for fault in unfit(heard):
            who = guise.name if isinstance(guise, Guise) else guise.player_id
            self.find(f"{name} of {sent[:200]!r} by {who}: {fault}")
        return heard

    async def submit(
        self, ledger: Ledger, player: Player, request: pb.SubmitRequest, raw: bytes | None = None
    ) -> Exchange | None:
        """A command over Submit. None when its bytes are no request."""
        sent = request.SerializeToString() if raw is None else raw
        exchange: Exchange | None = None
        if raw is not None:
            request = pb.SubmitRequest()
            try:
                request.ParseFromString(raw)
            except DecodeError:
                heard = await self.call("Submit", sent, player, home=ledger.home)
                if heard.said not in ("MALFORMED", "RESOURCE_EXHAUSTED", "LIMIT_REACHED"):
                    self.find(f"Submit of bytes that are no request: {heard.said}")
                return None
        if request.match_id == ledger.match_id and len(sent) < 60_000:
            exchange = ledger.send(player.player_id, request, self.caller.tick())
            self.commands += 1
        heard = await self.call("Submit", sent, player, home=ledger.home)
        if not ledger.over and heard.said != "MALFORMED":
            ledger.raw += heard.raw
        if exchange is not None:
            answer = heard.error or heard.messages[0].applied  # type: ignore[attr-defined]
            ledger.answer(exchange, answer, heard.answered_at)
        elif request.match_id not in self.ever and heard.said not in NO_MATCH:
            self.find(f"Submit to no match {request.match_id!r}: {heard.said}")
        return exchange

    # Matches.

    async def create(
        self, rng: random.Random, north: Player, south: Player | None, **wanted: Any
    ) -> Ledger | None:
        """A created match with conditions of chance; `south` is None for one device."""
        deals: list[Deal] = [shuffled(rng) for _ in range(rng.choice((0, 1, 3)))]
        points = rng.choice((150, 150, 5 * rng.randint(1, 59)))
        request = pb.CreateMatchRequest(
            request_id=new_id(),
            seat=table_pb2.SEAT_NORTH,
            deals=scripted(*deals),
            balances=table_pb2.Balances(north=points, south=300 - points),
            jockey=rng.choice((table_pb2.SEAT_UNSPECIFIED, table_pb2.SEAT_NORTH, table_pb2.SEAT_SOUTH)),
            **{"start_limit_ms": 60_000, "continue_limit_ms": rng.choice((200, 60_000)), **wanted},
        )
        if rng.random() < 0.15:
            request.time_control.CopyFrom(pb.TimeControl(bank_ms=rng.choice((0, 300)), delay_ms=400))
        if south is None:
            request.same_device = True
        else:
            request.player_id = south.player_id
        sent = request.SerializeToString()
        home = rng.choice(self.games)
        heard = await self.call("CreateMatch", sent, north, home=home)
        if heard.error is not None:
            if heard.said not in ("TRY_AGAIN", "LIMIT_REACHED"):
                self.find(f"CreateMatch of two free players: {heard.error}")
            return None
        again = await self.call("CreateMatch", sent, north, home=home)
        if again.said not in ("TRY_AGAIN", "LIMIT_REACHED") and again.messages != heard.messages:
            self.find(f"the same CreateMatch again: {again.said} {again.messages}, not {heard.messages}")
        created = heard.messages[0]
        assert isinstance(created, pb.CreateMatchResponse)
        other = north if south is None else south
        return self._open(Ledger(created.match_id, north.player_id, other.player_id, deals, home=home))

    def claim(self, match_id: str, north: str, south: str, *, rated: bool, home: str) -> Ledger | None:
        """A match of matchmaking that is to be played; None when others do so already."""
        if match_id in self.ever:
            return None
        return self._open(Ledger(match_id, north, south, rated=rated, home=home))

    def _open(self, ledger: Ledger) -> Ledger:
        self.ever.add(ledger.match_id)
        self.ledgers[ledger.match_id] = ledger
        return ledger

    async def finish(self, ledger: Ledger) -> None:
        """Ends a match by its players' own commands, or waits for its limits."""
        players = [self.token_of(ledger.players[seat]) for seat in (NORTH, SOUTH)]
        for command in (pb.Command(start=pb.Start()), pb.Command(resign=pb.Resign())):
            for number, player in enumerate(players, 1):
                request = pb.SubmitRequest(
                    match_id=ledger.match_id,
                    request_id=f"finish-{secrets.token_hex(8)}",
                    decision_id=1,
                    command=command,
                    seat=table_pb2.Seat.ValueType(number)
                    if ledger.same_device
                    else table_pb2.SEAT_UNSPECIFIED,
                )
                await self.submit(ledger, player, request)

    async def judge(self, ledger: Ledger) -> None:
        """Holds a match that is over against its course, and forgets it."""
        self.ledgers.pop(ledger.match_id, None)
        course = await course_of(self.made, ledger)
        outcome = course.states[-1].outcome
        faults = judged(ledger, course)
        if outcome is None:
            faults.append("the match is not over")
        for fault in faults[:5]:
            self.find(f"match {ledger.match_id}: {fault}", ledger.calls)
        self.judged += 1
        self.salts += course.secret
        self.outcomes["none" if outcome is None else outcome.cause.value] += 1
