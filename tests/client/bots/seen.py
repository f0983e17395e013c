"""Positions of random matches with what each seat has seen of them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from client.arena.seat import remember
from client.bots.deals import Deals
from client.bots.memory import Memory
from engine.match import Match, evolve
from engine.seats import SEATS, BySeat
from engine.tiles import tile_set
from engine.view import redact
from tests.engine.randomplay import start, steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.seats import Seat


class Seen(NamedTuple):
    """A seat is to act."""

    state: Match
    seat: Seat
    memory: Memory

    @property
    def deals(self) -> Deals:
        """What may be hidden from it."""
        return deals(self.state, self.memory)


def deals(state: Match, memory: Memory) -> Deals:
    """What may be hidden from a seat."""
    seat = memory.seat
    laid = tile_set(placement.tile for placement in state.layout.placements)
    return Deals(memory, state.hand(seat), state.hand(seat.opponent).bit_count(), laid)


def positions(seed: int) -> Iterator[Seen]:
    """Every decision with a clock in one random match."""
    rng = random.Random(seed)
    memories = BySeat(*(Memory(seat) for seat in SEATS))
    state = start(rng)
    for before, events in steps(state, rng):
        if before.to_act is not None:
            yield Seen(before, before.to_act, memories[before.to_act])
        state = before
        for event in events:
            state = evolve(state, event)
            for seat in SEATS:
                remember(memories[seat], redact(event, seat))
