"""Matches of matchmaking reach a process that plays them, whatever dies at that moment."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from engine.command import Start
from engine.seats import NORTH, SEATS, SOUTH, BySeat
from tests.seats import Table, eventually
from tests.stack import Stack, stack

pytestmark = pytest.mark.asyncio(loop_scope="session")

BANK_MS = 120_000


@pytest_asyncio.fixture(loop_scope="session")
async def two(database_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    """Two game processes with the lease of a real configuration: what is quick here does not wait for it."""
    async with stack(tmp_path, database_url) as made:
        await made.start("game-1")
        yield made


async def test_a_process_that_dies_as_it_is_given_a_match_costs_a_second_and_nobodys_time(two: Stack) -> None:
    """The process is frozen when the pair is made, so that the match is its own and not loaded, and killed then. The
    match is placed on the other one; both players find it there with full banks and play."""
    frozen = two.processes["game"]  # of two that are idle the first by name is chosen

    async def both_registered() -> bool:
        events = two.processes["matchmaking"].events()
        return {e["engine_id"] for e in events if e["event"] == "game_process_registered"} == {
            "game",
            "game-1",
        }

    await eventually(both_registered)
    players = await two.players(2)
    clients = [await two.client(player) for player in players]
    frozen.signal(signal.SIGSTOP)
    seeking = [asyncio.create_task(client.seek()) for client in clients]

    async def made() -> bool:
        return bool(await two.pool.fetchval("select count(*) from match_owner where engine_id = 'game'"))

    await eventually(made)
    frozen.kill()
    handles = await asyncio.gather(*seeking)
    assert {handle.address for handle in handles} == {two.address("game-1")}
    owner = await two.pool.fetchrow("select engine_id, fence from match_owner")
    assert owner is not None
    assert tuple(owner) == ("game-1", 2)
    by_seat = {handle.seat: player for handle, player in zip(handles, players, strict=True)}
    table = Table(two, handles[0].match_id, BySeat(by_seat[NORTH], by_seat[SOUTH]), game="game-1")
    for seat in SEATS:
        await table.do(Start(seat))
    view = await table.view(NORTH)
    assert (view.prompt.clock.north_bank_ms, view.prompt.clock.south_bank_ms) == (BANK_MS, BANK_MS)
    # The process comes back: the match is not its own any more.
    await two.start("game")
    assert tuple(await two.pool.fetchrow("select engine_id, fence from match_owner")) == ("game-1", 2)  # type: ignore[arg-type]
    assert await two.pool.fetchval("select count(*) from match_outcome") == 0
