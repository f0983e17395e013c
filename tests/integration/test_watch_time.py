"""One command shows live what goes wrong with time: real clocks, a real game process, a real database."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.integration.operators import WHY, ops
from tests.processes import SECONDS_MAX, Process, running
from tests.roles import url_as
from tests.seats import Table
from tests.stack import PREFIX, SECRET, Stack, time_control

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Screen:
    """What an operator sees."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.asked_for: set[int] = set()

    async def shows(self, *words: str) -> str:
        """A line with all these words that nobody has asked for; clock and database may come in any order."""
        async with asyncio.timeout(SECONDS_MAX):
            while True:
                lines = self.process.log_path.read_text("utf-8").splitlines()
                for number, line in enumerate(lines):
                    if number not in self.asked_for and all(word in line for word in words):
                        self.asked_for.add(number)
                        return line
                assert self.process.exit_status() is None, self.process.log_tail()
                await asyncio.sleep(0.02)

    def times_shown(self, *words: str) -> int:
        """How many lines have all these words."""
        lines = self.process.log_path.read_text("utf-8").splitlines()
        return sum(1 for line in lines if all(word in line for word in words))


@asynccontextmanager
async def watching(made: Stack, folder: Path, *arguments: str, secret: str = SECRET) -> AsyncIterator[Screen]:
    """The command, as an operator would run it."""
    env = {f"{PREFIX}INTERNAL_SECRET": secret, f"{PREFIX}DATABASE_URL": url_as("reader", made.database_url)}
    async with running("services.ops", "watch", *arguments, env=env, log_dir=folder, name="watch") as process:
        yield Screen(process)


async def test_one_command_shows_everything_as_it_happens(own: Stack, tmp_path: Path) -> None:
    """Timeouts, a session that is lost and back, a stall, a declared void, a clock that dies and comes back."""
    clock = own.address("clock")
    async with watching(own, tmp_path, "--clock", clock) as screen:
        await screen.shows(clock, "game processes 1")
        await screen.shows("database", "followed")
        late = await Table.create(own, time_control=time_control(0, 300))
        line = await screen.shows("timeout", late.match_id)
        assert "proven by watermark" in line
        assert "[game]" in line
        # A process that stands still: its session is lost, and what it did not hear is an incident.
        own.processes["game"].signal(signal.SIGSTOP)
        await screen.shows("session lost: no answer to pings", "[game]")
        own.processes["game"].signal(signal.SIGCONT)
        await screen.shows("incident stall", "noticed by game/game")
        await screen.shows(clock, "incident clock_lost")
        named = await Table.create(own)
        incident = await ops(own, "incident", "declare", "--effect", "void", *WHY, "--match", named.match_id)
        await screen.shows("database", "incident operator", incident, "switch 3 was down", "operator/ada")
        await screen.shows("database", f"void {named.match_id}", "operator/ada: switch 3 was down")
        own.processes["clock"].kill()
        await screen.shows(clock, "not followed")
        await own.start("clock")
        await screen.shows(clock, "(clock-")
        # A clock tells of its incidents at once and stores them later: each is shown once.
        stored = await own.pool.fetch("select incident_id::text from incident where kind <> 'operator'")
        for (incident_id,) in stored:
            assert screen.times_shown("incident", incident_id) <= 1


async def test_a_clock_that_leaves_in_order_says_so(own: Stack, tmp_path: Path) -> None:
    clock = own.address("clock")
    async with watching(own, tmp_path, "--clock", clock) as screen:
        await screen.shows(clock, "game processes")
        await own.processes["clock"].terminate()
        await screen.shows("session lost: this clock stops")
        await screen.shows(clock, "not followed: the clock leaves")


async def test_the_database_alone_and_one_that_was_away(own: Stack, tmp_path: Path) -> None:
    """What was stored while nobody was connected is shown afterwards."""
    async with watching(own, tmp_path) as screen:
        await screen.shows("database", "followed")
        # Nobody is connected at the moment in which this is stored.
        missed = await own.pool.fetchval(
            """
            with gone as (
                select pg_terminate_backend(pid) from pg_stat_activity
                where query like '%pg_visible_in_snapshot%' and pid <> pg_backend_pid()
            )
            insert into incident (incident_id, kind, noticed_by, began_at, ended_at, policy_version)
            select gen_random_uuid(), 'stall', 'game/game-9', now() - interval '1 hour', now(), 'v1'
            from (select count(*) from gone) g
            returning incident_id::text
            """
        )
        await screen.shows("incident stall", missed, "noticed by game/game-9")
        incident = await ops(own, "incident", "declare", "--effect", "note", *WHY, "--all")
        await screen.shows("incident operator", incident, "lasts")
        await ops(own, "incident", "close", incident, "--reason", "replaced")
        await screen.shows("incident operator", incident, "lasted")


async def test_a_wrong_secret_and_nothing_to_follow_end_with_one_line(own: Stack, tmp_path: Path) -> None:
    async with watching(
        own, tmp_path, "--clock", own.address("clock"), "--database-url", "", secret="not the secret at all"
    ) as screen:
        assert await screen.process.ended() == 1
        assert "secret is missing or wrong" in screen.process.log_tail()
        assert "Traceback" not in screen.process.log_tail()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("nonsense", "invalid DSN"),
        ("postgresql://{there}/no_such_database?sslmode=disable", "does not exist"),
    ],
)
async def test_a_database_that_waiting_does_not_bring_back_is_said_once(
    own: Stack, url: str, why: str
) -> None:
    there = own.database_url.split("://")[1].rpartition("/")[0]
    said = await ops(own, "watch", "--database-url", url.format(there=there), status=2)
    (line,) = said.splitlines()
    assert "not followed: " in line
    assert why in line
