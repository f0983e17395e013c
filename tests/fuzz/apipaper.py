"""A match on paper: what a service that does everything right would store and say, without any service.

It is what the model is tried on: as it is, nothing may be found; with one thing changed, that must be.
"""

from __future__ import annotations

import dataclasses
import hashlib
import random
from typing import Final

import grpc

from client.errors import call_error
from client.wire import command_to_pb
from engine.clock import SECOND
from engine.command import Continue, Resign, Reveal, Start
from engine.event import Event
from engine.match import Match, Phase, draw_round, evolve, legal, replay, timed
from engine.refusal import Refusal
from engine.seats import NORTH, SEATS, SOUTH, Seat
from engine.shuffle import NOTHING, offered, seed_commitment
from engine.view import choices_of, redact, view
from services.wire.events import event_to_pb
from services.wire.tables import (
    choices_to_bytes,
    clock_to_bytes,
    contributions_to_pb,
    question_to_bytes,
    table_to_pb,
)
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.engine import randomplay
from tests.fuzz.apicalls import RULES, STATUS
from tests.fuzz.apicourse import Course, Entry, command_of, payload_of, rule, seat_of
from tests.fuzz.apideals import Deals
from tests.fuzz.apiledger import Exchange, Ledger
from tests.fuzz.apirequests import add, nonsense
from tests.fuzz.apiview import Listened

WATCHER: Final = "watcher"
MATCH_ID: Final = "00000000-0000-4000-8000-000000000001"


