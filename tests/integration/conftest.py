"""One running stack for all tests that leave it as they found it, and a new one for those that break something."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from spectacularbid.internal.clock.v1 import clock_service_pb2 as clock_pb
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.proxy import Proxy, Way
from tests.stack import HOST, Stack, stack
from tests.taps import CommitTap, GrpcTap


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared(
    new_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stack]:
    """The shared stack. Matches are cheap and players are new for each test, so nobody is in anybody's way.

    Heartbeats are quick so that quiet streams need no waiting for.
    """
    folder = tmp_path_factory.mktemp("shared-stack")
    extra = {"game": {"HEARTBEAT_SECONDS": "0.5"}}
    async with stack(folder, await asyncio.to_thread(new_database), extra) as made:
        yield made


SHORT_LEASE = {"game": {"HEARTBEAT_SECONDS": "0.5", "LEASE_SECONDS": "2"}}


@pytest_asyncio.fixture(loop_scope="session")
async def fresh(database_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    """A stack of the test's own."""
    async with stack(tmp_path, database_url, SHORT_LEASE) as made:
        yield made


# A stack that is not used any more costs a tenth of a core, and what one module's tests leave behind is nobody else's.
@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def fragile(
    new_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stack]:
    """The stack behind `own`."""
    async with stack(
        tmp_path_factory.mktemp("fragile-stack"), await asyncio.to_thread(new_database), SHORT_LEASE
    ) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def own(fragile: Stack) -> AsyncIterator[Stack]:
    """A stack for one test at a time, whose processes it may end and freeze: they are there again for the next."""
    yield fragile
    await fragile.restore("clock", "matchmaking", "game")


@dataclass(frozen=True)
class Behind:
    """A stack whose services reach PostgreSQL through a proxy."""

    stack: Stack
    proxy: Proxy


# Proxies stand still while no test of this loop runs: their stacks live no longer than one module's tests.
@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def behind(
    new_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Behind]:
    """A stack with a database that can be taken away, and is given back. The tests themselves reach it directly."""
    database_url = await asyncio.to_thread(new_database)
    url = urlsplit(database_url)
    async with Proxy(str(url.hostname), url.port or 5432) as proxy:
        login = url.netloc.rpartition("@")[0]
        through = url._replace(netloc=f"{login}@{proxy.address}").geturl()
        extra = {name: {"DATABASE_URL": through} for name in ("clock", "matchmaking", "game")}
        async with stack(tmp_path_factory.mktemp("stack-behind"), database_url, extra) as made:
            yield Behind(made, proxy)


@dataclass(frozen=True)
class Tapped:
    """A stack, and everything the game process says to the clock, to PostgreSQL and to one player."""

    stack: Stack
    clock: GrpcTap
    database: CommitTap
    answers: GrpcTap

    def clear(self) -> None:
        """Nothing is watched any more."""
        self.clock.clear()
        self.answers.clear()
        self.database.request_id = ""
        self.database.on_asked = self.database.on_stored = lambda: True


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def tapped_stack(
    new_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Tapped]:
    """The stack behind `tapped`."""
    database_url = await asyncio.to_thread(new_database)
    url = urlsplit(database_url)
    async with (
        Proxy(str(url.hostname), url.port or 5432) as database,
        Proxy(HOST, 0) as clock,
        Proxy(HOST, 0) as answers,
    ):
        messages = {Way.UP: clock_pb.GovernRequest, Way.DOWN: clock_pb.GovernResponse}
        clock_tap = GrpcTap(clock, messages, parts="messages")
        answers_tap = GrpcTap(answers, {Way.DOWN: pb.SubmitResponse})
        through = url._replace(netloc=f"{url.netloc.rpartition('@')[0]}@{database.address}").geturl()
        game = {
            "CLOCK_ADDRESS": clock.address,
            "DATABASE_URL": through,
            "HEARTBEAT_SECONDS": "0.5",
            "LEASE_SECONDS": "2",
        }
        tap = CommitTap(database)
        async with stack(
            tmp_path_factory.mktemp("tapped-stack"), database_url, {"game": game}, names=()
        ) as made:
            for name, proxy in (("clock", clock), ("game", answers)):
                made.address(name)
                proxy.aim((HOST, made.ports[name]))
            made.ports["answers"] = int(answers.address.rpartition(":")[2])
            await made.start("clock", "matchmaking", "game")
            yield Tapped(made, clock_tap, tap, answers_tap)


@pytest_asyncio.fixture(loop_scope="session")
async def tapped(tapped_stack: Tapped) -> AsyncIterator[Tapped]:
    """All of it runs before and after each test."""
    yield tapped_stack
    tapped_stack.clear()
    tapped_stack.clock.proxy.heal()
    await tapped_stack.stack.restore("clock", "matchmaking", "game")
