"""What a player has chosen but not yet sent, and what a key or a click makes of it. No rule is decided here.

What is legal comes with the question. A tile that fits nowhere may be sent all the same: the service refuses it and
says why, which is the best explanation there is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from client.terminal.tiling import LETTERS
from engine.command import Accept, Bid, Continue, Decline, Draw, Pass, Play, Reveal, Start

if TYPE_CHECKING:
    from client.table import TableState
    from client.terminal.canvas import Target
    from engine.command import Command
    from engine.seats import Seat
    from engine.tiles import End, Tile


@dataclass(frozen=True, slots=True)
class Selection:
    """A tile, an end and an amount, each only while it means something."""

    tile: Tile | None = None
    end: End | None = None
    amount: int | None = None
    """A bid in points."""


NOTHING: Final = Selection()


@dataclass(frozen=True, slots=True)
class Pressed:
    """What came of a key or a click."""

    selection: Selection
    command: Command | None = None
    """To be sent."""
    hint: str = ""
    """What the player should do instead."""
    known: bool = True
    """False for a key that means nothing here."""


def fitting(table: TableState, tile: Tile | None) -> tuple[End, ...]:
    """The ends where the service takes this tile now, in the order of the table."""
    return tuple(end for legal, end in table.prompt.legal.plays if legal is tile and end is not None)


def playable(table: TableState) -> frozenset[Tile]:
    """The tiles that may be placed now."""
    return frozenset(tile for tile, _ in table.prompt.legal.plays)


def refreshed(selection: Selection, table: TableState) -> Selection:
    """What of a selection still means something at this table; the only legal placement is chosen by itself."""
    tile = selection.tile if selection.tile in table.hand else None
    plays = table.prompt.legal.plays
    if tile is None and len(plays) == 1:
        tile = plays[0][0]
    open_ends = tuple(each.end for each in table.ends)
    fits = fitting(table, tile)
    end = selection.end if selection.end in (fits or open_ends) and tile is not None else None
    if end is None and len(fits) == 1:
        end = fits[0]
    bid = table.prompt.legal.bid
    amount = selection.amount
    if bid is None or amount is None:
        return Selection(tile, end)
    return Selection(tile, end, min(max(amount, bid.lowest), bid.highest))


def press(key: str, selection: Selection, table: TableState, seat: Seat) -> Pressed:
    """A key, as textual names it, pressed by the player of a seat."""
    now = refreshed(selection, table)
    legal = table.prompt.legal
    if key in ("left", "right"):
        return _step(now, table, 1 if key == "right" else -1)
    if key in ("tab", "down", "shift+tab", "up"):
        return _turn_end(now, table, 1 if key in ("tab", "down") else -1)
    if len(key) == 1 and key in "1234567890":
        place = (int(key) - 1) % 10
        if place < len(table.hand):
            return Pressed(_with_tile(now, table, table.hand[place]))
        return Pressed(now, hint=f"There is no tile {place + 1}.")
    if key in LETTERS or key.lower() in LETTERS:
        place = LETTERS.index(key.lower())
        if place < len(table.ends):
            return _at(now, table, table.ends[place].end)
        return Pressed(now, hint=f"There is no end {key.upper()}.")
    if key in ("enter", "space"):
        return _go(now, table, seat)
    if key == "s" and legal.start:
        return Pressed(now, Start(seat))
    if key == "c" and legal.continue_round:
        return Pressed(now, Continue(seat))
    if key == "a" and legal.accept:
        return Pressed(now, Accept(seat))
    if key == "d" and (legal.decline or table.bidder is not None):
        return Pressed(now, Decline(seat))
    if key == "d":
        return Pressed(now, Draw(seat))
    if key == "p":
        return Pressed(now, Pass(seat))
    return Pressed(now, known=False)


def click(target: Target, selection: Selection, table: TableState, seat: Seat) -> Pressed:
    """A click. On what is chosen already it does the same as Enter."""
    now = refreshed(selection, table)
    if target.command is not None:
        return Pressed(now, target.command)
    if target.key:
        return press(target.key, now, table, seat)
    if target.tile is not None:
        if target.tile is now.tile:
            return _go(now, table, seat)
        return Pressed(_with_tile(now, table, target.tile))
    if target.end is not None:
        if target.end is now.end and now.tile is not None:
            return _go(now, table, seat)
        return _at(now, table, target.end)
    if target.amount is not None:
        if target.amount == now.amount:
            return _go(now, table, seat)
        return Pressed(replace(now, amount=target.amount))
    return Pressed(now, known=False)


def _with_tile(now: Selection, table: TableState, tile: Tile) -> Selection:
    return refreshed(replace(now, tile=tile, end=None), table)


def _step(now: Selection, table: TableState, step: int) -> Pressed:
    """Left and right: the next amount in an auction, else the next tile."""
    bid = table.prompt.legal.bid
    if bid is not None:
        amount = bid.lowest if now.amount is None else now.amount + step * bid.step
        return Pressed(replace(now, amount=min(max(amount, bid.lowest), bid.highest)))
    if not table.hand:
        return Pressed(now, known=False)
    if now.tile is None:
        return Pressed(_with_tile(now, table, _first(table) if step > 0 else table.hand[-1]))
    place = (table.hand.index(now.tile) + step) % len(table.hand)
    return Pressed(_with_tile(now, table, table.hand[place]))


def _first(table: TableState) -> Tile:
    plays = playable(table)
    return next((tile for tile in table.hand if tile in plays), table.hand[0])


def _turn_end(now: Selection, table: TableState, step: int) -> Pressed:
    if now.tile is None:
        return Pressed(now, hint="Choose a tile first: left, right or its number.")
    ends = fitting(table, now.tile) or tuple(each.end for each in table.ends)
    if not ends:
        return Pressed(now, known=False)
    place = (ends.index(now.end) + step) % len(ends) if now.end in ends else 0 if step > 0 else -1
    return Pressed(replace(now, end=ends[place]))


def _at(now: Selection, table: TableState, end: End) -> Pressed:
    """An end is named: taken, or the tile is chosen that is the only one to fit there."""
    if now.tile is not None:
        return Pressed(replace(now, end=end))
    there = [tile for tile, where in table.prompt.legal.plays if where is end]
    if len(there) == 1:
        return Pressed(Selection(there[0], end))
    return Pressed(now, hint="Choose a tile first: left, right or its number.")


def _go(now: Selection, table: TableState, seat: Seat) -> Pressed:
    """Enter: what is chosen, or what alone can be meant."""
    legal = table.prompt.legal
    if legal.start:
        return Pressed(now, Start(seat))
    if legal.continue_round:
        return Pressed(now, Continue(seat))
    if legal.reveal:
        return Pressed(now, Reveal(seat))
    if legal.draw:
        return Pressed(now, Draw(seat))
    if legal.pass_turn:
        return Pressed(now, Pass(seat))
    if legal.accept or legal.decline or legal.bid is not None:
        return _speak(now, table, seat)
    if not legal.plays:
        return Pressed(now, hint="" if table.outcome else "It is not your turn.")
    if now.tile is None:
        return Pressed(_with_tile(now, table, _first(table)))
    fits = fitting(table, now.tile)
    opening = not table.placements
    if now.end is None and not opening:
        if fits:
            letters = " or ".join(letter_of(table, end).upper() for end in fits)
            return Pressed(now, hint=f"Choose an end: {letters}.")
        return Pressed(now, Play(seat, now.tile, table.ends[0].end))
    return Pressed(now, Play(seat, now.tile, None if opening else now.end))


def _speak(now: Selection, table: TableState, seat: Seat) -> Pressed:
    legal = table.prompt.legal
    if now.amount is not None:
        return Pressed(now, Bid(seat, now.amount))
    if legal.bid is None:
        return Pressed(now, Accept(seat) if legal.accept else Decline(seat))
    other = "A accepts" if legal.accept else "D declines"
    return Pressed(now, hint=f"Choose an amount with left and right, then Enter; {other}.")


def letter_of(table: TableState, end: End) -> str:
    """The letter of an open end; empty for an end that is not open."""
    return next((LETTERS[place] for place, each in enumerate(table.ends) if each.end is end), "")
