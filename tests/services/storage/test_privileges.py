"""Each service has in the database what its task needs, and cannot do more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from services.common.rights import Rights
from services.storage.logins import ROLES
from services.storage.migrate import migrate
from services.storage.pool import Connection, open_pool
from services.storage.privileges import ROLE_PREFIX, TABLES, difference
from services.storage.sessions import LIMITS, session_settings
from tests.roles import PASSWORD, open_roles, url_as

SETTINGS: Final = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")


@pytest.fixture
async def owner(database_url: str) -> AsyncIterator[Connection]:
    await open_roles(database_url)
    made = await asyncpg.connect(database_url)
    yield made
    await made.close()


async def test_the_database_gives_each_role_what_the_table_says(owner: Connection) -> None:
    """A migration that makes a table says who may use it, and so does the table."""
    tables = await owner.fetch("select tablename from pg_tables where schemaname = 'public' order by 1")
    assert [row["tablename"] for row in tables] == sorted(TABLES)
    assert set(ROLES) == {role for by_role in TABLES.values() for role in by_role}
    for role in ROLES:
        found = await difference(owner, role, user=f"{ROLE_PREFIX}{role}")
        assert (role, found.missing, found.more) == (role, (), ())


async def test_an_owner_who_is_nobody_besides_migrates(owner: Connection, empty_database_url: str) -> None:
    """As in a managed database, where the roles are there before and nobody may change them."""
    parts = urlsplit(empty_database_url)
    name = f"owner_{parts.path[1:]}"
    await owner.execute(f"create role {name} login password '{PASSWORD}'")
    await owner.execute(f'alter database "{parts.path[1:]}" owner to {name}')
    place = parts.netloc.rpartition("@")[2]
    url = urlunsplit(parts._replace(netloc=f"{name}:{PASSWORD}@{place}"))
    await asyncio.to_thread(migrate, url)
    connection = await asyncpg.connect(url)
    try:
        for role in ROLES:
            found = await difference(connection, role, user=f"{ROLE_PREFIX}{role}")
            assert (role, found.missing, found.more) == (role, (), ())
    finally:
        await connection.close()
        last = await asyncpg.connect(empty_database_url)
        await last.execute(f"reassign owned by {name} to current_user; drop role {name}")
        await last.close()


FORBIDDEN: Final = {
    "game": (
        "update rating set mu = 3000",
        "insert into rating_decision (match_id, rated, reason, model_version) select null, true, 'rated', ''",
        "update match_outcome set winner = 'north'",
        "update match_log set events = '[]'",
        "delete from match_log",
        "update match set rated = true",
        """
        with bots as (insert into player (player_id, name, bot) values ('bot-x', 'x', true), ('bot-y', 'y', true))
        insert into match (match_id, mode, rated, north, south, bank_ns, delay_ns, start_limit_ns, continue_limit_ns)
        values (gen_random_uuid(), 'rated', true, 'bot-x', 'bot-y', 120000000000, 10000000000, 1, 1)
        """,
        "update player set bot = true",
        "delete from match_outcome",
        "insert into seek (player_id, seek_id, pool) values ('a', gen_random_uuid(), 'rated')",
        "insert into process_order (engine_id, action, author) values ('game-0', 'resume', 'me')",
        "update incident set detail = '{}'",
    ),
    "matchmaking": (
        "select events from match_log",
        "select data from match_archive",
        "insert into match_log (match_id, revision) select null, 1",
        "update match_log set fence = 1",
        "insert into match_outcome (match_id) select null",
        "update match_outcome set winner = null",
        "update match_owner set released_at = null",
        "delete from live_seat",
        "update rating_ruling set author = 'nobody'",
        "delete from rating_decision",
        "insert into clock_evidence (evidence_id) select null",
    ),
    "clock": (
        "select from match_log",
        "select from player",
        "insert into match_outcome (match_id) select null",
        "update incident set ended_at = now()",
        "delete from incident_match",
    ),
    "archiver": (
        "update match_log set fence = 1",
        "insert into match_log (match_id, revision) select null, 1",
        "delete from match_archive",
        "delete from match_outcome",
        "select from rating",
        "select match_length(gen_random_uuid())",
    ),
    "reader": (
        "update incident set ended_at = now()",
        "insert into rating_ruling (ruling_id) select null",
    ),
    "operator": (
        "update match_outcome set winner = null",
        "delete from match_log",
        "insert into match_log (match_id, revision) select null, 1",
        "update player set name = 'x'",
        "insert into pool_order (pool, action, author) values ('rated', 'resume', 'me')",
    ),
}
NOBODY: Final = (
    "truncate match_log cascade",
    "alter table match_outcome disable trigger all",
    "drop table no_show",
    "create table mine (a integer)",
    "delete from incident",
    "delete from schema_migrations",
    "set session_replication_role = replica",
    "set log_min_duration_statement = 0",
    "copy (select 1) to '/tmp/x'",
    "create role me superuser",
)
"""What no role may do at all."""


@pytest.mark.usefixtures("owner")
async def test_what_is_not_a_role_s_task_is_refused(database_url: str) -> None:
    for role in ROLES:
        connection = await asyncpg.connect(url_as(role, database_url))
        done = []
        for statement in (*FORBIDDEN[role], *NOBODY):
            try:
                await connection.execute(statement)
            except asyncpg.InsufficientPrivilegeError:
                continue
            done.append(statement)
        await connection.close()
        assert (role, done) == (role, [])


async def test_a_service_is_not_ready_while_it_may_not_what_it_must(
    owner: Connection, database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what is missing, and goes on by itself when that is granted."""
    monkeypatch.setattr("services.common.rights.LOOK_SECONDS", 0)
    rights = Rights("clock", strict=True)
    user = f"{ROLE_PREFIX}clock"
    connection = await asyncpg.connect(url_as("clock", database_url))
    try:
        async with owner.transaction():
            await owner.execute(
                f"revoke insert on incident from {user}; grant select (seat) on match_log to {user}"
            )
        await rights.look(connection)
        assert not rights.sufficient
        told = capsys.readouterr().out
        assert "insert on incident" in told
        assert "select (seat) on match_log" in told
        await owner.execute(f"grant insert on incident to {user}")
        await rights.look(connection)
        assert not rights.sufficient, "it may do more than it must"
        await owner.execute(f"revoke select (seat) on match_log from {user}")  # noqa: S608 - no query
        await rights.look(connection)
        assert rights.sufficient
    finally:
        await connection.close()


