"""The matches of a world: short ones with little time, some of them on one device, and who plays them."""

from __future__ import annotations

from datetime import datetime
from random import Random
from typing import Final

from engine.clock import MILLISECOND, SECOND
from engine.seats import SEATS, Seat
from services.storage.matches import MatchRow, PlayerRow
from services.storage.script import Script

LONG_SHARE: Final = 0.25
"""How many matches have more than the five seconds that anybody has after an outage."""
DEVICE_SHARE: Final = 0.12
"""How many are played by two people at one device."""
SHORT_LIMIT_SHARE: Final = 0.15
"""How many have limits for Start and Continue that somebody may well miss."""
MATCHES: Final = (1,) * 12 + (2,) * 4 + (3,) * 2 + (5,) * 2
"""How many there are in a world."""


def new_match(dice: Random, match_id: str, number: int, created_at: datetime, *, alone: bool) -> MatchRow:
    """One match. Those that are not alone in their world are over sooner."""
    north = dice.choice((10, 20, 40, 150, 280, 290) if alone else (10, 20, 280, 290))
    script = Script(balances=(north, 300 - north), jockey=dice.choice((None, Seat.NORTH, Seat.SOUTH)))
    bank_ns = dice.choice((0, 1, 2, 4)) * SECOND + dice.choice((0, 1))
    delay_ns = dice.choice((500, 1000, 3000)) * MILLISECOND
    if dice.random() < LONG_SHARE:
        bank_ns, delay_ns = 20 * SECOND, 6 * SECOND
    start_limit_ns, continue_limit_ns = 60 * SECOND, 30 * SECOND
    if dice.random() < SHORT_LIMIT_SHARE:
        start_limit_ns, continue_limit_ns = dice.choice((3, 8)) * SECOND, dice.choice((1, 2)) * SECOND
    players = [PlayerRow(f"p{number}{seat}", seat.value, bot=False) for seat in SEATS]
    device = dice.random() < DEVICE_SHARE
    return MatchRow(
        match_id=match_id,
        mode="same_device" if device else "casual",
        rated=False,
        north=players[0],
        south=players[0 if device else 1],
        bank_ns=bank_ns,
        delay_ns=delay_ns,
        start_limit_ns=start_limit_ns,
        continue_limit_ns=continue_limit_ns,
        script=script.dump(),
        created_at=created_at,
    )


def seats_of(match: MatchRow) -> list[tuple[str, tuple[Seat, ...]]]:
    """Its players, and the seats that each of them acts for."""
    if match.same_device:
        return [(match.north.player_id, SEATS)]
    return [(match.north.player_id, (Seat.NORTH,)), (match.south.player_id, (Seat.SOUTH,))]
