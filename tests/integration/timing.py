"""What tests of time share: deals, the race itself, and the dispute procedure.

What is compared are stamps and rows that the services stored, never this machine's idea of the time.
"""

from __future__ import annotations

import asyncio

import asyncpg

from client.errors import CallError
from engine.command import Command
from engine.seats import NORTH
from services.storage.evidence import get_time_facts
from tests.engine.tables import deal
from tests.integration.test_explain import worked_out
from tests.seats import Table
from tests.stack import Stack

FORCED = deal("6|6 1|2", "0|6 0|1")
"""North opens with the double six."""
DRAWING = deal("0|0 0|1 0|2 1|1 1|2 2|2 0|3", "6|6 5|5", "1|3 0|6")
"""South opens with the double six, and north has nothing to play."""


async def reproduced(table: Table) -> None:
    """The dispute procedure agrees with everything that was stored."""
    connection = await table.stack.database()
    try:
        made = worked_out(await get_time_facts(connection, table.match_id))
    finally:
        await connection.close()
    assert made.faults == []


async def left_ms(table: Table) -> int:
    """What the running decision has left, as a spectator is told."""
    return (await table.view(NORTH)).prompt.clock.remaining_ms


async def near_the_deadline(table: Table, offset_ms: float) -> None:
    """Sleeps until so long before (or, negative, after) the deadline: the race itself."""
    await asyncio.sleep(max(0.0, (await left_ms(table) - offset_ms) / 1000))


async def in_time(table: Table, command: Command, decision_id: int) -> bool:
    """Whether a command is carried out; else it must have come too late."""
    try:
        await table.do(command, decision_id=decision_id)
    except CallError as error:
        if error.reason not in ("CLOCK_EXPIRED", "MATCH_OVER"):
            raise
        return False
    return True


async def one_row(made: Stack, query: str, match_id: str) -> asyncpg.Record:
    """The first row about a match."""
    row = await made.pool.fetchrow(query, match_id)
    assert row is not None
    return row


async def is_over(table: Table) -> bool:
    """Whether its outcome is stored."""
    return await table.stack.outcome(table.match_id) is not None
