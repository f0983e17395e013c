"""What the strongest bot chooses where the right answer is known, and how much it looks at."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

import pytest

from client.arena.seat import ArenaSeat, table_of
from client.bots import strong
from client.bots.deals import Deals, Hidden
from client.bots.memory import Memory
from client.bots.search import best_play, deals, seconds
from engine.command import Accept, Bid, Command, Decline, Play
from engine.match import Auctioned, Match, Phase, decide, replay
from engine.refusal import Refusal
from engine.seats import NORTH, SOUTH
from engine.tiles import ALL_TILES
from engine.view import view
from tests.client.bots.seen import positions
from tests.engine.tables import auction, deal, dealt, endgame, free_opening, started

MANY = deals(300)


def answer(state: Match) -> Command:
    """What the bot does in a state, as the seat to act, with a memory of this moment."""
    seat = state.to_act
    assert seat is not None
    bot = ArenaSeat(seat, strong.choose, MANY, "seed")
    bot.memory.resumed(table_of(view(state, seat)))
    return bot.answer(state)


def test_a_play_that_wins_the_match_is_made() -> None:
    """[6|6] counts 12; [3|6] would leave 15, [4|6] 16: who needs 15 points takes them."""
    state = endgame("4|6 3|6 0|6", "0|0 1|1", balances=(285, 15))
    command = answer(state)
    assert isinstance(command, Play)
    assert command.tile.text == "3|6"


def test_the_last_tile_of_the_other_seat_is_not_let_in() -> None:
    """South holds [0|5] alone, and nothing can be drawn, so north knows: after [0|6] south would go out."""
    state = endgame("0|6 4|6", "0|5")
    everything_else = ALL_TILES & ~state.south_hand & ~state.north_hand
    known = Deals(Memory(NORTH, held=1), state.north_hand, 1, everything_else)
    assert known.count == 1
    plays = tuple((tile, state.layout.ends[0]) for tile in state.hands.north)
    rng = random.Random(1)
    tile, _ = best_play(plays, state.north_hand, state.layout, 150, known, rng, MANY(1.0))
    assert tile.text == "4|6"


def test_a_hand_that_goes_on_well_is_worth_a_bid() -> None:
    assert answer(fives()) == Bid(SOUTH, 15)


@pytest.mark.parametrize("balance", [5, 10, 15])
def test_nobody_pays_a_whole_balance(balance: int) -> None:
    """Rule 5.7: it would be legal, and lose the match."""
    assert answer(fives(balance)) == Decline(SOUTH)


def test_a_bid_that_pays_everything_is_accepted() -> None:
    """The other seat bids its whole balance: being paid wins (rule 5.7)."""
    state = auction(balances=(275, 25))
    ruling = decide(state, Bid(SOUTH, 25))
    assert not isinstance(ruling, Refusal)
    assert answer(replay(state, ruling)) == Accept(NORTH)


def fives(balance: int = 150) -> Match:
    """An auction in which south, the challenger, holds a hand that is worth a bid."""
    match = started(opening=Auctioned(NORTH), balances=(300 - balance, balance))
    return dealt(match, deal(south="5|5 0|5 0|0 0|1 0|2 0|3 0|4"))


class Counting(Deals):
    """Counts what is looked at."""

    looked = 0

    def draw(self, rng: random.Random) -> Hidden:
        self.looked += 1
        return super().draw(rng)


@pytest.mark.parametrize("count", [20, 100])
def test_no_more_deals_are_looked_at_than_the_budget_has(count: int) -> None:
    state = free_opening(NORTH, deal())
    hidden = Counting(Memory(NORTH), state.north_hand, 7, 0)
    plays = tuple((tile, None) for tile in state.hands.north)
    best_play(plays, state.north_hand, state.layout, 150, hidden, random.Random(1), deals(count)(1.0))
    assert 16 <= hidden.looked <= count


def test_a_budget_of_time_ends_with_it_but_never_before_the_first_look() -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.01
        return now

    # The first looks do not even ask what time it is.
    assert 16 + 45 < len(list(seconds(1.0, clock)(0.5))) < 16 + 55
    assert len(list(seconds(0.0, clock)(1.0))) == 16
    assert len(list(islice(seconds(1e9, clock)(1.0), 100))) == 100


def test_what_leaves_no_choice_is_answered_without_a_look() -> None:
    for seen in positions(5):
        table = table_of(view(seen.state, seen.seat))
        alone = seen.state.phase in (Phase.PLAYING, Phase.OPENING) and len(table.prompt.legal.plays) < 2
        if alone:
            assert strong.choose(table, seen.memory, random.Random(1), _nothing) is not None


def _nothing(share: float) -> Iterator[int]:
    raise AssertionError("there is nothing to think about")
