"""Trouble of the database that passes: what counts as such, and what a caller is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import asyncpg

from services.common.errors import try_again
from services.common.logs import get_logger

TRANSIENT: Final = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.TransactionRollbackError,
    asyncpg.LockNotAvailableError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.QueryCanceledError,
)
"""The connection, the load or the role of the server was at fault, not the statement."""


@contextmanager
def as_try_again() -> Iterator[None]:
    """Trouble inside becomes UNAVAILABLE, TRY_AGAIN: for work that may be asked for again."""
    try:
        yield
    except TRANSIENT as error:
        get_logger().warning("database_trouble", error=type(error).__name__)
        raise try_again("the database does not answer; try again", 1.0) from error
