"""A match as its log tells it: the state, each audience's numbered events, and the answers already given.

Pure bookkeeping over the engine: the same log always gives the same story, in the process that wrote it and in any
that reads it later.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from engine.event import Continued, Event, RoundDealt, Started
from engine.eventjson import event_from_json
from engine.match import Match, evolve, legal
from engine.seats import SEATS, Seat
from engine.shuffle import NOTHING, offered
from engine.view import SeatEvent, View, choices_of, redact, redact_for_device, view
from services.game.answers import Answered, Answers, Named
from services.game.shuffle import Seeds
from services.storage.matches import LogRow, MatchRow, PlayerRow
from services.storage.script import first_state
from services.wire import parts, tables
from services.wire.events import event_to_bytes
from services.wire.tables import Left
from spectacularbid.match.v1 import table_pb2

HISTORY_MAX: Final = 1024
"""Events kept for resuming; who is further behind starts with a snapshot."""


class Audience(StrEnum):
    """Who is told."""

    NORTH = "north"
    SOUTH = "south"
    SPECTATOR = "spectator"
    DEVICE = "device"
    """The one connection that holds both seats of a shared device (rule 7.4)."""

    seat: Seat | None
    """The seat whose view it is; None for those that have none or both."""

    def __init__(self, value: str) -> None:
        self.seat = Seat(value) if value in SEATS else None


# A member's name is looked up through its class, which takes longer than what is asked for.
_DEVICE: Final = Audience.DEVICE
_SPECTATOR: Final = Audience.SPECTATOR
_AUDIENCES: Final = {audience.seat: audience for audience in Audience if audience.seat is not None}
_OF_DEALS: Final = frozenset({Started, Continued, RoundDealt})
"""What changes what the players have added to the next deal."""


class Story:
    """One match up to now."""

    def __init__(self, row: MatchRow, seeds: Seeds | None = None) -> None:
        self.row = row
        self._one_device = row.same_device
        self.seeds = seeds
        """What its deals are drawn from; None for whoever deals no more."""
        self.announced = None if seeds is None else seeds.commitment(1)
        """The commitment to the seed of the next round, as it was told; None when none was."""
        self.offered = NOTHING
        """What the players have added to the next deal."""
        self.state: Match = first_state(row)
        self.over = False
        """Whether the match has an outcome."""
        self.revision = 0
        self.sequence = 0
        self.credited_ns = 0
        """Time lost to faults of the service that was not charged to anybody so far."""
        self.phase_since = row.created_at
        """When the phase began, by the database's clock, as far as it was read back from the log."""
        self.answers = Answers()
        """Requests that had their effect, by `asked_as`."""
        self._public: list[bytes] = []
        """The events that are kept, as whoever has no seat is told: encoded once, for everybody who is told the same."""
        told = (Audience.DEVICE,) if row.same_device else (Audience.NORTH, Audience.SOUTH)
        self._own: dict[Audience, dict[int, bytes]] = {audience: {} for audience in told}
        """What a seat is told instead, by sequence."""
        self._seen = _Seen(self.state, b"")
        """The table as it was asked for last."""
        self._forgotten = 0
        """Events at the beginning that are not kept any more."""

    @classmethod
    def from_log(cls, row: MatchRow, log: Sequence[LogRow], seeds: Seeds | None = None) -> Story:
        """The story of a stored log."""
        story = cls(row, seeds)
        for entry in log:
            phase, events = story.state.phase, [event_from_json(event) for event in entry.event_list()]
            story.tell(events, entry.credited_ns or 0)
            if story.state.phase is not phase:
                story.phase_since = entry.at
            story.revision = entry.revision
            if entry.request_id is not None and entry.request_hash is not None and entry.seat is not None:
                answered = Answered(entry.request_hash, entry.first_sequence, entry.last_sequence)
                story.answers.put(story.asked_as(Seat(entry.seat), entry.request_id), answered)
        return story

    def asked_as(self, seat: Seat, request_id: str) -> Named:
        """The name of a request in this match. A player's ids are nobody else's; at one device both seats are one
        player's."""
        return "" if self._one_device else seat, request_id

    def audience_of(self, player_id: str) -> Audience:
        """How a player is told of this match."""
        row = self.row
        if row.same_device:
            return Audience.DEVICE if player_id == row.north.player_id else Audience.SPECTATOR
        if player_id == row.north.player_id:
            return Audience.NORTH
        return Audience.SOUTH if player_id == row.south.player_id else Audience.SPECTATOR

    def audience_at(self, seat: Seat) -> Audience:
        """How the player of a seat is told of this match."""
        return _DEVICE if self._one_device else _AUDIENCES[seat]

    def tell(self, events: Iterable[Event], credited_ns: int) -> None:
        """Takes in the events of one ruling that is stored."""
        self.credited_ns += credited_ns
        for event in events:
            if event.__class__ in _OF_DEALS:
                self.offered = offered(self.offered, (event,))
                if isinstance(event, RoundDealt):
                    self.announced = event.next_commitment
            self.state = state = evolve(self.state, event)
            self.sequence += 1
            public = redact(event, None)
            self._public.append(parts.event(event_to_bytes(self.sequence, public, state, credited_ns)))
            if public is not event:
                # Only of these there is something to hide: what everybody may know, all are told alike.
                self._tell_apart(event, public)
            if self._one_device and state.to_act is None:
                # The turn is over, and so is the showing of its hand: whoever resumes from before it now holds the
                # device in the other seat's turn (rule 7.4), and is told what everybody is.
                self._own[_DEVICE].clear()
        self.over = self.state.outcome is not None
        if self.sequence - self._forgotten > HISTORY_MAX:
            self._forget()

    def _tell_apart(self, event: Event, public: SeatEvent) -> None:
        """What those are told of an event who are told more than everybody is."""
        for audience, own in self._own.items():
            device = audience is _DEVICE
            seen = redact_for_device(event) if device else redact(event, audience.seat, self.state.mode)
            if seen != public:
                own[self.sequence] = parts.event(event_to_bytes(self.sequence, seen, self.state))

    def _forget(self) -> None:
        """The oldest events, if there are too many."""
        forgotten, self._forgotten = self._forgotten, self.sequence - HISTORY_MAX
        del self._public[: self._forgotten - forgotten]
        for own in self._own.values():
            for sequence in range(forgotten + 1, self._forgotten + 1):
                own.pop(sequence, None)

    def since(self, audience: Audience, sequence: int) -> bytes | None:
        """The events after `sequence`, in a WatchResponse; None when they are not all kept, or the number is of the
        future."""
        if not self._forgotten <= sequence <= self.sequence:
            return None
        events = self._public[sequence - self._forgotten :]
        own = self._own.get(audience)
        # Only if one of these is another one for it: the last that is has the greatest number.
        if own and next(reversed(own)) > sequence:
            events = [own.get(number, event) for number, event in enumerate(events, sequence + 1)]
        return b"".join(events)

    def view(self, audience: Audience) -> View:
        """The table as this audience may see it."""
        state = self.state
        if audience is not _DEVICE:
            return view(state, audience.seat)
        # Whoever holds the device acts for the seat on the move, and presses for either.
        seen = view(state, state.to_act or state.awaiting_reveal or Seat.NORTH)
        return seen._replace(legal=legal(state))

    def prompt(self, audience: Audience, left: Left | None) -> bytes:
        """The question on the table, in a WatchResponse."""
        return parts.prompt(self._prompt(audience, left))

    def _prompt(self, audience: Audience, left: Left | None) -> bytes:
        seen = self._look()
        # Not sooner than it is asked for: to list what may be done takes the longer the more it is, and whoever may do
        # nothing is told first.
        question = seen.questions.get(audience)
        if question is None:
            question = seen.questions[audience] = seen.question + self.choices(audience)
        return question + tables.clock_to_bytes(self.state, left)

    def choices(self, audience: Audience) -> bytes:
        """What this audience may do, encoded as in a prompt."""
        state = self.state
        # Whoever holds the device acts for the seat on the move, and presses for either.
        may = legal(state) if audience is _DEVICE else choices_of(state, audience.seat)
        return tables.choices_to_bytes(may, state.phase, seated=audience is not _SPECTATOR)

    def snapshot(self, audience: Audience, left: Left | None) -> bytes:
        """Everything this audience may know, in a WatchResponse."""
        seen = self._look()
        table = seen.tables.get(audience)
        if table is None:
            table = seen.tables[audience] = self._table(self.view(audience)).SerializeToString()
        return parts.snapshot(self.sequence, table, self._prompt(audience, left))

    def _look(self) -> _Seen:
        seen = self._seen
        if seen.state is not self.state or not seen.question:
            seen = self._seen = _Seen(self.state, tables.question_to_bytes(self.state, self.sequence))
        return seen

    def _table(self, view: View) -> table_pb2.Table:
        row = self.row
        table = tables.table_to_pb(view)
        table.match_id = row.match_id
        table.north.CopyFrom(player_to_pb(row.north))
        table.south.CopyFrom(player_to_pb(row.south))
        table.rated = row.rated
        table.bank_ms = row.bank_ns // tables.MILLISECOND
        table.delay_ms = row.delay_ns // tables.MILLISECOND
        table.same_device = row.same_device
        table.next_commitment = "" if self.over else self.announced or ""
        if self.state.pressed:
            table.contributions.CopyFrom(tables.contributions_to_pb(self.offered))
        return table


@dataclasses.dataclass(slots=True)
class _Seen:
    """The table as it is seen until something happens. Only what the clocks show changes meanwhile."""

    state: Match
    question: bytes
    """As everybody is told it."""
    questions: dict[Audience, bytes] = dataclasses.field(default_factory=dict)
    """With what each audience may do."""
    tables: dict[Audience, bytes] = dataclasses.field(default_factory=dict)
    """Without the question."""


def player_to_pb(player: PlayerRow) -> table_pb2.Player:
    """A player as others see one."""
    return table_pb2.Player(player_id=player.player_id, name=player.name, bot=player.bot)
