"""The true course of a finished match, worked out again from its record, and what each receiver could know of it."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from google.protobuf.message import Message

from client.conformance.check import BrokenError, expect
from engine.event import RoundDealt
from engine.match import evolve
from engine.playback import play_back
from engine.recordlines import MalformedRecordError, MatchLine, read_record
from engine.tiles import DOUBLE_SIX, TileSet, tile_set, tiles_of
from spectacularbid.match.v1 import table_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from google.protobuf.descriptor import Descriptor

    from engine.event import Event
    from engine.match import Match
    from engine.seats import Seat
    from spectacularbid.match.v1 import match_service_pb2 as pb

_BITS: Final = {(tile.low, tile.high): tile.bit for tile in DOUBLE_SIX}
_IN_WORDS: Final = re.compile(rb"[0-6]\|[0-6]")
"""A tile as records and texts write it: no message of a live match holds one."""


@cache
def _holds_tiles(kind: Descriptor) -> bool:
    """Whether a message of this kind can hold a tile, at any depth."""
    if kind.full_name == table_pb2.Tile.DESCRIPTOR.full_name:
        return True
    return any(field.message_type is not None and _holds_tiles(field.message_type) for field in kind.fields)


@cache
def _ways(kind: Descriptor) -> tuple[tuple[str, bool], ...]:
    """The fields that can lead to a tile, whatever they are called, and whether each is repeated."""
    return tuple(
        (field.name, field.is_repeated)
        for field in kind.fields
        if field.message_type is not None and _holds_tiles(field.message_type)
    )


def tiles_in(message: Message) -> TileSet:
    """Every tile anywhere in a message."""
    if isinstance(message, table_pb2.Tile):
        return _BITS.get((message.low, message.high), 0)
    found = 0
    for name, repeated in _ways(message.DESCRIPTOR):
        if repeated:
            for part in getattr(message, name):
                found |= tiles_in(part)
        elif message.HasField(name):
            found |= tiles_in(getattr(message, name))
    return found


class Truth:
    """The true course of one match."""

    def __init__(self, start: Match, events: Iterable[Event]) -> None:
        self.events = tuple(events)
        self.states = [start]
        """By sequence number; the first is before any event."""
        for event in self.events:
            self.states.append(evolve(self.states[-1], event))
        self.salts = [event.salt for event in self.events if isinstance(event, RoundDealt)]
        self._laid = [tile_set(placed.tile for placed in state.layout.placements) for state in self.states]

    @classmethod
    def of(cls, record: str) -> Truth:
        """From the text of GetRecord. Raises BrokenError when it cannot be run."""
        start: Match | None = None
        events: list[Event] = []
        try:
            for answer in play_back(read_record(record.encode())):
                if isinstance(answer.line, MatchLine):
                    start = answer.line.start
                expect(
                    answer.refusal is None, f"line {answer.number} of the record is refused: {answer.refusal}"
                )
                events += answer.events
        except MalformedRecordError as error:
            raise BrokenError(f"the record makes no sense: {error}") from None
        assert start is not None, "a record begins with its match"
        return cls(start, events)

    def knowable(self, sequence: int, seat: Seat | None) -> TileSet:
        """The tiles a receiver may be told of with event number `sequence`: the table, and its own hand around it."""
        known = 0
        for at in self._around(sequence):
            known |= self._laid[at]
            if seat is not None:
                known |= self.states[at].hand(seat)
        return known

    def knowable_on_device(self, sequence: int) -> TileSet:
        """The tiles a shared device may be told of with event number `sequence`, or show after it: the table, and the
        hand of the seat whose turn it is, or was until the event."""
        known = 0
        for at in self._around(sequence):
            state = self.states[at]
            known |= self._laid[at] | (0 if state.to_act is None else state.hand(state.to_act))
        return known

    def _around(self, sequence: int) -> range:
        return range(max(0, sequence - 1), min(sequence, len(self.events)) + 1)

    def leaks(
        self, messages: Iterable[pb.WatchResponse], seat: Seat | None, *, one_device: bool = False
    ) -> list[str]:
        """Everything in these messages that their receiver may not know; empty when they are clean."""
        found = []
        raw = []
        for message in messages:
            raw.append(message.SerializeToString())
            for name, sequence, part in _parts(message):
                known = self.knowable_on_device(sequence) if one_device else self.knowable(sequence, seat)
                if unknowable := tiles_in(part) & ~known:
                    names = ", ".join(map(str, tiles_of(unknowable)))
                    found.append(f"{name} {sequence} tells {seat or 'a spectator'} of {names}")
        return found + self.secrets(b"\0".join(raw))

    def secrets(self, raw: bytes) -> list[str]:
        """What pins a deal down without being a tile, in any bytes."""
        found = [f"a tile in words: {text!r}" for text in _IN_WORDS.findall(raw)]
        told = any(salt in raw or salt.hex().encode() in raw for salt in self.salts)
        return [*found, "the salt of a deal"] if told else found


def _parts(message: pb.WatchResponse) -> Iterator[tuple[str, int, Message]]:
    for event in message.events:
        yield str(event.WhichOneof("kind")), event.sequence, event
    if message.HasField("snapshot"):
        yield "snapshot", message.snapshot.sequence, message.snapshot
    if message.HasField("prompt"):
        yield "prompt", message.prompt.sequence, message.prompt
