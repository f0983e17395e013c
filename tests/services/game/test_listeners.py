"""In which order the streams of a match hear of something."""

from __future__ import annotations

import asyncio

import pytest

from services.game.listeners import AT_ONCE, PROMPT, Listeners, Pace
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
    listeners, heard = Listeners(Pace()), list[str]()

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


async def test_many_streams_are_woken_a_few_at_a_time_whatever_they_are_about() -> None:
    """All at once they would keep the process from hearing anybody, and the gap is credited to every match. The newest
    streams of a seat do not wait behind them; whoever has gone is not woken; nobody is forgotten."""
    pace = Pace()
    matches = [Listeners(pace) for _ in range(3)]
    lookers = [[asyncio.Event() for _ in range(AT_ONCE)] for _ in matches]
    seats = [asyncio.Event() for _ in range(AT_ONCE)]
    for listeners, wakes in zip(matches, lookers, strict=True):
        for wake in wakes:
            listeners.add(wake, Audience.SPECTATOR)
    for wake in seats:
        matches[-1].add(wake, Audience.NORTH)
    for listeners in matches:
        listeners.announce(Audience.NORTH)
    everybody = [*seats, *(wake for wakes in lookers for wake in wakes)]
    assert sum(wake.is_set() for wake in everybody) == AT_ONCE + PROMPT
    assert all(wake.is_set() for wake in seats[-PROMPT:])
    gone = lookers[-1][-1]
    matches[-1].remove(gone, Audience.SPECTATOR)
    async with asyncio.timeout(30):
        for wake in everybody:
            if wake is not gone:
                await wake.wait()
    assert not gone.is_set()
