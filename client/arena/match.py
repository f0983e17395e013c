"""Two matches on the same deals, with the seats changed: a pair, the unit of the arena."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from client.arena.seat import ArenaSeat
from engine.command import Continue, Start
from engine.deal import SALT_SIZE, Deal
from engine.match import Match, Phase, deal_round, decide, evolve
from engine.refusal import Refusal
from engine.seats import SEATS, BySeat, Seat
from engine.tiles import DOUBLE_SIX

if TYPE_CHECKING:
    from client.bots.levels import Choose
    from client.bots.search import Budget
    from engine.event import Event

_SALT: Final = bytes(SALT_SIZE)


@dataclass(frozen=True, slots=True)
class Contestant:
    """A bot and how long it may think."""

    choose: Choose
    budget: Budget


@dataclass(frozen=True, slots=True)
class Effort:
    """How long one bot has thought in a match."""

    moves: int
    seconds: float
    seconds_max: float


@dataclass(frozen=True, slots=True)
class Played:
    """A match that is over."""

    winner: Seat
    rounds: int
    efforts: BySeat[Effort]


def deal(seed: int, pair: int, round_no: int) -> Deal:
    """The deal of a round: the same in both matches of a pair."""
    order = list(DOUBLE_SIX)
    random.Random(f"{seed} {pair} {round_no}").shuffle(order)  # noqa: S311  to be repeated, not to be secret
    return Deal.from_shuffle(order)


def play_match(north: Contestant, south: Contestant, *, seed: int, pair: int, match: int) -> Played:
    """One match, whatever its clock would say."""
    seats = BySeat(north, south)
    tables = [
        ArenaSeat(seat, seats[seat].choose, seats[seat].budget, f"{seed} {pair} {match} {seat}")
        for seat in SEATS
    ]
    by_seat = BySeat(*tables)
    state = Match.start()
    while state.phase is not Phase.OVER:
        for event in _happens(state, by_seat, seed, pair):
            state = evolve(state, event)
            for table in tables:
                table.hear(event)
    outcome = state.outcome
    assert outcome is not None
    assert outcome.winner is not None
    efforts = by_seat.map(lambda table: Effort(table.moves, table.seconds, table.seconds_max))
    return Played(outcome.winner, state.round_no, efforts)


def _happens(state: Match, seats: BySeat[ArenaSeat], seed: int, pair: int) -> tuple[Event, ...]:
    if state.phase is Phase.AWAITING_DEAL:
        ruling = deal_round(state, deal(seed, pair, state.round_no + 1), _SALT)
    elif state.to_act is None:
        waits = next(seat for seat in SEATS if seat not in state.pressed)
        ruling = decide(state, Start(waits) if state.phase is Phase.AWAITING_START else Continue(waits))
    else:
        ruling = decide(state, seats[state.to_act].answer(state))
    assert not isinstance(ruling, Refusal), f"a bot asked for what is refused: {ruling}"
    return ruling


def play_pair(one: Contestant, other: Contestant, *, seed: int, pair: int) -> tuple[Played, Played]:
    """`one` sits north, then south, on the same deals."""
    return (
        play_match(one, other, seed=seed, pair=pair, match=1),
        play_match(other, one, seed=seed, pair=pair, match=2),
    )
