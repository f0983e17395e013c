"""Trouble of the database that passes: what a caller is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from services.common.errors import try_again
from services.common.logs import get_logger
from services.storage.pool import TRANSIENT

__all__ = ["TRANSIENT", "as_try_again"]


@contextmanager
def as_try_again() -> Iterator[None]:
    """Trouble inside becomes UNAVAILABLE, TRY_AGAIN: for work that may be asked for again."""
    try:
        yield
    except TRANSIENT as error:
        get_logger().warning("database_trouble", error=type(error).__name__)
        raise try_again("the database does not answer; try again", 1.0) from error
