"""A message that nobody takes: its reader is slow first, and is not waited for any more then."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from services.common.limits import Limit, LimitError
from services.common.outlet import Outlet, Outlets


class Reader:
    """A call whose messages are taken when `reads` is set."""

    def __init__(self) -> None:
        self.reads = asyncio.Event()

    async def send_initial_metadata(self, _metadata: object) -> None:
        """Always taken."""

    async def write(self, _message: object) -> None:
        """Waits for its reader."""
        await self.reads.wait()


class Slow:
    """Counts those who are slow. The first one reads then."""

    def __init__(self, reader: Reader) -> None:
        self.count = 0
        self._reader = reader

    def inc(self) -> None:
        """One more."""
        self.count += 1
        if self.count == 1:
            self._reader.reads.set()


async def test_who_is_slow_is_given_up_later_and_counts_once() -> None:
    """Not for a message before: that was slow, and was taken in the end."""
    reader, outlets = Reader(), Outlets(0.02, 0.1)
    slow = Slow(reader)
    outlet = Outlet(outlets, cast(Any, reader), cast(Any, slow))
    assert outlets.dead is not None
    await outlet.write(b"first")
    assert (slow.count, len(outlets.slow), len(outlets.dead)) == (1, 0, 0)
    reader.reads.clear()
    async with asyncio.timeout(30):
        with pytest.raises(LimitError) as ended:
            await outlet.write(b"second")
    assert ended.value.limit is Limit.SLOW_READER
    assert (slow.count, len(outlets.slow), len(outlets.dead)) == (2, 0, 0)
