"""`python -m services.clock explain MATCH_ID`: why the clock of a match did what it did."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from uuid import UUID

import asyncpg
from rich.console import Console
from rich.table import Table

from engine.clock import MILLISECOND, SECOND
from services.clock.explanation import Explanation, explain
from services.common.settings import PREFIX
from services.storage.evidence import TimeFacts, get_time_facts
from services.storage.script import start_of
from services.storage.sessions import session_settings

REPRODUCED, NOT_REPRODUCED, UNREADABLE = 0, 1, 2


def command(arguments: Sequence[str]) -> int:
    """Prints the explanation. 0 when everything follows from what is stored, 1 when not, 2 when nothing can be read."""
    parser = argparse.ArgumentParser(prog="python -m services.clock explain", description=__doc__)
    parser.add_argument("match_id", type=UUID, help="the match")
    parser.add_argument(
        "--database-url",
        default=os.environ.get(f"{PREFIX}DATABASE_URL"),
        help=f"PostgreSQL; {PREFIX}DATABASE_URL by default",
    )
    given = parser.parse_args(arguments)
    if not given.database_url:
        parser.error(f"--database-url or {PREFIX}DATABASE_URL is needed")
    try:
        facts = asyncio.run(_read(given.database_url, str(given.match_id)))
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        sys.stderr.write(f"the database cannot be read: {error}\n")
        return UNREADABLE
    if facts is None:
        sys.stderr.write(f"there is no match {given.match_id}\n")
        return UNREADABLE
    start = start_of(facts.script, facts.bank_ns, facts.delay_ns, same_device=facts.same_device)
    made = explain(facts, start)
    console = Console(width=None if sys.stdout.isatty() else 110)
    _show(console, str(given.match_id), facts, made)
    return NOT_REPRODUCED if made.faults else REPRODUCED


async def _read(url: str, match_id: str) -> TimeFacts | None:
    connection = await asyncpg.connect(
        url, timeout=10, server_settings=session_settings("reader", "clock explain")
    )
    try:
        return await get_time_facts(connection, match_id)
    finally:
        await connection.close()


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds // SECOND}.{nanoseconds % SECOND:09d}"


def _show(console: Console, match_id: str, facts: TimeFacts, made: Explanation) -> None:
    console.print(
        f"match {match_id}: bank {facts.bank_ns / SECOND:g} s, delay {facts.delay_ns / MILLISECOND:g} ms;"
        f" seconds below"
    )
    table = Table(box=None, pad_edge=False)
    for name in ("ruling", "turn", "seat", "waited", "in the turn", "bank paid", "bank after", "credited"):
        table.add_column(name, justify="left" if name == "seat" else "right")
    table.add_column("")
    for line in made.lines:
        table.add_row(
            str(line.revision),
            str(line.turn),
            line.seat.value,
            _seconds(line.waited_ns),
            _seconds(line.elapsed_ns),
            _seconds(line.charge_ns),
            _seconds(line.bank_after_ns),
            _seconds(line.credited_ns) if line.credited_ns else "",
            line.note,
        )
    console.print(table)
    for credit in made.credits:
        console.print(f"incident: {credit}", highlight=False)
    console.print(f"outcome: {made.ending or 'none yet'}", highlight=False)
    for fault in made.faults:
        console.print(f"NOT REPRODUCED: {fault}", style="bold red", highlight=False)
    if not made.faults:
        console.print(f"reproduced: {len(made.lines)} verdicts and the outcome follow from the stored stamps")
