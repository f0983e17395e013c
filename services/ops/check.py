"""Whether a database is consistent with itself and with the outcomes it has stored."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Annotated, Final
from uuid import UUID

import asyncpg
import typer

from matchmaker.rating import UnknownModelError
from services.clock.explanation import Explanation, explain
from services.ops.database import UNREADABLE, Database
from services.storage import consistency, ladderaudit
from services.storage.evidence import read_time_facts
from services.storage.matchlog import DamagedError
from services.storage.pool import Connection
from services.storage.script import start_of
from services.storage.sessions import WHOLE_SECONDS, session_settings, statement_seconds

INCONSISTENT: Final = 1
"""Exit status when something does not hold."""


@dataclass(slots=True)
class Findings:
    """What was looked at, and what does not hold."""

    finished: int = 0
    live: int = 0
    decisions: int = 0
    undecided: int = 0
    faults: list[str] = field(default_factory=list)


def check(
    database_url: Database,
    *,
    newest: Annotated[
        int,
        typer.Option(min=0, help="Play so many finished matches again, the newest first; 0: all of them."),
    ] = 10_000,
    json_: Annotated[bool, typer.Option("--json", help="JSON.")] = False,
) -> None:
    """Hold what is stored against what must follow from it; changes nothing. After a restore, or when in doubt.

    Of all rows: logs without holes, outcomes and final events, seats and owners of live matches, evidence, and the
    ladder, built again from nothing. Of live matches and the newest finished ones: the log is played again, the points
    are those of the outcome, and every charge, credit and forfeit follows from the stored stamps. Exit status 1 when
    something does not hold, 2 when nothing can be read.
    """
    began = time.monotonic()
    try:
        found = asyncio.run(_run(database_url, newest or sys.maxsize))
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, UnknownModelError) as error:
        sys.stderr.write(f"the database cannot be checked: {error}\n")
        raise typer.Exit(UNREADABLE) from None
    if json_:
        sys.stdout.write(f"{json.dumps(asdict(found), indent=2)}\n")
    else:
        for fault in found.faults:
            sys.stdout.write(f"{fault}\n")
        sys.stdout.write(
            f"{found.finished} finished and {found.live} live matches played again, {found.decisions} decisions made"
            f" again, {found.undecided} not decided yet, in {time.monotonic() - began:.1f} s:"
            f" {f'{len(found.faults)} faults' if found.faults else 'consistent'}\n"
        )
    if found.faults:
        raise typer.Exit(INCONSISTENT)


async def _run(url: str, newest: int) -> Findings:
    connection = await asyncpg.connect(
        url, timeout=10, server_settings=session_settings("reader", "ops check")
    )
    try:
        # One snapshot, so that it may be asked of a database that is at work.
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            await connection.execute(statement_seconds(WHOLE_SECONDS))
            return await look(connection, newest)
    finally:
        await connection.close()


async def look(connection: Connection, newest: int) -> Findings:
    """Everything, with the newest finished matches played again; in the caller's transaction."""
    found = Findings()
    for broken in await consistency.broken_rules(connection):
        more = f" and {broken.count - len(broken.first)} more" if broken.count > len(broken.first) else ""
        found.faults.append(f"not so: {broken.rule}: {', '.join(broken.first)}{more}")
    for ended in await consistency.newest_ended(connection, newest):
        found.finished += 1
        _points(found, ended, await _played_again(connection, found, ended.match_id))
    for match_id in await consistency.live_matches(connection):
        found.live += 1
        await _played_again(connection, found, match_id)
    audit = await ladderaudit.compare(connection)
    found.decisions, found.undecided = audit.matches, audit.undecided
    found.faults += [f"the ladder differs: {difference}" for difference in audit.differences]
    return found


async def _played_again(connection: Connection, found: Findings, match_id: UUID) -> Explanation | None:
    try:
        facts = await read_time_facts(connection, str(match_id))
    except DamagedError as error:
        found.faults.append(f"match {match_id}: {error}")
        return None
    assert facts is not None
    try:
        start = start_of(facts.script, facts.bank_ns, facts.delay_ns, same_device=facts.same_device)
    except ValueError as error:
        found.faults.append(f"match {match_id}: {error}")
        return None
    made = explain(facts, start)
    found.faults += [f"match {match_id}: {fault}" for fault in made.faults]
    return made


def _points(found: Findings, ended: consistency.Ended, made: Explanation | None) -> None:
    if made is None or made.state is None:
        return
    played, stored = made.state.balances, (ended.north_balance, ended.south_balance)
    if (played.north, played.south) != stored:
        found.faults.append(
            f"match {ended.match_id}: the outcome has the points {stored}, the log {(played.north, played.south)}"
        )
