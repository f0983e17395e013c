"""A seat of the arena: what it may see, what it remembers, and nothing else, goes to its bot."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from client.bots.memory import Memory
from client.table import (
    BidRange,
    Clock,
    Legal,
    OpenEnd,
    Placement,
    Player,
    Prompt,
    TableState,
    Transfer,
)
from engine.clock import MILLISECOND
from engine.event import OpeningWon, TileDrawn, TilePlaced, TurnPassed
from engine.seats import BySeat
from engine.view import HandDealt, View, redact, view

if TYPE_CHECKING:
    from client.bots.levels import Choose
    from client.bots.search import Budget
    from engine.command import Command
    from engine.event import Event
    from engine.seats import Seat
    from engine.state import Match
    from engine.view import SeatEvent

_PLAYERS = BySeat(Player("north", "north", bot=True), Player("south", "south", bot=True))


@dataclass(slots=True)
class ArenaSeat:
    """One bot at one table."""

    seat: Seat
    choose: Choose
    budget: Budget
    seed: str
    """Of its random numbers; each decision has its own."""
    moves: int = 0
    """Decisions in which there was something to choose."""
    seconds: float = 0.0
    """Time for all of them."""
    seconds_max: float = 0.0
    memory: Memory = field(init=False)

    def __post_init__(self) -> None:
        self.memory = Memory(self.seat)

    def hear(self, event: Event) -> None:
        """One event, of which only what this seat may know is told."""
        remember(self.memory, redact(event, self.seat))

    def answer(self, state: Match) -> Command:
        """The answer to the question on the table, from this seat's view of it."""
        table = table_of(view(state, self.seat))
        rng = random.Random(f"{self.seed} {table.prompt.decision_id}")  # noqa: S311  nothing is kept secret by it
        began = time.perf_counter()
        command = self.choose(table, self.memory, rng, self.budget)
        took = time.perf_counter() - began
        legal = table.prompt.legal
        if len(legal.plays) > 1 or legal.bid is not None:
            self.moves += 1
            self.seconds += took
            self.seconds_max = max(self.seconds_max, took)
        assert command is not None, "it was asked"
        return command


def remember(memory: Memory, event: SeatEvent) -> None:
    """Have a seat remember what it was told."""
    match event:
        case HandDealt():
            memory.dealt()
        case OpeningWon():
            memory.opening_won()
        case TilePlaced(seat, tile, end, _, count):
            memory.placed(seat, tile, end, count)
        case TileDrawn(seat, _):
            memory.drew(seat)
        case TurnPassed(seat):
            memory.passed(seat)
        case _:
            pass


def table_of(seen: View) -> TableState:
    """A view of the engine as the table that a client would have of it."""
    legal = seen.legal
    bid = legal.bid
    banks_ms = seen.banks.map(lambda bank: bank // MILLISECOND)
    prompt = Prompt(
        decision_id=seen.decision_id,
        turn=seen.turn,
        to_act=seen.to_act,
        kind=seen.kind,
        legal=Legal(
            plays=legal.play,
            draw=legal.draw,
            pass_turn=legal.pass_,
            accept=legal.accept,
            decline=legal.decline,
            bid=None if bid is None else BidRange(bid.minimum, bid.maximum, bid.step),
            start=bool(legal.start),
            continue_round=bool(legal.continue_),
            reveal=legal.reveal is not None,
        ),
        clock=Clock(seen.to_act, banks_ms, seen.delay_ns // MILLISECOND, seen.delay_ns // MILLISECOND),
        phase=seen.phase,
    )
    moved, standing = seen.last_transfer, seen.standing_bid
    return TableState(
        match_id="",
        sequence=seen.decision_id,
        seat=seen.seat,
        players=_PLAYERS,
        rated=False,
        same_device=False,
        bank_ms=banks_ms.north,
        delay_ms=seen.delay_ns // MILLISECOND,
        balances=seen.balances,
        banks_ms=banks_ms,
        round_no=seen.round_no,
        hand=seen.hand or (),
        tiles=seen.hand_counts,
        boneyard=seen.boneyard_count,
        placements=tuple(Placement(*placement) for placement in seen.placements),
        ends=tuple(OpenEnd(*end) for end in seen.ends),
        spinner=seen.spinner,
        count=seen.count,
        last_transfer=None if moved is None else Transfer(*moved),
        jockey=seen.jockey,
        bidder=None if standing is None else standing.seat,
        standing_bid=0 if standing is None else standing.amount,
        pressed=seen.pressed,
        commitment=seen.commitment or "",
        hand_totals=seen.hand_totals,
        outcome=seen.outcome,
        prompt=prompt,
    )
