"""A pause is told at every table, a few in each turn of the loop, and small ones are not."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any, cast

from engine.clock import MILLISECOND
from services.game.livetime import LiveTime
from services.game.pauses import AT_ONCE, TOLD_NS, Pauses
from services.wire.tables import Left


class Table:
    """What a room is here: whether a clock runs, and how often its question was put anew."""

    def __init__(self, *, runs: bool = True) -> None:
        self.runs = runs
        self.announced = 0

    @property
    def listeners(self) -> Table:
        return self

    def announce(self) -> None:
        self.announced += 1

    def left(self) -> Left | None:
        return Left(1) if self.runs else None


class Tables(list[Table]):
    def live(self) -> list[Table]:
        return self


def pauses_at(livetime: LiveTime, tables: Tables) -> Pauses:
    return Pauses(livetime, cast(Any, tables))


async def test_gaps_are_told_once_they_are_enough_and_where_a_clock_runs() -> None:
    livetime, tables = LiveTime(), Tables([Table(), Table(runs=False)])
    pauses = pauses_at(livetime, tables)
    livetime.gap_total_ns += TOLD_NS - MILLISECOND
    await pauses.look()
    assert [table.announced for table in tables] == [0, 0]
    livetime.gap_total_ns += MILLISECOND
    await pauses.look()
    await pauses.look()
    assert [table.announced for table in tables] == [1, 0]


async def test_telling_all_tables_leaves_the_loop_free_in_between() -> None:
    """All at once would be the next pause."""
    livetime, tables = LiveTime(), Tables([Table() for _ in range(3 * AT_ONCE + 1)])
    pauses = pauses_at(livetime, tables)
    livetime.gap_total_ns += TOLD_NS
    telling = asyncio.create_task(pauses.look())
    seen = [0]
    while not telling.done():
        await asyncio.sleep(0)
        seen.append(sum(table.announced for table in tables))
    assert seen[-1] == len(tables)
    assert max(after - before for before, after in pairwise(seen)) == AT_ONCE
