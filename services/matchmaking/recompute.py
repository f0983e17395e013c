"""`python -m services.matchmaking recompute`: build the whole ladder again from outcomes and rulings, and compare."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import time
from collections.abc import Sequence

import asyncpg

from matchmaker.rating import UnknownModelError
from services.common.settings import PREFIX
from services.storage import ladderaudit
from services.storage.ladderaudit import Audit
from services.storage.sessions import session_settings

EQUAL, DIFFERENT, UNREADABLE = 0, 1, 2


def command(arguments: Sequence[str]) -> int:
    """Prints each difference. 0 when there is none or all were repaired, 1 when not, 2 when nothing could be read."""
    parser = argparse.ArgumentParser(
        prog="python -m services.matchmaking recompute",
        description="Build the whole ladder again from outcomes and rulings. With --check nothing is changed; "
        "without, what differs is replaced, as a recorded ruling, and what was stored is kept.",
    )
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("--author", default="", help="who repairs")
    parser.add_argument("--reason", default="", help="why")
    parser.add_argument(
        "--database-url",
        default=os.environ.get(f"{PREFIX}DATABASE_URL"),
        help=f"PostgreSQL; {PREFIX}DATABASE_URL by default",
    )
    given = parser.parse_args(arguments)
    if not given.database_url:
        parser.error(f"--database-url or {PREFIX}DATABASE_URL is needed")
    if not given.check and not (re.fullmatch(r"[\w.@+-]{1,64}", given.author) and given.reason.strip()):
        parser.error("a repair needs --author (letters, digits or . @ + - _) and --reason; or say --check")
    began = time.monotonic()
    try:
        audit = asyncio.run(_run(given.database_url, given.author, given.reason.strip(), check=given.check))
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        sys.stderr.write(f"the database does not answer as it should: {error}\n")
        return UNREADABLE
    except UnknownModelError as error:
        sys.stderr.write(f"{error}\n")
        return UNREADABLE
    return tell(audit, time.monotonic() - began)


async def _run(url: str, author: str, reason: str, *, check: bool) -> Audit:
    settings = session_settings("operator", "matchmaking recompute")
    connection = await asyncpg.connect(url, timeout=10, server_settings=settings)
    try:
        return await (
            ladderaudit.check(connection) if check else ladderaudit.repair(connection, author, reason)
        )
    finally:
        await connection.close()


def tell(audit: Audit, seconds: float) -> int:
    """Prints what was found in `seconds`; the exit status. What waits for an earlier decision is not repaired."""
    for difference in audit.differences:
        sys.stdout.write(f"{difference}\n")
    sys.stdout.write(
        f"{audit.matches} decisions and {audit.players} players in {seconds:.1f} s "
        f"({audit.matches / seconds:.0f} matches a second), {audit.undecided} not decided yet: "
    )
    if not audit.differences:
        sys.stdout.write("equal\n")
        return EQUAL
    repaired = "" if audit.ruling_id is None else f", repaired by ruling {audit.ruling_id}"
    waiting = f"; {audit.out_of_order} wait for an earlier decision" if audit.out_of_order else ""
    sys.stdout.write(f"{len(audit.differences)} differences{repaired}{waiting}\n")
    return DIFFERENT if audit.ruling_id is None or audit.out_of_order else EQUAL
