"""A pause is told at every table, a few in each turn of the loop, and small ones are not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

from engine.clock import MILLISECOND
from services.game.livetime import LiveTime
from services.game.pauses import AT_ONCE, LOOKED_AT_ONCE, STEP_NS, TOLD_NS, Pauses
from services.wire.tables import Left


class Table:
    """What a room is here: whether a clock runs, since when, and how often its question was put anew."""

    def __init__(self, livetime: LiveTime, *, runs: bool = True) -> None:
        self.runs = runs
        self._livetime = livetime
        self._since_ns = livetime.gap_total_ns
        self.announced = self.looked = 0

    @property
    def listeners(self) -> Table:
        return self

    def announce(self) -> None:
        self.announced += 1

    def left(self) -> Left | None:
        self.looked += 1
        return Left(1, self.credited_ns()) if self.runs else None

    def credited_ns(self) -> int:
        """What is credited."""
        return self._livetime.gap_total_ns - self._since_ns


class Tables(list[Table]):
    def live(self) -> list[Table]:
        return self


def pauses_at(livetime: LiveTime, tables: Tables) -> Pauses:
    return Pauses(livetime, cast(Any, tables))


async def test_gaps_are_told_once_they_are_enough_and_where_a_clock_runs() -> None:
    livetime = LiveTime()
    tables = Tables([Table(livetime), Table(livetime, runs=False)])
    pauses = pauses_at(livetime, tables)
    livetime.gap_total_ns += STEP_NS - MILLISECOND
    await pauses.look()
    assert [table.announced for table in tables] == [0, 0]
    livetime.gap_total_ns += MILLISECOND
    await pauses.look()
    await pauses.look()
    assert [table.announced for table in tables] == [1, 0]


async def test_a_table_is_told_what_it_has_not_heard_before_that_is_half_a_second() -> None:
    """However many small gaps it was, and whenever its decision began: it is never told of the time before."""
    livetime = LiveTime()
    pauses = pauses_at(livetime, tables := Tables())
    livetime.gap_total_ns += STEP_NS - MILLISECOND
    tables.append(table := Table(livetime))
    livetime.gap_total_ns += STEP_NS - MILLISECOND
    await pauses.look()
    assert not table.announced
    heard_ns = 0
    for _ in range(50):
        livetime.gap_total_ns += 70 * MILLISECOND
        before = table.announced
        await pauses.look()
        if table.announced > before:
            heard_ns = table.credited_ns()
        assert table.credited_ns() - heard_ns < TOLD_NS
    livetime.gap_total_ns += STEP_NS
    tables.append(late := Table(livetime))
    await pauses.look()
    assert not late.announced


async def in_turns(pauses: Pauses, count: Callable[[], int]) -> list[int]:
    """How many more it is with each turn of the loop, to the end of a look."""
    looking = asyncio.create_task(pauses.look())
    seen = [0]
    while not looking.done():
        await asyncio.sleep(0)
        seen.append(count())
    return [after - before for before, after in pairwise(seen)]


async def test_telling_all_tables_leaves_the_loop_free_in_between() -> None:
    """All at once would be the next pause."""
    livetime = LiveTime()
    tables = Tables([Table(livetime) for _ in range(3 * AT_ONCE + 1)])
    pauses = pauses_at(livetime, tables)
    livetime.gap_total_ns += TOLD_NS
    told = await in_turns(pauses, lambda: sum(table.announced for table in tables))
    assert sum(told) == len(tables)
    assert max(told) == AT_ONCE


async def test_looking_at_all_tables_leaves_the_loop_free_in_between() -> None:
    """Though there is nothing to tell at any of them."""
    livetime = LiveTime()
    tables = Tables([Table(livetime, runs=False) for _ in range(3 * LOOKED_AT_ONCE + 1)])
    pauses = pauses_at(livetime, tables)
    livetime.gap_total_ns += TOLD_NS
    looked = await in_turns(pauses, lambda: sum(table.looked for table in tables))
    assert sum(looked) == len(tables)
    assert max(looked) == LOOKED_AT_ONCE
