"""The strongest bot: it searches. See `client.bots.search`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from client.bots import greedy
from client.bots.deals import Deals
from client.bots.search import best_play, opening_pays
from engine.auction import DISCOUNT
from engine.command import Accept, Bid, Decline, Play
from engine.points import TOTAL
from engine.tiles import tile_set

if TYPE_CHECKING:
    import random

    from client.bots.memory import Memory
    from client.bots.search import Budget
    from client.table import TableState
    from engine.command import Command
    from engine.seats import Seat

NAME: Final = "strong"


def choose(table: TableState, memory: Memory, rng: random.Random, budget: Budget) -> Command | None:
    """What this bot does now; None when nothing is asked of it."""
    seat, legal = table.seat, table.prompt.legal
    if seat is None or not table.asks_me:
        return None
    if legal.accept or legal.decline:
        return _speak(table, seat, memory, rng, budget)
    if len(legal.plays) < 2:
        return greedy.choose(table)  # there is nothing to think about
    hand = tile_set(table.hand)
    hidden = _hidden(table, seat, memory)
    tile, end = best_play(legal.plays, hand, memory.layout, table.balances[seat], hidden, rng, budget(1.0))
    return Play(seat, tile, end)


def _hidden(table: TableState, seat: Seat, memory: Memory) -> Deals:
    laid = tile_set(placement.tile for placement in table.placements)
    return Deals(memory, tile_set(table.hand), table.tiles[seat.opponent], laid)


def _speak(table: TableState, seat: Seat, memory: Memory, rng: random.Random, budget: Budget) -> Command:
    """Raise, by the least, as long as opening at that price is worth more than being paid for letting it go."""
    legal, balance = table.prompt.legal, table.balances[seat]
    let = Accept(seat) if legal.accept else Decline(seat)
    paid = 0
    if legal.accept:
        paid = max(0, table.standing_bid - (DISCOUNT if table.jockey is seat.opponent else 0))
    if legal.bid is None or balance + paid >= TOTAL:
        return let
    price = max(0, legal.bid.lowest - (DISCOUNT if table.jockey is seat else 0))
    # Whoever pays everything has lost (rule 5.7).
    if price >= balance:
        return let
    hidden = _hidden(table, seat, memory)
    if opening_pays(tile_set(table.hand), balance, price, paid, hidden, rng, budget):
        return Bid(seat, legal.bid.lowest)
    return let
