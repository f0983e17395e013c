"""What the server itself does with what is stored: its log tells nothing, and limits of time cut no commit."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import asyncpg
import pytest

from services.game.shuffle import salt
from services.local.postgres import EmbeddedPostgres
from services.storage.endings import Ending
from services.storage.journal import SAFE
from services.storage.migrate import migrate
from services.storage.pool import Connection
from services.storage.privileges import ROLE_PREFIX
from tests.roles import open_roles, url_as
from tests.seats import eventually
from tests.services.storage.test_journal import entry, journal_on, new_match


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    """One of our own, as `make run` has it, since all of it is changed."""
    with (
        tempfile.TemporaryDirectory(prefix="spectacular-bid-") as folder,
        EmbeddedPostgres(folder, durable=False) as made,
    ):
        migrate(made.url)
        yield made


@pytest.fixture
async def owner(server: EmbeddedPostgres) -> AsyncIterator[Connection]:
    await open_roles(server.url)
    made = await asyncpg.connect(server.url)
    yield made
    await made.close()


async def test_no_log_of_the_server_holds_a_hand_or_a_salt(
    server: EmbeddedPostgres, owner: Connection
) -> None:
    """Even where every statement is logged, and where a constraint refuses the row."""
    await owner.execute(f"alter role {ROLE_PREFIX}game set log_min_duration_statement = 0")
    secret = salt().hex()
    dealt = json.dumps(
        [{"type": "round_dealt", "north": ["0|0", "6|6"], "boneyard": ["5|6"], "salt": secret}]
    )
    async with journal_on(url_as("game", server.url)) as (journal, pool):
        match_id = await new_match(pool)
        first = replace(entry(match_id), events=dealt)
        await journal.append(first)
        refused = replace(first, revision=2, first_sequence=2, last_sequence=2, request_id=None)
        assert refused.judged is not None
        with pytest.raises(asyncpg.CheckViolationError):
            await journal.append(replace(refused, judged=replace(refused.judged, bank_after_ns=-1)))
    told = server.log_path.read_text("utf-8")
    assert "duration: " in told, "nothing is logged"
    assert "insert into match_log" in told
    assert "violates check constraint" in told
    assert secret not in told
    assert "6|6" not in told
    files = [path for path in server.data_dir.rglob("*log*") if path.is_file() and path != server.log_path]
    assert [path for path in files if secret in path.read_text("latin-1")] == []


async def waiting_commits(owner: Connection, query: str) -> int:
    """Sessions that wait for a standby at the end of such a statement."""
    found: int = await owner.fetchval(
        "select count(*) from pg_stat_activity where wait_event = 'SyncRep' and strpos(query, $1) > 0", query
    )
    return found


@asynccontextmanager
async def without_standby(owner: Connection, url: str) -> AsyncIterator[None]:
    """No commit is through as long as this lasts: the standby that it waits for does not come."""
    probe = await asyncpg.connect(url)
    commit = asyncio.create_task(probe.execute("select"))
    try:
        await owner.execute("alter system set synchronous_standby_names = 'nobody'")
        await owner.execute("select pg_reload_conf()")

        async def holds() -> bool:
            nonlocal commit
            # The server takes the setting up when it likes: it holds when a commit waits.
            if commit.done():
                commit = asyncio.create_task(
                    probe.execute("select pg_logical_emit_message(true, 'probe', '')")
                )
            return await waiting_commits(owner, "'probe'") == 1

        await eventually(holds)
        yield
    finally:
        await owner.execute("alter system reset synchronous_standby_names")
        await owner.execute("select pg_reload_conf()")
        await commit
        await probe.close()


async def test_no_limit_of_time_cuts_a_commit_that_waits_for_a_standby(
    server: EmbeddedPostgres, owner: Connection
) -> None:
    """It would be told as stored while no second server has it."""
    waiting, other = await asyncpg.connect(server.url), await asyncpg.connect(server.url)
    await owner.execute("create table kept (n integer)")
    for connection in (waiting, other):
        await connection.execute("set statement_timeout = '1s'; set lock_timeout = '1s'")
    async with without_standby(owner, server.url):
        commit = asyncio.create_task(waiting.execute("insert into kept values ($1)", 1))

        async def waits() -> bool:
            return await waiting_commits(owner, "insert into kept") == 1

        await eventually(waits)
        # What begins now is cut: whatever could have cut the commit would have done so before.
        with pytest.raises(asyncpg.QueryCanceledError):
            await other.execute("select pg_sleep(60)")
        assert not commit.done()
    assert await commit == "INSERT 0 1"
    for connection in (waiting, other):
        await connection.close()


async def test_what_only_one_server_has_is_not_told(
    server: EmbeddedPostgres, owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that is given up while it waits for a standby is there, for all who look, and not safe. It is found by the
    next attempt, which waits in its turn."""
    monkeypatch.setattr("services.storage.pool.COMMAND_TIMEOUT_SECONDS", 2.0)
    async with journal_on(server.url) as (journal, pool):
        match_id = await new_match(pool)
        async with without_standby(owner, server.url):
            # The end of a match: repeated, it locks nothing any more that would make a commit of it.
            ending = Ending("north", "resignation", "", 150, 150)
            told = journal.append(replace(entry(match_id), ending=ending))

            async def seen() -> bool:
                return bool(
                    await owner.fetchval(
                        "select exists (select from match_log where match_id = $1)", match_id
                    )
                )

            async def waits_again() -> bool:
                return await waiting_commits(owner, SAFE) == 1

            await eventually(seen)
            await eventually(waits_again)
            assert not told.done()
        await told
