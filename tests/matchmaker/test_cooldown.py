"""Cooldowns: short for the first no-show, longer with each repeat, forgiven after a day."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker.cooldown import FORGIVEN_AFTER, LONGEST, Cooldown, cooldown, duration
from matchmaker.ticket import SECOND

NOW = 1_000_000 * SECOND

moments = st.lists(st.integers(NOW - 3 * FORGIVEN_AFTER, NOW), max_size=12)


def test_who_always_came_may_seek_at_once() -> None:
    assert cooldown([], NOW) is None


@pytest.mark.parametrize(
    ("no_shows", "seconds"),
    [(0, 0), (1, 30), (2, 60), (3, 120), (4, 240), (5, 480), (6, 900), (7, 900), (10**9, 900)],
)
def test_a_cooldown_doubles_with_each_repeat_up_to_a_quarter_of_an_hour(no_shows: int, seconds: int) -> None:
    assert duration(no_shows) == seconds * SECOND


def test_the_end_of_a_cooldown_is_the_first_instant_that_is_free() -> None:
    assert cooldown([NOW], NOW + 30 * SECOND - 1) == Cooldown(NOW + 30 * SECOND, 1)
    assert cooldown([NOW], NOW + 30 * SECOND) is None


def test_a_no_show_is_forgiven_a_day_after_it_happened() -> None:
    assert cooldown([NOW - FORGIVEN_AFTER + 1, NOW], NOW) == Cooldown(NOW + 60 * SECOND, 2)
    assert cooldown([NOW - FORGIVEN_AFTER, NOW], NOW) == Cooldown(NOW + 30 * SECOND, 1)


@given(moments, st.integers(0, 2 * FORGIVEN_AFTER))
def test_the_end_does_not_move_while_it_is_waited_for(no_shows: list[int], later: int) -> None:
    first = cooldown(no_shows, NOW)
    if first is not None:
        assert cooldown(no_shows, NOW + later) == (first if NOW + later < first.until else None)
        assert first.until <= NOW + LONGEST


@given(moments)
def test_another_no_show_never_shortens_a_cooldown_and_the_order_does_not_matter(no_shows: list[int]) -> None:
    before, after = cooldown(no_shows, NOW), cooldown([NOW, *reversed(no_shows)], NOW)
    assert after is not None
    assert before is None or before.until <= after.until