async def test_the_owner_is_too_much_for_a_service_in_production(owner: Connection) -> None:
    for strict in (True, False):
        rights = Rights("game", strict=strict)
        await rights.look(owner)
        assert rights.sufficient is not strict
    assert "owns tables" in (await difference(owner, "game")).more


async def test_a_role_that_may_become_another_has_more_than_it_needs(owner: Connection) -> None:
    """Its own grants say nothing of what it can take on with `set role`."""
    attempt = owner.transaction()
    await attempt.start()
    try:
        await owner.execute(f"grant pg_read_server_files to {ROLE_PREFIX}clock")
        found = await difference(owner, "clock", user=f"{ROLE_PREFIX}clock")
    finally:
        await attempt.rollback()
    assert found.more == ("may become pg_read_server_files",)


async def test_no_session_waits_or_works_without_end(owner: Connection, database_url: str) -> None:
    """By its role, and by what it asks for when it connects, as where nobody may change roles."""
    asked = ", ".join(f"current_setting('{name}') as {name}" for name in SETTINGS)
    for role in LIMITS:
        wanted = {name: session_settings(role, "")[name] for name in SETTINGS}
        connection = await asyncpg.connect(url_as(role, database_url))
        by_role = await connection.fetchrow(f"select {asked}")
        await connection.close()
        pool = await open_pool(database_url, name=role, size=1, wait_seconds=5)
        by_wish = await pool.fetchrow(f"select {asked}")
        await pool.close()
        assert by_role is not None
        assert by_wish is not None
        plain = {
            name: value.replace("1min", "60s").replace("2min", "120s") for name, value in by_role.items()
        }
        assert plain == wanted
        assert dict(by_wish) == dict(by_role)