class Paper:
    """One match of `north` and `south`, which a watcher and both seats hear."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.ledger = Ledger(MATCH_ID, "north", "south")
        self.start = self.state = Match.start(delay_ns=10 * SECOND)
        self.entries: list[Entry] = []
        self.events: list[Event] = []
        self._answers: dict[tuple[Seat, str], tuple[bytes, int, int]] = {}
        self._secret = self.rng.random()
        self._offered = NOTHING
        self._tick = 0
        self._ids = 0
        self._streams = [self._listen(player_id) for player_id in ("north", "south", WATCHER)]

    def now(self) -> int:
        """The next moment."""
        self._tick += 1
        return self._tick

    def course(self) -> Course:
        """The course that the entries make."""
        return Course(self.start, self.ledger.players, self.entries, self.ledger.sent, Deals(MATCH_ID, ()))

    # What players do.

    def play(self, commands: int) -> Paper:
        """So many commands that are legal, with others between them, and then the end."""
        for _ in range(commands):
            if self.state.outcome is not None:
                break
            command = randomplay.choose(self.state, legal(self.state), self.rng)
            request = self.request(command_to_pb(command), self.state.decision_id)
            add(self.rng, request.command)
            self.submit(command.seat.value, request)
            self.submit(command.seat.value, request)
            self.submit(self.rng.choice(("north", "south", WATCHER)), self.request(nonsense(self.rng), 1))
            stale = self.request(command_to_pb(command), max(1, self.state.decision_id - 1))
            self.submit(command.seat.value, stale)
            self.look(self.rng.choice(("north", "south", WATCHER)))
        self.submit("north", self.request(pb.Command(resign=pb.Resign()), 0))
        return self

    def request(self, command: pb.Command, decision_id: int) -> pb.SubmitRequest:
        """A request under a new id."""
        self._ids += 1
        return pb.SubmitRequest(
            match_id=MATCH_ID, request_id=f"id-{self._ids}", decision_id=decision_id, command=command
        )

    def submit(self, player_id: str, request: pb.SubmitRequest) -> Exchange:
        """A command and its answer."""
        exchange = self.ledger.send(player_id, request, self.now())
        said = self._answer(player_id, request)
        if isinstance(said, str):
            error = call_error(
                STATUS.get(said, grpc.StatusCode.UNKNOWN), said, said, metadata={"rule": RULES.get(said, "")}
            )
            self.ledger.answer(exchange, error, self.now())
        else:
            self.ledger.answer(
                exchange, pb.Applied(first_sequence=said[0], last_sequence=said[1]), self.now()
            )
        return exchange

    def _answer(self, player_id: str, request: pb.SubmitRequest) -> str | tuple[int, int]:
        seat = seat_of(request, [seat for seat in SEATS if seat.value == player_id])
        if seat is None:
            return "NOT_SEATED"
        command = command_of(request, seat)
        if command is None:
            return "MALFORMED"
        known = self._answers.get((seat, request.request_id))
        if known is not None:
            return known[1:] if known[0] == payload_of(request, seat) else "REQUEST_ID_REUSED"
        ruling = rule(self.state, command, request.decision_id)
        if isinstance(ruling, Refusal):
            return ruling.value
        events = ruling
        if not isinstance(command, Start | Continue | Reveal | Resign):
            assert self.state.budget_ns is not None
            waited = min(self.rng.randrange(12 * SECOND), self.state.budget_ns - 1)
            events = (timed(self.state, command, waited), *ruling)
        after = replay(self.state, events)
        if after.phase is Phase.AWAITING_DEAL:
            dealt = draw_round(
                after,
                MATCH_ID,
                self._seed(after.round_no + 1),
                offered(self._offered, events),
                self._commitment(after.round_no + 2),
            )
            assert not isinstance(dealt, Refusal)
            events += dealt
        first = len(self.events) + 1
        self._store(Entry(first, first + len(events) - 1, seat, request.request_id, events))
        self._answers[seat, request.request_id] = (payload_of(request, seat), first, len(self.events))
        return first, len(self.events)

    def _seed(self, round_no: int) -> bytes:
        return hashlib.sha256(f"{self._secret} {round_no}".encode()).digest()

    def _commitment(self, round_no: int) -> str:
        return seed_commitment(MATCH_ID, round_no, self._seed(round_no))

    def _store(self, entry: Entry) -> None:
        self.entries.append(entry)
        first = len(self.events)
        states = [self.state]
        for event in entry.events:
            states.append(evolve(states[-1], event))
        self.events += entry.events
        self._offered = offered(self._offered, entry.events)
        self.state = states[-1]
        for listened in self._streams:
            seat = _seat(listened.player_id)
            news = pb.WatchResponse(
                events=[
                    event_to_pb(first + number, redact(event, seat), states[number])
                    for number, event in enumerate(entry.events, 1)
                ]
            )
            if self.state.outcome is None:
                news.prompt.CopyFrom(self._prompt(seat))
            self.ledger.hear(listened, news, self.now())

    def _prompt(self, seat: Seat | None) -> table_pb2.Prompt:
        state = self.state
        may = choices_to_bytes(choices_of(state, seat), state.phase, seated=seat is not None)
        question = question_to_bytes(state, len(self.events))
        return table_pb2.Prompt.FromString(question + may + clock_to_bytes(state, None))

    def _snapshot(self, player_id: str) -> pb.Snapshot:
        seen = view(self.state, _seat(player_id))
        table = table_to_pb(seen)
        table.prompt.CopyFrom(self._prompt(seen.seat))
        table.match_id = MATCH_ID
        if self.state.outcome is None:
            table.next_commitment = self._commitment(self.state.round_no + 1)
        if self.state.pressed:
            table.contributions.CopyFrom(contributions_to_pb(self._offered))
        return pb.Snapshot(sequence=len(self.events), table=table)

    def _listen(self, player_id: str) -> Listened:
        listened = Listened(player_id, 0, self.ledger.known)
        self.ledger.listened.append(listened)
        self.ledger.hear(listened, pb.WatchResponse(snapshot=self._snapshot(player_id)), self.now())
        return listened

    def look(self, player_id: str) -> Listened:
        """One look at the table."""
        return self._listen(player_id)

    # What can be looked for.

    def place(self, kind: type[Event]) -> tuple[int, int]:
        """Where an event of a kind stands: the number of its entry, and its place there."""
        return next(
            (number, place)
            for number, entry in enumerate(self.entries)
            for place, event in enumerate(entry.events)
            if isinstance(event, kind)
        )

    def replace(self, number: int, place: int, event: Event) -> None:
        """Another event in the stored log."""
        entry = self.entries[number]
        events = (*entry.events[:place], event, *entry.events[place + 1 :])
        self.entries[number] = dataclasses.replace(entry, events=events)

    def told(self, player_id: str, kind: str) -> pb.WatchResponse:
        """The first message of a player's stream with an event of a kind."""
        stream = next(each for each in self._streams if each.player_id == player_id)
        return next(
            message
            for _, message in stream.messages
            if any(event.WhichOneof("kind") == kind for event in message.events)
        )


def _seat(player_id: str) -> Seat | None:
    return {"north": NORTH, "south": SOUTH}.get(player_id)
