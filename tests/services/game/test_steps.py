"""A coroutine that goes on in the call that it waits for."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Generator

import pytest

from services.game.steps import Steps, pause

HERE: contextvars.ContextVar[str] = contextvars.ContextVar("here", default="nowhere")


class Room:
    """Takes what comes, one after the other."""

    def __init__(self) -> None:
        self.steps = Steps()
        self.inbox: list[int] = []
        self.taken: list[int] = []
        self.on_taken: Callable[[int], None] = lambda _number: None
        self.closed = False

    def post(self, number: int) -> None:
        self.inbox.append(number)
        self.steps.go()

    async def play(self) -> None:
        HERE.set("in the room")
        try:
            while True:
                while not self.inbox:
                    await pause
                number = self.inbox.pop(0)
                if number < 0:
                    raise ValueError(number)
                self.taken.append(number)
                self.on_taken(number)
                if not number:
                    return
        finally:
            self.closed = True


async def begun(room: Room) -> asyncio.Task[None]:
    """It waits for its first message."""
    task = asyncio.create_task(room.steps.run(room.play()))
    await asyncio.sleep(0)
    return task


async def test_what_comes_is_taken_before_the_call_that_brings_it_returns() -> None:
    room = Room()
    task = await begun(room)
    room.post(1)
    assert room.taken == [1]
    room.steps.go()  # whoever is woken for nothing waits again
    room.post(2)
    room.post(0)
    assert (room.taken, room.closed) == ([1, 2, 0], True)
    await task


async def test_it_is_never_in_two_places() -> None:
    """What comes of its own doing is taken when it is done with what it is at."""
    room, seen = Room(), list[list[int]]()

    def taken(number: int) -> None:
        if number > 1:
            room.post(number - 1)
        seen.append(list(room.taken))

    room.on_taken = taken
    task = await begun(room)
    room.post(3)
    assert seen == [[3], [3, 2], [3, 2, 1]]
    room.post(0)
    await task


async def test_it_has_a_context_of_its_own() -> None:
    """Whoever brings it something goes on in the trace of its own call."""
    room, heard = Room(), list[str]()
    room.on_taken = lambda _number: heard.append(HERE.get())
    task = await begun(room)
    HERE.set("in a call")
    room.post(1)
    assert (heard, HERE.get()) == (["in the room"], "in a call")
    room.post(0)
    await task


async def test_a_fault_is_told_to_whoever_runs_it_and_to_nobody_who_brings_something() -> None:
    room = Room()
    task = await begun(room)
    room.post(-1)
    with pytest.raises(ValueError, match="-1"):
        await task
    room.post(1)
    assert room.taken == []


async def test_it_is_cancelled_with_its_task() -> None:
    room = Room()
    task = await begun(room)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert room.closed
    room.post(1)
    assert room.taken == []


async def test_a_time_is_waited_for_no_longer_than_until_something_comes() -> None:
    steps, changed, twice = Steps(), list[bool](), asyncio.Event()
    loop = asyncio.get_running_loop()

    async def wait() -> None:
        changed.append(await steps.change(loop.time() + 60))
        changed.append(await steps.change(loop.time()))
        twice.set()
        changed.append(await steps.change(None))

    task = asyncio.create_task(steps.run(wait()))
    await asyncio.sleep(0)
    steps.go()
    async with asyncio.timeout(30):
        await twice.wait()
    steps.go()
    await task
    assert changed == [True, False, True]


async def test_what_takes_a_task_is_waited_for_and_cancelled_with_it() -> None:
    steps, results = Steps(), list[int]()
    loop = asyncio.get_running_loop()
    first, second, never = loop.create_future(), loop.create_future(), loop.create_future()

    async def wait() -> None:
        results.append(await first)
        with pytest.raises(OSError, match="lost"):
            await second
        results.append(0)
        await never

    task = asyncio.create_task(steps.run(wait()))
    await asyncio.sleep(0)
    steps.go()  # for something else, which is not looked at before
    assert results == []
    first.set_result(7)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert results == [7]
    second.set_exception(OSError("lost"))
    await asyncio.sleep(0)
    assert results == [7, 0]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert never.cancelled()


class Strange:
    """Nobody knows when it has come."""

    def __await__(self) -> Generator[int, None, None]:
        yield 1


async def test_whoever_waits_for_anything_else_fails_and_is_not_forgotten() -> None:
    steps = Steps()

    async def wait() -> None:
        await Strange()

    with pytest.raises(RuntimeError, match="waits for nothing but"):
        await steps.run(wait())
