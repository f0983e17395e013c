"""What the operator's commands share: the database they speak to, and times as people write them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Final, TypeVar

import asyncpg
import typer

from services.common.settings import PREFIX
from services.storage.pool import Connection

T = TypeVar("T")
UNREADABLE: Final = 2
"""Exit status when there is nothing to read."""
WIDTH: Final = 200
"""Of tables that go to a file or a pipe."""

Database = Annotated[str, typer.Option("--database-url", envvar=f"{PREFIX}DATABASE_URL", help="PostgreSQL.")]


def with_database(url: str, work: Callable[[Connection], Awaitable[T]]) -> T:
    """What `work` finds, in one transaction. When the database does not answer: one line, and status 2."""

    async def run() -> T:
        connection = await asyncpg.connect(url, timeout=10)
        try:
            async with connection.transaction():
                return await work(connection)
        finally:
            await connection.close()

    try:
        return asyncio.run(run())
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        sys.stderr.write(f"the database does not answer as it should: {error}\n")
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
    return read.astimezone(UTC)
