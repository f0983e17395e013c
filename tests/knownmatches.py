"""Matches of known length. As deals come, greedy bots give 1,400 commands in a match in the mean, and 100 or 6,000."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from client.arena.match import deal
from client.bots import greedy
from client.table import TableState
from engine.command import Command
from engine.deal import Deal
from engine.seats import BySeat
from services.storage.pool import Connection
from services.storage.script import Script
from spectacularbid.match.v1 import table_pb2
from tests.seats import scripted

ROUNDS: Final = 10
"""None of these matches has more."""


@dataclass(frozen=True)
class Known:
    """Where a match begins, how it is dealt, and how many commands two greedy bots give until it is over."""

    balances: BySeat[int]
    number: int
    commands: int

    def deals(self) -> tuple[Deal, ...]:
        """Of the first rounds: of all that there are."""
        return tuple(deal(0, self.number, round_no) for round_no in range(1, ROUNDS + 1))

    def wanted(self) -> dict[str, Any]:
        """What CreateMatch is asked for."""
        balances = table_pb2.Balances(north=self.balances.north, south=self.balances.south)
        return {"balances": balances, "deals": scripted(*self.deals())}


LONG: Final = Known(BySeat(150, 150), 1, 258)
SHORT: Final = Known(BySeat(150, 150), 68, 150)
UNEVEN: Final = tuple(
    Known(BySeat(100, 200), number, commands)
    for number, commands in ((9, 148), (21, 160), (45, 193), (56, 165), (63, 146), (67, 157))
)


def unhurried(seconds: float) -> Callable[[TableState], Awaitable[Command | None]]:
    """A greedy bot that takes its time: what happens beside a match then happens in its middle."""

    async def choose(table: TableState) -> Command | None:
        command = greedy.choose(table)
        if command is not None:
            await asyncio.sleep(seconds)
        return command

    return choose


async def deal_all(database: Connection, known: Known) -> None:
    """From now on every match of a database of tests is this one, those that are sought too, unless it asks for another."""
    script = Script((known.balances.north, known.balances.south), None, known.deals()).dump()
    await database.execute(
        f"""
        alter table match drop constraint match_rated_conditions;
        create function known_match() returns trigger language plpgsql as
            $$ begin new.script := coalesce(new.script, '{script}'); return new; end $$;
        create trigger known_match before insert on match for each row execute function known_match();
        """
    )
