"""Pairing: nearest ratings, windows that widen with waiting, the longest waiting first among equals."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker.pairing import pair
from matchmaker.ticket import SECOND, Ticket, acceptable, window

NOW = 1_000 * SECOND

tickets = st.lists(
    st.builds(
        Ticket,
        player_id=st.integers(0, 10_000).map(str),
        rating=st.one_of(st.just(1500.0), st.floats(0, 3000, allow_nan=False), st.integers(1400, 1700)),
        since=st.integers(0, 120).map(lambda waited: NOW - waited * SECOND),
    ),
    max_size=40,
    unique_by=lambda ticket: ticket.player_id,
)


def ticket(name: str, rating: float = 1500.0, waited: float = 0.0) -> Ticket:
    return Ticket(name, rating, NOW - int(waited * SECOND))


def names(*waiting: Ticket) -> set[frozenset[str]]:
    return {frozenset((p.first.player_id, p.second.player_id)) for p in pair(waiting, NOW)}


@given(tickets)
def test_every_ticket_is_in_at_most_one_pair_and_no_pair_holds_a_stranger(waiting: list[Ticket]) -> None:
    paired = [t for pairing in pair(waiting, NOW) for t in (pairing.first, pairing.second)]
    assert len(paired) == len(set(paired))
    assert set(paired) <= set(waiting)


@given(tickets)
def test_a_pair_is_acceptable_to_both(waiting: list[Ticket]) -> None:
    for pairing in pair(waiting, NOW):
        assert pairing.gap <= window(pairing.first.waited(NOW))
        assert pairing.gap <= window(pairing.second.waited(NOW))
        assert pairing.first.since <= pairing.second.since


@given(tickets)
def test_nobody_is_left_waiting_beside_an_acceptable_partner(waiting: list[Ticket]) -> None:
    paired = {t for pairing in pair(waiting, NOW) for t in (pairing.first, pairing.second)}
    left = [t for t in waiting if t not in paired]
    assert not [both for both in combinations(left, 2) if acceptable(*both, NOW)]


@given(tickets, st.randoms())
def test_the_order_in_which_tickets_are_listed_does_not_matter(waiting: list[Ticket], random: Random) -> None:
    shuffled = list(waiting)
    random.shuffle(shuffled)
    assert pair(shuffled, NOW) == pair(waiting, NOW)


@given(st.lists(st.sampled_from(["ann", "ben"]).map(ticket), max_size=6))
def test_a_player_is_never_paired_with_herself(waiting: list[Ticket]) -> None:
    """Even when a bug lets her in twice."""
    assert all(p.first.player_id != p.second.player_id for p in pair(waiting, NOW))


def test_the_nearest_ratings_are_paired_first() -> None:
    assert names(ticket("a", 1400), ticket("b", 1440), ticket("c", 1450), ticket("d", 1530)) == {
        frozenset("bc"),
        frozenset("ad"),
    }


def test_among_equals_the_longest_waiting_goes_first() -> None:
    assert names(ticket("a", waited=1), ticket("b", waited=9), ticket("c", waited=5)) == {frozenset("bc")}


@pytest.mark.parametrize(
    ("waited", "points"),
    [(0, 150), (1, 200), (5, 400), (30, 1650), (60, 3150)],
)
def test_the_window_widens_with_waiting(waited: int, points: int) -> None:
    assert window(waited * SECOND) == points


def test_the_gap_must_be_inside_both_windows() -> None:
    """FC-42: a ticket that was outside at first is matched as soon as the later one's window has reached it."""
    lone, late = Ticket("lone", 1500.0, NOW - 60 * SECOND), Ticket("late", 1900.0, NOW)
    assert pair([lone, late], NOW) == []
    assert pair([lone, late], NOW + 5 * SECOND - 1) == []
    assert len(pair([lone, late], NOW + 5 * SECOND)) == 1


def test_fc_42_a_ticket_that_was_looked_at_alone_is_matched_when_a_second_comes() -> None:
    lone = ticket("lone", waited=60)
    for seconds in range(60):
        assert pair([lone], NOW - seconds * SECOND) == []
    assert names(lone, ticket("late")) == {frozenset({"lone", "late"})}


def test_a_patient_ticket_looks_past_neighbours_whose_window_is_narrow() -> None:
    patient, fresh, far = (
        ticket("patient", 1500, waited=60),
        ticket("fresh", 2000),
        ticket("far", 2400, waited=60),
    )
    assert names(patient, fresh, far) == {frozenset({"patient", "far"})}
