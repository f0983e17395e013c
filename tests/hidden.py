"""What a receiver may know: every tile in every message it gets is looked up in the true course of the match."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from engine.event import Event, RoundDealt
from engine.match import Match, evolve
from engine.seats import Seat
from engine.tiles import DOUBLE_SIX, TileSet, tile_set, tiles_of
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2

_BITS: Final = {(tile.low, tile.high): tile.bit for tile in DOUBLE_SIX}
_IN_WORDS: Final = re.compile(rb"[0-6]\|[0-6]")
"""A tile as records, logs and error texts would write it: no message of a live match holds one."""


@cache
def _holds_tiles(kind: Descriptor) -> bool:
    """Whether a message of this kind can hold a tile, at any depth."""
    if kind.full_name == table_pb2.Tile.DESCRIPTOR.full_name:
        return True
    return any(field.message_type is not None and _holds_tiles(field.message_type) for field in kind.fields)


@cache
def _fields(kind: Descriptor) -> tuple[tuple[str, bool], ...]:
    """The fields that can lead to a tile, whatever they are called, and whether each is repeated."""
    return tuple(
        (field.name, field.is_repeated)
        for field in kind.fields
        if field.message_type is not None and _holds_tiles(field.message_type)
    )


def tiles_in(message: Message) -> TileSet:
    """Every tile anywhere in a message."""
    if isinstance(message, table_pb2.Tile):
        return _BITS[message.low, message.high]
    found = 0
    for name, repeated in _fields(message.DESCRIPTOR):
        if repeated:
            for part in getattr(message, name):
                found |= tiles_in(part)
        elif message.HasField(name):
            found |= tiles_in(getattr(message, name))
    return found


class Truth:
    """The true course of one match."""

    def __init__(self, start: Match, events: Iterable[Event]) -> None:
        self.events = list(events)
        self.states = [start]
        """By sequence number; the first is before any event."""
        for event in self.events:
            self.states.append(evolve(self.states[-1], event))
        self.salts = [event.salt for event in self.events if isinstance(event, RoundDealt)]
        self._laid = [tile_set(placed.tile for placed in state.layout.placements) for state in self.states]

    def knowable(self, sequence: int, seat: Seat | None) -> TileSet:
        """The tiles a receiver may be told of with event number `sequence`: the table, and its own hand around it."""
        known = 0
        for at in range(max(0, sequence - 1), sequence + 1):
            known |= self._laid[at]
            if seat is not None:
                known |= self.states[at].hand(seat)
        return known

    def knowable_on_device(self, sequence: int, *, event: bool) -> TileSet:
        """The tiles a shared device may show with event number `sequence`, or with the table after it: what is laid, and
        the hand of the seat whose turn it is, or was until the event."""
        known = 0
        for at in (max(0, sequence - 1), sequence) if event else (sequence,):
            state = self.states[at]
            known |= self._laid[at] | (0 if state.to_act is None else state.hand(state.to_act))
        return known

    def leaks_on_device(self, responses: Iterable[pb.WatchResponse]) -> list[str]:
        """The same as `leaks` for the connection that holds both seats (rule 7.4)."""
        responses = list(responses)
        found = []
        for response in responses:
            for name, sequence, part in _parts(response):
                event = name not in ("snapshot", "prompt")
                unknowable = tiles_in(part) & ~self.knowable_on_device(sequence, event=event)
                if unknowable:
                    names = ", ".join(map(str, tiles_of(unknowable)))
                    found.append(f"{name} {sequence} shows {names}")
        return found + self.secrets(b"\0".join(response.SerializeToString() for response in responses))

    def leaks(self, responses: Iterable[pb.WatchResponse], seat: Seat | None) -> list[str]:
        """Everything in these messages that their receiver may not know; empty when they are clean."""
        found = []
        everything = []
        for response in responses:
            everything.append(response.SerializeToString())
            for name, sequence, part in _parts(response):
                unknowable = tiles_in(part) & ~self.knowable(sequence, seat)
                if unknowable:
                    names = ", ".join(map(str, tiles_of(unknowable)))
                    found.append(f"{name} {sequence} tells {seat or 'a spectator'} of {names}")
        return found + self.secrets(b"\0".join(everything))

    def secrets(self, raw: bytes) -> list[str]:
        """What pins the deal down without being a tile, in any bytes: messages, logs, error texts."""
        found = [f"a tile in words: {text!r}" for text in _IN_WORDS.findall(raw)]
        found.extend(f"the salt {salt.hex()}" for salt in self.salts if salt in raw)
        found.extend(f"the salt {salt.hex()} in words" for salt in self.salts if salt.hex().encode() in raw)
        return found


def _parts(response: pb.WatchResponse) -> Iterator[tuple[str, int, Message]]:
    for event in response.events:
        yield str(event.WhichOneof("kind")), event.sequence, event
    if response.HasField("snapshot"):
        yield "snapshot", response.snapshot.sequence, response.snapshot
    if response.HasField("prompt"):
        yield "prompt", response.prompt.sequence, response.prompt
