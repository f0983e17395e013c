"""Move the logs of matches that have long been over to compact storage."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from dataclasses import dataclass
from typing import Annotated, Final

import asyncpg
import typer

from services.ops.database import UNREADABLE, Database
from services.storage import archiving
from services.storage.archiving import ChangedError
from services.storage.pool import Connection
from services.storage.sessions import session_settings

LOOKED_AT_ONCE: Final = 200
FAULTY: Final = 1
"""Exit status when a log could not be moved as it should."""
MEGABYTE: Final = 1_000_000


@dataclass(slots=True)
class Tally:
    """What was done so far."""

    matches: int = 0
    rulings: int = 0
    plain_bytes: int = 0
    packed_bytes: int = 0
    faults: int = 0


def compact(
    database_url: Database,
    days: Annotated[
        float,
        typer.Option(min=0, help="Only matches that ended longer ago. Less than 1: only where nobody plays."),
    ] = 30.0,
    rate: Annotated[
        float, typer.Option(min=0.001, help="At most so many matches a second, so that nobody is disturbed.")
    ] = 50.0,
    limit: Annotated[int, typer.Option(min=0, help="At most so many matches; 0: all.")] = 0,
) -> None:
    """Move the logs of matches that have long been over to compact storage, one transaction a match.

    It may be stopped at any time, in any way, and goes on where it was the next time. SIGTERM and Ctrl-C end it after
    the match under way.
    """
    tally = Tally()
    try:
        alone = asyncio.run(_run(database_url, days, rate, limit or sys.maxsize, tally))
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        _tell(tally)
        sys.stderr.write(f"the database does not answer as it should: {error}\n")
        raise typer.Exit(UNREADABLE) from None
    if not alone:
        typer.echo("another one moves logs of this database already")
        return
    _tell(tally)
    if tally.faults:
        raise typer.Exit(FAULTY)


async def _run(url: str, days: float, rate: float, limit: int, tally: Tally) -> bool:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    connection = await asyncpg.connect(
        url, timeout=10, server_settings=session_settings("archiver", "ops compact")
    )
    try:
        if not await archiving.become_mover(connection):
            return False
        await _move_all(connection, days, rate, limit, tally, stop)
        return True
    finally:
        await connection.close()


async def _move_all(
    connection: Connection, days: float, rate: float, limit: int, tally: Tally, stop: asyncio.Event
) -> None:
    after, due = 0, time.monotonic()
    while found := await archiving.candidates(
        connection, days=days, after=after, limit=min(LOOKED_AT_ONCE, limit - tally.matches)
    ):
        for match in found:
            if stop.is_set():
                return
            await _move(connection, match, tally)
            # By a timetable: what a match costs is part of its share of a second. Lost time is not made up.
            due = max(due + 1 / rate, time.monotonic())
            await _wait(stop, due - time.monotonic())
        after = found[-1].ended_no


async def _move(connection: Connection, match: archiving.Finished, tally: Tally) -> None:
    try:
        moved = await archiving.move(connection, match.match_id)
    except (ChangedError, TypeError) as error:
        # It stays where it is; the others need not wait for somebody to look at it.
        sys.stderr.write(f"not moved: {error}\n")
        tally.faults += 1
        return
    if moved is not None:
        tally.matches += 1
        tally.rulings += moved.rulings
        tally.plain_bytes += moved.plain_bytes
        tally.packed_bytes += moved.packed_bytes


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await stop.wait()
    except TimeoutError:
        return


def _tell(tally: Tally) -> None:
    share = f" ({tally.packed_bytes / tally.plain_bytes:.1%})" if tally.plain_bytes else ""
    faults = f", {tally.faults} not moved" if tally.faults else ""
    typer.echo(
        f"{tally.matches} matches moved with {tally.rulings} rulings: {tally.plain_bytes / MEGABYTE:.2f} MB are"
        f" {tally.packed_bytes / MEGABYTE:.2f} MB now{share}{faults}"
    )
