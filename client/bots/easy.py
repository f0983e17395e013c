"""A bot for the first matches: it knows the rules, does not count, and pays little for the opening."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from client.bots import greedy
from engine.command import Accept, Decline, Play

if TYPE_CHECKING:
    import random

    from client.table import TableState
    from engine.command import Command

NAME: Final = "easy"


def choose(table: TableState, rng: random.Random) -> Command | None:
    """What this bot does now; None when nothing is asked of it."""
    seat, legal = table.seat, table.prompt.legal
    if seat is None or not table.asks_me:
        return None
    if legal.plays:
        return Play(seat, *rng.choice(legal.plays))
    if legal.accept:
        return Accept(seat)
    return Decline(seat) if legal.decline else greedy.choose(table)
