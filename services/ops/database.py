"""What the operator's commands share: the database they speak to, and times as people write them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, TypeVar

import asyncpg
import typer

from services.common.production import is_database_url
from services.common.settings import PREFIX
from services.local.places import Places
from services.storage.pool import Connection
from services.storage.sessions import session_settings

T = TypeVar("T")
UNREADABLE: Final = 2
"""Exit status when there is nothing to read."""
SESSION: Final = session_settings("operator", "ops")
"""What is asked of the server: an operator wants an answer, if only that somebody else has locked what it takes."""
WIDTH: Final = 200
"""Of tables that go to a file or a pipe."""


def _local_database() -> str:
    """That of the stack that serves in this folder; empty when none does."""
    try:
        return str(json.loads(Places(Path(".local")).serving.read_text("utf-8"))["database_url"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


Database = Annotated[
    str,
    typer.Option(
        "--database-url",
        envvar=f"{PREFIX}DATABASE_URL",
        default_factory=_local_database,
        show_default="that of the local stack",
        help="PostgreSQL.",
    ),
]


def with_database(url: str, work: Callable[[Connection], Awaitable[T]]) -> T:
    """What `work` finds, in one transaction. When the database does not answer: one line, and status 2."""

    if not url:
        raise typer.BadParameter(f"it is needed, or {PREFIX}DATABASE_URL", param_hint="--database-url")

    async def run() -> T:
        connection = await asyncpg.connect(url, timeout=10, server_settings=SESSION)
        try:
            async with connection.transaction():
                return await work(connection)
        finally:
            await connection.close()

    try:
        return asyncio.run(run())
    except ValueError:
        if is_database_url(url):
            raise
        raise typer.BadParameter("is no URL of a database", param_hint="--database-url") from None
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        sys.stderr.write(f"the database does not answer as it should: {str(error) or 'it is silent'}\n")
        raise typer.Exit(UNREADABLE) from None


def time_of(text: str, hint: str) -> datetime | None:
    """An ISO time with its zone, in UTC; None for nothing. Raises BadParameter naming the option `hint`."""
    if not text:
        return None
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no ISO time", param_hint=hint) from None
    if read.tzinfo is None:
        raise typer.BadParameter(f"{text!r} has no time zone (+00:00, Z)", param_hint=hint)
    try:
        return read.astimezone(UTC)
    except OverflowError:
        raise typer.BadParameter(f"{text!r} is before or after all years", param_hint=hint) from None
