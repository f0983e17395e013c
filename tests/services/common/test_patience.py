"""Waits that are over too late, with one timer for all of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from services.common.patience import LATE_AT_ONCE, Patience

SECONDS = 0.1
TURNS = 10
"""Of the loop after each timer: so many are more than enough here."""


class Loop(asyncio.SelectorEventLoop):
    """Its time is what a test says, and its timers are kept to be looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.turn = 0
        self.timers: list[asyncio.TimerHandle] = []

    def time(self) -> float:
        return self.now

    def call_at(  # type: ignore[override]  # its own signature has type variables for the arguments
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        timer = super().call_at(when, callback, *args, context=context)
        self.timers.append(timer)
        return timer


def run(loop: Loop, until: float) -> None:
    """Lets time pass until then, from timer to timer; nothing else happens in it."""
    for _ in range(100):
        due = min((timer.when() for timer in loop.timers if timer.when() <= until), default=None)
        if due is None:
            loop.now = until
            return
        loop.now = max(loop.now, due)
        loop.timers = [timer for timer in loop.timers if timer.when() > loop.now]
        for _ in range(TURNS):
            loop.turn += 1
            loop.call_soon(loop.stop)
            loop.run_forever()
    pytest.fail("timers go off without end")


def at(loop: Loop, patience: Patience[str], second: float, *begin: str, end: tuple[str, ...] = ()) -> None:
    """Who begins to wait and who ends at that time."""
    run(loop, second)

    async def change() -> None:
        for waiting in end:
            patience.end(waiting)
        for waiting in begin:
            patience.begin(waiting)

    loop.run_until_complete(change())


def test_each_is_late_after_its_own_wait_and_once() -> None:
    """Those that ended are not, whoever began again counts anew, and the timers that all of them take are few."""
    loop, late = Loop(), list[tuple[float, str]]()
    patience = Patience[str](SECONDS, lambda waiting: late.append((loop.now, waiting)))
    try:
        at(loop, patience, 0.0, "a", "b")
        at(loop, patience, 0.07, "c", end=("b",))
        at(loop, patience, 0.09, "b")
        for number in range(100):
            at(loop, patience, 0.09 + number / 100_000, "quick")
            at(loop, patience, 0.09 + number / 100_000, end=("quick",))
        run(loop, 1.0)
        assert late == [(0.0 + SECONDS, "a"), (0.07 + SECONDS, "c"), (0.09 + SECONDS, "b")]
    finally:
        loop.close()


def test_many_who_are_late_one_soon_after_the_other_are_told_together() -> None:
    """None before its time, and none much later."""
    loop, late = Loop(), list[tuple[float, int]]()
    patience = Patience[int](SECONDS, lambda waiting: late.append((loop.now, waiting)), together=SECONDS / 10)
    try:

        async def begin(waiting: int) -> None:
            patience.begin(waiting)

        began = [number * SECONDS / 1000 for number in range(200)]
        for number, second in enumerate(began):
            run(loop, second)
            loop.run_until_complete(begin(number))
        run(loop, 1.0)
        assert [waiting for _, waiting in late] == list(range(200))
        for second, waiting in late:
            assert second - began[waiting] + 1e-9 >= SECONDS
            assert second - began[waiting] <= SECONDS * 1.1 + 1e-9
        assert len({second for second, _ in late}) == 3
    finally:
        loop.close()


def test_however_many_are_late_at_once_a_turn_of_the_loop_tells_a_few() -> None:
    """A long turn hears nobody. Whoever ends its wait before its turn comes is not told."""
    loop, told = Loop(), Counter[int]()
    everybody = [str(number) for number in range(5 * LATE_AT_ONCE + 1)]
    ended, late = everybody[-1], list[str]()

    def is_late(waiting: str) -> None:
        told[loop.turn] += 1
        late.append(waiting)
        patience.end(ended)

    patience = Patience[str](SECONDS, is_late)
    try:
        at(loop, patience, 0.0, *everybody)
        run(loop, SECONDS)
        assert late == everybody[:-1]
        assert list(told.values()) == [LATE_AT_ONCE] * 5
        at(loop, patience, 1.0, "a")
        run(loop, 2.0)
        assert late[-1] == "a"
    finally:
        loop.close()


@pytest.mark.parametrize("began", [0.3 + number / 7 for number in range(20)])
def test_a_timer_that_is_due_finds_whoever_it_was_for(began: float) -> None:
    """However their sum is rounded: time does not go on by itself in a loop of our own."""
    loop, late = Loop(), list[str]()
    patience = Patience[str](SECONDS, late.append)
    try:
        at(loop, patience, began - 0.05, "first")
        at(loop, patience, began, "a")
        run(loop, 10.0)
        assert late == ["first", "a"]
    finally:
        loop.close()
