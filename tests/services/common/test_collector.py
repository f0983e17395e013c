"""Pauses of the garbage collector: what lives is looked at once, and what was left lying is found in the end."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator

import pytest_asyncio

from services.common.collector import SLACK, Collector


class Node:
    """Something that the collector looks at."""

    other: Node


@pytest_asyncio.fixture
async def collector() -> AsyncIterator[Collector]:
    """One at work."""
    made = Collector()
    async with made.working():
        yield made


async def test_what_survived_is_not_looked_at_again(collector: Collector) -> None:
    """A full collection takes as long as there is news, however much lives."""
    kept = [Node() for _ in range(1_000)]
    gc.collect()
    assert not {id(each) for each in gc.get_objects()} & {id(each) for each in kept}
    assert gc.get_freeze_count() >= len(kept)


async def test_new_circles_are_collected_and_what_nothing_refers_to_is_free_at_once(
    collector: Collector,
) -> None:
    """Setting aside keeps nothing alive by itself."""
    circle, plain = Node(), Node()
    circle.other = circle
    gone, free = weakref.ref(circle), weakref.ref(plain)
    del circle
    gc.collect()
    assert gone() is None
    del plain
    assert free() is None


async def test_a_circle_that_was_set_aside_is_found_when_everything_is_looked_through(
    collector: Collector,
) -> None:
    """So nothing grows without limit."""
    circle = Node()
    circle.other = circle
    gone = weakref.ref(circle)
    gc.collect()
    del circle
    gc.collect()
    assert gone() is not None
    before = gc.get_freeze_count()
    assert not collector.overdue
    assert collector.limit <= 2 * (before + 1_000) + SLACK
    collector.look_through()
    assert gone() is None


async def test_at_the_end_all_is_as_it_was() -> None:
    before = gc.get_threshold(), list(gc.callbacks)
    async with Collector().working():
        assert gc.get_threshold() != before[0]
    assert (gc.get_threshold(), list(gc.callbacks), gc.get_freeze_count()) == (*before, 0)
