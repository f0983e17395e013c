"""What a receiver may know: every tile in every message it gets is looked up in the true course of the match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from google.protobuf.message import Message

from engine.event import Event
from engine.match import Match, evolve
from engine.seats import Seat
from engine.tiles import Tile, tiles_of
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2


def tiles_in(message: Message) -> Iterator[Tile]:
    """Every tile anywhere in a message, whatever the field is called."""
    if isinstance(message, table_pb2.Tile):
        yield Tile.of(message.low, message.high)
        return
    for _, value in message.ListFields():
        for part in value if _is_repeated(value) else (value,):
            if isinstance(part, Message):
                yield from tiles_in(part)


def _is_repeated(value: Any) -> bool:
    return not isinstance(value, Message | str | bytes | int | float | bool)


def course(start: Match, events: Iterable[Event]) -> list[Match]:
    """The true states of a match by sequence number, the first before any event."""
    states = [start]
    for event in events:
        states.append(evolve(states[-1], event))
    return states


def knowable(states: Sequence[Match], sequence: int, seat: Seat | None) -> set[Tile]:
    """The tiles a receiver may be told of with event number `sequence`: the table, and its own hand around it."""
    known: set[Tile] = set()
    for state in states[max(0, sequence - 1) : sequence + 1]:
        known |= {placement.tile for placement in state.layout.placements}
        if seat is not None:
            known |= set(tiles_of(state.hand(seat)))
    return known


def leaks(
    response: pb.WatchResponse, states: Sequence[Match], salts: Sequence[bytes], seat: Seat | None
) -> list[str]:
    """Everything in a message that its receiver may not know; empty when it is clean."""
    found = []
    parts: list[tuple[str, int, Message]] = [
        (f"event {event.sequence} {event.WhichOneof('kind')}", event.sequence, event)
        for event in response.events
    ]
    if response.HasField("snapshot"):
        parts.append(
            (f"snapshot {response.snapshot.sequence}", response.snapshot.sequence, response.snapshot)
        )
    if response.HasField("prompt"):
        parts.append((f"prompt {response.prompt.sequence}", response.prompt.sequence, response.prompt))
    for name, sequence, part in parts:
        unknowable = set(tiles_in(part)) - knowable(states, sequence, seat)
        if unknowable:
            found.append(f"{name} tells {seat or 'a spectator'} of {sorted(map(str, unknowable))}")
    # What is secret and no tile: anything that pins the deal down.
    raw = response.SerializeToString()
    found.extend(
        f"a salt reached {seat or 'a spectator'}"
        for salt in salts
        if salt in raw or salt.hex().encode() in raw
    )
    return found
