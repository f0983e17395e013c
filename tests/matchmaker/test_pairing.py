"""Pairing: the best matches for those who wait, windows that widen, nobody passed over without end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker.pairing import Pairing, pair
from matchmaker.ticket import POINT, SECOND, Ticket, acceptable, distance, worth
from tests.matchmaker.population import NOW, evening, ticket, tickets, timeless

Pair = Callable[[list[Ticket]], list[Pairing]]


def exactly(waiting: list[Ticket]) -> list[Pairing]:
    return pair(waiting, NOW)


def as_a_crowd(waiting: list[Ticket]) -> list[Pairing]:
    """As a large crowd is paired, in stretches so short that their ends matter."""
    return pair(waiting, NOW, exact_max=0, stretch=4)


both_ways = pytest.mark.parametrize("paired", [exactly, as_a_crowd])


def names(waiting: list[Ticket], paired: Pair = exactly) -> set[frozenset[str]]:
    return {frozenset((p.first.player_id, p.second.player_id)) for p in paired(waiting)}


def value(pairings: list[Pairing]) -> int:
    return sum(worth(p.first, p.second, NOW) for p in pairings)


def best(waiting: list[Ticket]) -> int:
    """What the best pairs are worth, by trying all there are."""
    if len(waiting) < 2:
        return 0
    first, *rest = waiting
    with_first = (
        worth(first, other, NOW) + best([t for t in rest if t is not other])
        for other in rest
        if acceptable(first, other, NOW)
    )
    return max(best(rest), *with_first, 0)


def left_over(waiting: list[Ticket], pairings: list[Pairing]) -> list[Ticket]:
    paired = {t for pairing in pairings for t in (pairing.first, pairing.second)}
    return [t for t in waiting if t not in paired]


@both_ways
@timeless
@given(waiting=tickets())
def test_every_ticket_is_in_at_most_one_pair_and_no_pair_holds_a_stranger(
    paired: Pair, waiting: list[Ticket]
) -> None:
    found = [t for pairing in paired(waiting) for t in (pairing.first, pairing.second)]
    assert len(found) == len(set(found))
    assert set(found) <= set(waiting)


@both_ways
@timeless
@given(waiting=tickets())
def test_a_pair_keeps_both_windows_and_the_limits_of_both(paired: Pair, waiting: list[Ticket]) -> None:
    for pairing in paired(waiting):
        assert acceptable(pairing.first, pairing.second, NOW)
        assert pairing.first.since <= pairing.second.since


@both_ways
@timeless
@given(waiting=tickets())
def test_nobody_is_left_waiting_beside_an_acceptable_partner(paired: Pair, waiting: list[Ticket]) -> None:
    left = left_over(waiting, paired(waiting))
    assert not [both for both in combinations(left, 2) if acceptable(*both, NOW)]


@both_ways
@timeless
@given(waiting=tickets())
def test_a_ticket_is_passed_over_only_for_one_who_waited_as_long_or_fits_better(
    paired: Pair, waiting: list[Ticket]
) -> None:
    """A second for each 50 points. So those who can be preferred came before a certain instant, and they get fewer."""
    pairings = paired(waiting)
    for passed in left_over(waiting, pairings):
        for pairing in pairings:
            for partner, chosen in (
                (pairing.first, pairing.second),
                (pairing.second, pairing.first),
            ):
                if acceptable(passed, partner, NOW):
                    assert worth(passed, partner, NOW) <= worth(chosen, partner, NOW)
                    longer = passed.waited(NOW) - chosen.waited(NOW)
                    assert longer <= round(distance(passed, partner) * POINT)


@both_ways
@timeless
@given(waiting=tickets(24), since=st.lists(st.integers(0, 20), min_size=2, max_size=4, unique=True))
def test_of_players_who_differ_in_waiting_alone_the_longest_waiting_are_paired(
    paired: Pair, waiting: list[Ticket], since: list[int]
) -> None:
    twins = [
        Ticket(
            f"twin {seconds}", 1600.0, NOW - seconds * SECOND, blocked=frozenset(f"twin {s}" for s in since)
        )
        for seconds in since
    ]
    left = {t.player_id for t in left_over([*waiting, *twins], paired([*waiting, *twins]))}
    served = [twin.waited(NOW) for twin in twins if twin.player_id not in left]
    passed = [twin.waited(NOW) for twin in twins if twin.player_id in left]
    assert not served or not passed or min(served) > max(passed)


@timeless
@given(waiting=tickets(8))
def test_a_few_are_paired_in_the_best_way_there_is(waiting: list[Ticket]) -> None:
    assert value(exactly(waiting)) == best(waiting)


@timeless
@given(waiting=tickets())
def test_a_crowd_is_paired_at_least_half_as_well_as_possible(waiting: list[Ticket]) -> None:
    assert 2 * value(as_a_crowd(waiting)) >= value(exactly(waiting))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [150, 400])
def test_an_ordinary_crowd_is_paired_nearly_as_well_as_possible(size: int, seed: int) -> None:
    crowd = evening(size, Random(seed))
    by_stretches, at_best = pair(crowd, NOW), pair(crowd, NOW, exact_max=size)
    assert value(by_stretches) >= 0.98 * value(at_best)
    assert len(by_stretches) >= len(at_best) - 2


@both_ways
@timeless
@given(waiting=tickets(), random=st.randoms())
def test_the_order_in_which_tickets_are_listed_does_not_matter(
    paired: Pair, waiting: list[Ticket], random: Random
) -> None:
    shuffled = list(waiting)
    random.shuffle(shuffled)
    assert paired(shuffled) == paired(waiting)


@pytest.mark.parametrize("size", [60, 300])
def test_where_many_answers_are_equally_good_it_is_always_the_same(size: int) -> None:
    alike = [ticket(str(number)) for number in range(size)]
    first = pair(alike, NOW)
    assert len(first) == size // 2
    assert all(pair(alike, NOW) == first for _ in range(10))


@both_ways
@timeless
@given(waiting=st.lists(st.sampled_from(["ann", "ben"]).map(ticket), max_size=6))
def test_a_player_is_never_paired_with_herself(paired: Pair, waiting: list[Ticket]) -> None:
    """Even when a bug lets her in twice."""
    assert all(p.first.player_id != p.second.player_id for p in paired(waiting))


def test_those_who_waited_longest_are_told_first() -> None:
    waiting = [ticket(str(n), 200.0 * n + d, waited=w) for n, w in enumerate((1, 3, 2)) for d in (0, 1)]
    waiting = [replace(t, player_id=f"{t.player_id}{number}") for number, t in enumerate(waiting)]
    assert [p.first.waited(NOW) // SECOND for p in exactly(waiting)] == [3, 2, 1]


@both_ways
def test_all_gaps_together_are_as_small_as_possible(paired: Pair) -> None:
    """40 and 80 points, rather than 10 for two of them and 130 for the rest."""
    waiting = [ticket("a", 1400), ticket("b", 1440), ticket("c", 1450), ticket("d", 1530)]
    assert names(waiting, paired) == {frozenset("ab"), frozenset("cd")}


@both_ways
def test_among_equals_the_longest_waiting_goes_first(paired: Pair) -> None:
    waiting = [ticket("a", waited=1), ticket("b", waited=9), ticket("c", waited=5)]
    assert names(waiting, paired) == {frozenset("bc")}


@both_ways
def test_provisional_players_meet_each_other_first(paired: Pair) -> None:
    waiting = [
        replace(ticket("new", 1500), sigma=350.0),
        ticket("old", 1510),
        replace(ticket("also new", 1540), sigma=300.0),
        ticket("also old", 1550),
    ]
    assert names(waiting, paired) == {frozenset({"new", "also new"}), frozenset({"old", "also old"})}


def test_a_provisional_player_meets_an_established_one_when_nobody_else_waits() -> None:
    new, old = replace(ticket("new"), sigma=350.0), ticket("old", 1600)
    assert pair([new, old], NOW) == []  # 200 points apart, in effect
    assert len(pair([new, old], NOW + SECOND)) == 1


@both_ways
def test_not_the_same_opponent_again_while_others_wait(paired: Pair) -> None:
    ann, ben = replace(ticket("ann"), recent=frozenset({"ben"})), ticket("ben")
    assert names([ann, ben, ticket("carl", 1600), ticket("dora", 1640)], paired) == {
        frozenset({"ann", "carl"}),
        frozenset({"ben", "dora"}),
    }


def test_the_same_opponent_again_after_three_seconds_when_nobody_else_comes() -> None:
    ann, ben = replace(ticket("ann"), recent=frozenset({"ben"})), ticket("ben")
    assert pair([ann, ben], NOW + 3 * SECOND - 1) == []
    assert len(pair([ann, ben], NOW + 3 * SECOND)) == 1


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
    assert names([lone, ticket("late")]) == {frozenset({"lone", "late"})}


@both_ways
def test_a_patient_ticket_looks_past_neighbours_whose_window_is_narrow(paired: Pair) -> None:
    waiting = [ticket("patient", 1500, waited=60), ticket("fresh", 2000), ticket("far", 2400, waited=60)]
    assert names(waiting, paired) == {frozenset({"patient", "far"})}


@both_ways
@pytest.mark.parametrize("away", [10, 70, 140])
def test_nobody_waits_without_end_while_better_pairs_keep_coming(paired: Pair, away: int) -> None:
    """Each quarter of a second two equal players come. The third is served once she has waited 20 ms a point."""
    outsider = Ticket("outsider", 1500.0 + away, NOW - away * POINT)
    for passed in range(4):
        before = replace(outsider, since=outsider.since + (passed + 1) * SECOND // 4)
        assert names([before, ticket("a"), ticket("b")], paired) == {frozenset("ab")}
    served = replace(outsider, since=outsider.since - 1)
    assert "outsider" in set().union(*names([served, ticket("a"), ticket("b")], paired))
