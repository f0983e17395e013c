"""The schema is brought up to date by anyone, any number of times, and services wait for exactly theirs."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import pytest

from services.storage import migrate as migration
from services.storage.migrate import (
    MigrationError,
    SchemaError,
    expected_version,
    migrate,
    schema_version,
    wait_for_schema,
)


async def test_an_empty_database_gets_the_schema_and_a_second_time_changes_nothing(
    empty_database_url: str,
) -> None:
    connection = await asyncpg.connect(empty_database_url)
    try:
        assert await schema_version(connection) is None
        await asyncio.to_thread(migrate, empty_database_url)
        assert await schema_version(connection) == expected_version()
        await asyncio.to_thread(migrate, empty_database_url)
        await wait_for_schema(connection, 0)
    finally:
        await connection.close()


def test_many_may_migrate_at_once(empty_database_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(migrate, [empty_database_url] * 4))


async def test_a_service_waits_for_the_schema(empty_database_url: str) -> None:
    connection = await asyncpg.connect(empty_database_url)
    try:
        waiting = asyncio.create_task(wait_for_schema(connection, 60))
        await asyncio.to_thread(migrate, empty_database_url)
        await waiting
    finally:
        await connection.close()


async def test_an_older_schema_is_refused_with_the_way_out(empty_database_url: str) -> None:
    connection = await asyncpg.connect(empty_database_url)
    try:
        with pytest.raises(SchemaError, match=r"at nothing and lacks .*services\.storage\.migrate"):
            await wait_for_schema(connection, 0)
    finally:
        await connection.close()


async def test_a_newer_schema_is_refused(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("INSERT INTO schema_migrations VALUES ('99990101000001')")
        with pytest.raises(SchemaError, match="newer"):
            await wait_for_schema(connection, 60)
    finally:
        await connection.close()


def test_a_faulty_migration_is_reported_with_its_cause(
    empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "0001_faulty.sql").write_text(
        "-- migrate:up\nCREATE TABLE t (n nonsense);\n-- migrate:down\n", "utf-8"
    )
    monkeypatch.setattr(migration, "MIGRATIONS", tmp_path)
    with pytest.raises(MigrationError, match='type "nonsense" does not exist'):
        migrate(empty_database_url)


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("postgresql://u:p@127.0.0.1:5/d", "postgresql://u:p@127.0.0.1:5/d?sslmode=disable"),
        ("postgresql://u@localhost/d?a=b", "postgresql://u@localhost/d?a=b&sslmode=disable"),
        ("postgresql://u@127.0.0.1/d?sslmode=require", "postgresql://u@127.0.0.1/d?sslmode=require"),
        ("postgresql://u@db.example/d", "postgresql://u@db.example/d"),
    ],
)
def test_only_a_server_on_this_machine_may_do_without_tls_unasked(given: str, used: str) -> None:
    assert migration._with_ssl_mode(given) == used


def test_a_migration_lets_go_of_a_table_that_it_does_not_get(
    empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes behind it would wait as long as it does. It is tried again, and gets there when the table is free."""

    def step(number: int, statement: str) -> None:
        text = f"-- migrate:up\n{statement};\n-- migrate:down\n"
        (tmp_path / f"{number:04}_step.sql").write_text(text, "utf-8")

    async def locked(work: Callable[[], None]) -> None:
        connection = await asyncpg.connect(empty_database_url)
        try:
            async with connection.transaction():
                await connection.execute("lock table t in access share mode")
                await asyncio.to_thread(work)
        finally:
            await connection.close()

    def gives_up() -> None:
        with pytest.raises(MigrationError, match="lock timeout"):
            migrate(empty_database_url, lock_seconds=0.05, attempts=2)

    monkeypatch.setattr(migration, "MIGRATIONS", tmp_path)
    monkeypatch.setattr(migration, "_LOCK_PAUSE_SECONDS", 0)
    step(1, "create table t (n integer)")
    migrate(empty_database_url)
    step(2, "alter table t add column m integer")
    asyncio.run(locked(gives_up))
    migrate(empty_database_url)
