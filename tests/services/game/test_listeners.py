"""In which order the streams of a match hear of something."""

from __future__ import annotations

import asyncio

import pytest

from services.game.listeners import Listeners
from services.game.story import Audience


@pytest.mark.parametrize(
    ("to_act", "order"),
    [
        (Audience.NORTH, ["south", "south", "north", "north", "spectator", "spectator"]),
        (Audience.SOUTH, ["north", "north", "south", "south", "spectator", "spectator"]),
        (None, ["north", "north", "south", "south", "spectator", "spectator"]),
    ],
)
async def test_who_may_not_act_hears_before_who_may_and_spectators_last(
    to_act: Audience | None, order: list[str]
) -> None:
    """The list of what may be done is made in time that depends on a hidden hand: nothing of another player waits for it."""
    listeners, heard = Listeners(), list[str]()

    async def listen(audience: Audience) -> None:
        wake = asyncio.Event()
        listeners.add(wake, audience)
        await wake.wait()
        heard.append(audience.value)
        listeners.remove(wake, audience)

    audiences = [Audience.SPECTATOR, Audience.SOUTH, Audience.NORTH]
    async with asyncio.TaskGroup() as group:
        for audience in (*audiences, *audiences):
            group.create_task(listen(audience))
        await asyncio.sleep(0)  # each of them listens
        listeners.announce(to_act)
    assert heard == order
    assert listeners.news == 1
    assert not any(listeners.present(audience) for audience in Audience)
