"""Hidden tiles as a bot imagines them: always as they may be, and each way equally often."""

import random
from collections import Counter
from collections.abc import Iterator
from itertools import combinations, islice
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.bots.memory import Memory, Turn
from engine.seats import SOUTH
from engine.tiles import ALL_TILES, Tile, TileSet, tile_set, tiles_of
from tests.client.bots.seen import Seen, deals, positions


def unseen(seen: Seen) -> TileSet:
    laid = tile_set(placement.tile for placement in seen.state.layout.placements)
    return ALL_TILES & ~laid & ~seen.state.hand(seen.seat)


def subsets(pool: TileSet, size: int) -> Iterator[TileSet]:
    return (tile_set(chosen) for chosen in combinations(tiles_of(pool), size))


def histories(memory: Memory, pool: TileSet) -> Iterator[TileSet]:
    """The other hand now, once for every way in which its tiles may have come to it: told forward, turn by turn."""
    for first in subsets(pool & ~memory.never, memory.held):
        yield from told(memory.turns, first, pool & ~first)


def told(turns: list[Turn], hand: TileSet, pool: TileSet) -> Iterator[TileSet]:
    if not turns:
        yield hand
        return
    turn = turns[0]
    if hand & turn.lacked:
        return
    for kept in subsets(pool & ~turn.lacked, turn.kept):
        now, rest = hand | kept, pool & ~kept
        if turn.played is None:
            yield from told(turns[1:], now, rest)
        elif now & turn.played.bit:
            yield from told(turns[1:], now ^ turn.played.bit, rest)


def late_positions(seed: int, groups: int) -> Iterator[tuple[Seen, Counter[TileSet]]]:
    """Positions in which all histories can be told, with as many groups of tiles."""
    for seen in positions(seed):
        turns = seen.memory.turns
        pool = unseen(seen) | tile_set(turn.played for turn in turns if turn.played is not None)
        if 1 + sum(turn.kept > 0 for turn in turns) == groups and pool.bit_count() <= 13:
            yield seen, Counter(histories(seen.memory, pool))


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_every_history_counts_once_and_comes_equally_often(groups: int) -> None:
    found = (each for seed in range(400) for each in islice(late_positions(seed, groups), 1))
    for seen, expected in islice((each for each in found if 2 < len(each[1]) < 200), 5):
        hidden = deals(seen.state, seen.memory)
        total = expected.total()
        assert hidden.count == total
        rng, draws = random.Random(1), 40 * len(expected)
        drawn = Counter(hidden.draw(rng).hand for _ in range(draws))
        assert drawn.keys() <= expected.keys()
        # The usual test of frequencies, six standard deviations wide.
        off = sum(
            (drawn[hand] - draws * ways / total) ** 2 / (draws * ways / total)
            for hand, ways in expected.items()
        )
        freedom = len(expected) - 1
        assert off < freedom + 6 * (2 * freedom) ** 0.5


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_what_is_true_may_be_and_what_is_drawn_agrees_with_all_that_was_seen(seed: int) -> None:
    """The other seat's turns, told forward with its true hand, break no rule that the imagined ones are held to."""
    rng = random.Random(seed)
    for seen in positions(seed):
        other = seen.state.hand(seen.seat.opponent)
        truth = seen.memory
        lacking = 0
        for turn in reversed(truth.turns):
            lacking |= turn.lacked
            if turn.kept:
                break
        else:
            lacking |= truth.never
            assert not other & lacking
        hidden = seen.deals.draw(rng)
        boneyard = sum(hidden.boneyard)
        assert hidden.hand.bit_count() == other.bit_count()
        assert len(hidden.boneyard) == len(seen.state.boneyard) == boneyard.bit_count()
        assert hidden.hand | boneyard == unseen(seen)
        # Whatever it holds now, it held at the end of its last turn.
        last = truth.turns[-1].lacked if truth.turns else 0
        assert not hidden.hand & last
        assert not other & last


def test_the_highest_double_that_did_not_open_was_dealt_to_nobody() -> None:
    """Rule 2.2: a ranked round that opens with [4|4] leaves [5|5] and [6|6] in the boneyard."""
    memory = Memory(SOUTH)
    memory.dealt()
    memory.placed(SOUTH, Tile.parse("4|4"), None, 8)
    assert tiles_of(memory.never) == (Tile.parse("5|5"), Tile.parse("6|6"))
    memory.dealt()
    assert memory.never == 0


def test_an_auctioned_opening_says_nothing_about_the_doubles() -> None:
    memory = Memory(SOUTH)
    memory.dealt()
    memory.opening_won()
    memory.placed(SOUTH, Tile.parse("4|4"), None, 8)
    assert memory.never == 0


def test_a_memory_that_missed_something_relies_on_nothing() -> None:
    """A bot that sits down in the middle, or whose count is off, still imagines hands of the right size."""
    seen = next(each for each in positions(3) if each.memory.turns and each.state.boneyard)
    forgetful = Memory(seen.seat, held=20)
    hidden = deals(seen.state, forgetful)
    size = seen.state.hand(seen.seat.opponent).bit_count()
    assert hidden.count == comb(unseen(seen).bit_count(), size)
    assert hidden.draw(random.Random(1)).hand.bit_count() == size
