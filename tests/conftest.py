"""A real PostgreSQL for the tests: one server a run, one fresh database a test.

The server is the one of TEST_DATABASE_URL if that is set, else an embedded one with its data in memory, else a
container where a container runtime answers.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from services.local.postgres import EmbeddedPostgres, PostgresError, find_binaries
from services.storage.migrate import migrate

# Tests start some hundred Python processes: what these import is compiled once, whatever the habit of the machine.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A server on which databases may be made; the database in the URL itself belongs to nobody."""
    with ExitStack() as stack:
        yield os.environ.get("TEST_DATABASE_URL") or stack.enter_context(_own_server())


@pytest.fixture(scope="session")
def template_database(postgres_url: str) -> Iterator[str]:
    """The name of a migrated database to copy: far faster than migrating for each test."""
    with _database(postgres_url) as (name, url):
        migrate(url)
        yield name


@pytest.fixture
def database_url(postgres_url: str, template_database: str) -> Iterator[str]:
    """A fresh database with the current schema, dropped after the test."""
    with _database(postgres_url, template=template_database) as (_, url):
        yield url


@pytest.fixture(scope="session")
def new_database(postgres_url: str, template_database: str) -> Iterator[Callable[[], str]]:
    """Makes databases with the current schema that live as long as the tests run; returns their URLs."""
    with ExitStack() as made:
        yield lambda: made.enter_context(_database(postgres_url, template=template_database))[1]


@pytest.fixture
def empty_database_url(postgres_url: str) -> Iterator[str]:
    """A fresh database without a schema, dropped after the test."""
    with _database(postgres_url) as (_, url):
        yield url


@contextmanager
def _own_server() -> Iterator[str]:
    try:
        find_binaries()
    except PostgresError:
        with _container() as url:
            yield url
        return
    memory = Path("/dev/shm")  # noqa: S108 - a folder of our own inside it
    place = memory if os.access(memory, os.W_OK) and _free_bytes(memory) > 1 << 30 else None
    with (
        tempfile.TemporaryDirectory(prefix="spectacular-bid-", dir=place) as folder,
        EmbeddedPostgres(folder, durable=False) as server,
    ):
        yield server.url


@contextmanager
def _container() -> Iterator[str]:
    from testcontainers.postgres import (
        PostgresContainer,
    )  # needs seconds to import, and a container runtime to work

    with PostgresContainer("postgres:18-alpine", driver=None) as container:
        yield container.get_connection_url()


@contextmanager
def _database(server: str, *, template: str = "template0") -> Iterator[tuple[str, str]]:
    name = f"test_{secrets.token_hex(6)}"
    asyncio.run(_execute(server, f'CREATE DATABASE "{name}" TEMPLATE "{template}"'))
    try:
        yield name, urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    finally:
        # A test that failed may have left connections.
        asyncio.run(_execute(server, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'))


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _free_bytes(folder: Path) -> int:
    facts = os.statvfs(folder)
    return facts.f_bavail * facts.f_frsize
