"""A bot that takes the points it sees: sensible enough for a sparring partner, fast enough for a demonstration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.auction import DISCOUNT
from engine.command import Accept, Bid, Continue, Decline, Draw, Pass, Play, Start
from engine.points import UNIT

if TYPE_CHECKING:
    from client.table import TableState
    from engine.command import Command
    from engine.seats import Seat
    from engine.tiles import End, Tile

NAME: Final = "greedy"

# What it is worth to place the first tile, whatever the tile: the other seat has one tile more to get rid of.
_TEMPO: Final = 10
# Whoever pays everything has lost (rule 5.7); this much stays.
_RESERVE: Final = 10


def choose(table: TableState) -> Command | None:
    """What this bot does now; None when nothing is asked of it."""
    seat, legal = table.seat, table.prompt.legal
    if seat is None or not table.asks_me:
        return None
    if legal.start:
        return Start(seat)
    if legal.continue_round:
        return Continue(seat)
    if legal.plays:
        tile, end = best_play(table)
        return Play(seat, tile, end)
    if legal.draw:
        return Draw(seat)
    if legal.pass_turn:
        return Pass(seat)
    if legal.accept or legal.decline:
        return _speak(table, seat)
    return None


def best_play(table: TableState) -> tuple[Tile, End | None]:
    """The play that scores most; among equals the one that gets rid of most pips, doubles first."""

    def worth(play: tuple[Tile, End | None]) -> tuple[int, int, bool]:
        tile, end = play
        return points(count_after(table, tile, end)), tile.pips, tile.is_double

    return max(table.prompt.legal.plays, key=worth)


def count_after(table: TableState, tile: Tile, end: End | None) -> int:
    """The count after a legal placement (rule 3.5)."""
    if end is None:
        return tile.pips
    exposed = tile.pips if tile.is_double else tile.other(end.value)
    # An opening double goes on counting until its second line is filled.
    lone_double = len(table.placements) == 1 and table.spinner is not None
    covered = 0 if lone_double else sum(open_end.counts for open_end in table.ends if open_end.end is end)
    return table.count + exposed - covered


def points(count: int) -> int:
    """What a count scores (rule 3.6)."""
    return count if count % UNIT == 0 else 0


def opening_worth(hand: tuple[Tile, ...]) -> int:
    """What the opening is worth to this hand, in points: a multiple of five."""
    best = max(points(tile.pips) for tile in hand)
    # Doubles and heavy tiles are hard to get rid of: starting helps.
    burden = sum(tile.pips for tile in hand)
    return (
        _TEMPO + best + (UNIT if burden >= 45 else 0) + (UNIT if sum(t.is_double for t in hand) >= 3 else 0)
    )


def _speak(table: TableState, seat: Seat) -> Command:
    """Bid as long as the price stays below the worth, raising by the least; else accept or decline."""
    bid = table.prompt.legal.bid
    price_max = min(opening_worth(table.hand), table.balances[seat] - _RESERVE)
    # The jockey's discount makes its bids cheaper than they look (rule 5.5).
    bid_max = price_max + (DISCOUNT if seat is table.jockey else 0)
    if bid is not None and bid.lowest <= bid_max:
        return Bid(seat, bid.lowest)
    return Accept(seat) if table.prompt.legal.accept else Decline(seat)
