"""Estimates of a wait: what others of similar rating waited just now, or nothing."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from matchmaker.estimate import BASIS_MAX, BASIS_MIN, RECENT, Estimate, Wait, estimate
from matchmaker.ticket import SECOND

NOW = 10_000 * SECOND

waits = st.lists(
    st.builds(
        Wait,
        rating=st.floats(0, 3000),
        waited=st.integers(0, 600 * SECOND),
        ended=st.integers(NOW - 2 * RECENT, NOW),
    ),
    max_size=80,
)


def wait(seconds: int, rating: float = 1500.0, ended: int = NOW) -> Wait:
    return Wait(rating, seconds * SECOND, ended)


def test_too_few_waits_are_no_basis() -> None:
    assert estimate([wait(3)] * (BASIS_MIN - 1), 1500, NOW) is None


def test_half_of_those_of_similar_rating_waited_at_most_the_median() -> None:
    near = [wait(seconds, 1700) for seconds in (9, 1, 5, 3, 7)]
    far = [wait(100, 1701)] * 20
    assert estimate([*far, *near], 1500, NOW) == Estimate(5 * SECOND, 9 * SECOND, 5, similar=True)


def test_where_too_few_are_similar_the_whole_pool_is_the_basis_and_that_is_said() -> None:
    pool = [wait(seconds, 2500) for seconds in range(1, 11)]
    assert estimate(pool, 1500, NOW) == Estimate(5 * SECOND, 9 * SECOND, 10, similar=False)


def test_a_wait_of_long_ago_says_nothing() -> None:
    assert estimate([wait(3, ended=NOW - RECENT)] * 5, 1500, NOW) is not None
    assert estimate([wait(3, ended=NOW - RECENT - 1)] * 5, 1500, NOW) is None


def test_the_latest_waits_count() -> None:
    older = [wait(100, ended=NOW - 2)] * BASIS_MAX
    newer = [wait(1, ended=NOW - 1)] * BASIS_MAX
    for listed in ([*older, *newer], [*newer, *older]):
        assert estimate(listed, 1500, NOW) == Estimate(SECOND, SECOND, BASIS_MAX, similar=True)


@given(waits, st.floats(0, 3000), st.randoms())
def test_an_estimate_lies_among_the_waits_and_does_not_depend_on_their_order(
    known: list[Wait], rating: float, random: Random
) -> None:
    shuffled = list(known)
    random.shuffle(shuffled)
    found = estimate(known, rating, NOW)
    assert found == estimate(shuffled, rating, NOW)
    if found is not None:
        assert {found.median, found.most} <= {one.waited for one in known}
        assert found.median <= found.most
        assert BASIS_MIN <= found.basis <= BASIS_MAX
