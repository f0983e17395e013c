"""Tickets: windows that widen, distances that are the same both ways, limits that never give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker.crowd import Crowd
from matchmaker.ticket import SECOND, Ticket, acceptable, distance, possible, window, worth
from tests.matchmaker.population import NOW, ticket, tickets, timeless


@pytest.mark.parametrize(
    ("waited", "points"),
    [(0, 150), (1, 200), (5, 400), (30, 1650), (60, 3150)],
)
def test_the_window_widens_with_waiting(waited: int, points: int) -> None:
    assert window(waited * SECOND) == points


@timeless
@given(st.integers(0, 3600 * SECOND), st.integers(0, 3600 * SECOND))
def test_a_window_never_narrows_and_has_no_upper_bound(waited: int, longer: int) -> None:
    assert window(waited) <= window(waited + longer) < window(waited + longer + SECOND)


@timeless
@given(tickets(2).filter(lambda both: len(both) == 2), st.integers(0, 600))
def test_what_is_acceptable_stays_so_and_is_so_for_both(both: list[Ticket], later: int) -> None:
    one, other = both
    assert acceptable(one, other, NOW) is acceptable(other, one, NOW)
    assert distance(one, other) == distance(other, one)
    if acceptable(one, other, NOW):
        assert acceptable(one, other, NOW + later * SECOND)
        assert worth(one, other, NOW) >= max(one.waited(NOW), other.waited(NOW))


@timeless
@given(tickets(2).filter(lambda both: len(both) == 2))
def test_whoever_may_be_paired_at_all_is_acceptable_after_two_minutes(both: list[Ticket]) -> None:
    """Ratings lie between 0 and 3000 here; only hard limits keep two apart for ever."""
    one, other = both
    assert acceptable(one, other, NOW + 120 * SECOND) is possible(one, other)


@timeless
@given(tickets())
def test_a_crowd_finds_for_each_pair_what_two_tickets_find(waiting: list[Ticket]) -> None:
    crowd = Crowd(waiting, NOW)
    everybody = np.arange(len(crowd))
    found = crowd.worths(everybody, everybody)
    for row, one in enumerate(crowd.tickets):
        near = set(crowd.reach(row).tolist())
        for column, other in enumerate(crowd.tickets):
            expected = worth(one, other, NOW) if acceptable(one, other, NOW) else 0
            assert found[row, column] == expected
            assert column in near or not expected


def test_the_reach_of_a_ticket_ends_at_its_window_or_its_limits() -> None:
    ratings = [1340.0, 1350.0, 1500.0, 1650.0, 1660.0]
    crowd = Crowd([ticket(str(rating), rating) for rating in ratings], NOW)
    assert {1, 2, 3} <= set(crowd.reach(2).tolist()) < set(range(5))
    waiting = [ticket(str(rating), rating, waited=60) for rating in ratings]
    waiting[2] = replace(waiting[2], lowest=1350.0, highest=1650.0)
    assert Crowd(waiting, NOW).reach(2).tolist() == [1, 2, 3]


def test_the_bound_of_a_limit_is_inside_and_each_side_has_its_own() -> None:
    ben = ticket("ben", 1600)
    assert possible(replace(ticket("ann"), highest=1600.0, lowest=1600.0), ben)
    assert not possible(replace(ticket("ann"), highest=1599.5), ben)
    assert not possible(replace(ticket("ann"), lowest=1600.5), ben)
    assert not possible(ticket("ann"), replace(ben, highest=1499.5))
    assert not possible(ticket("ann"), replace(ben, blocked=frozenset({"ann"})))
    assert not possible(replace(ticket("ann"), blocked=frozenset({"ben"})), ben)


def test_a_beginner_and_a_player_met_just_now_count_as_further_away() -> None:
    ann, ben = ticket("ann"), ticket("ben", 1520)
    assert distance(ann, ben) == 20
    assert distance(replace(ann, sigma=350.0), ben) == 120
    assert distance(replace(ann, sigma=350.0), replace(ben, sigma=350.0)) == 20
    assert distance(replace(ann, recent=frozenset({"ben"})), ben) == 320
    assert distance(ann, replace(ben, recent=frozenset({"ann"}))) == 320
