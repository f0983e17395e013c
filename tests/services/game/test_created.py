"""How many matches players may make themselves, on one process."""

from __future__ import annotations

import asyncio

from services.game.created import PLAYER_MIN, Created


async def test_a_match_counts_until_what_plays_it_is_over() -> None:
    """Cancelled before it began, too: a place that is never given back would be lost to everybody."""
    over = asyncio.Event()

    async def play() -> None:
        await over.wait()

    created = Created(PLAYER_MIN)
    playing = [asyncio.create_task(play()) for _ in range(PLAYER_MIN)]
    for task in playing:
        created.count("ada", task)
    playing[0].cancel()
    with created.making("ada", 1) as room:
        assert not room
    await asyncio.wait(playing[:1])
    with created.making("ada", 1) as first, created.making("bob", 1) as second:
        assert (first, second) == (True, False)
    over.set()
    await asyncio.wait(playing[1:])
    with created.making("ada", 0) as without_place, created.making("ada", 2) as room:
        assert (without_place, room) == (False, True)
