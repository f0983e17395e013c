"""The roles of the services on the servers of tests: each process reaches the database as what it is."""

from __future__ import annotations

from urllib.parse import urlsplit

import asyncpg

from services.storage.logins import ROLES, let_in, url_of

PASSWORD = "a-password-of-the-tests-only"
_OPEN: set[str] = set()


async def open_roles(database_url: str) -> None:
    """Whoever knows the password of the tests may come in as any role: once a server."""
    parts = urlsplit(database_url)
    if parts.netloc in _OPEN:
        return
    connection = await asyncpg.connect(database_url)
    try:
        await let_in(connection, dict.fromkeys(ROLES, PASSWORD))
    finally:
        await connection.close()
    _OPEN.add(parts.netloc)


def url_as(role: str, url: str) -> str:
    """The address of a database as a role has it; `url` may lead there through a proxy."""
    return url_of(url, role, PASSWORD)
