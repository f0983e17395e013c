"""Rating: one result, two mirror images, no guess about a winner that is not understood."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchmaker.rating import NEW, Rating, UnknownWinnerError, model, rate

EXACT = (1676.6482025523803, 302.16961877273314)
"""The winner of a match of two new players."""

ratings = st.builds(Rating, mu=st.floats(0, 3000), sigma=st.floats(30, 350))


def test_fc_46_two_new_players_change_by_mirror_images_whoever_is_listed_first() -> None:
    """FC-46: A beats B, both new; then the same with the seats exchanged."""
    for players in (("ann", "ben"), ("ben", "ann")):
        after = rate(dict.fromkeys(players, NEW), winner="ann")
        assert after["ann"].mu - 1500 == pytest.approx(1500 - after["ben"].mu, abs=1e-9)
        assert after["ann"].sigma == pytest.approx(after["ben"].sigma, abs=1e-9)
        assert (after["ann"].mu, after["ann"].sigma) == pytest.approx(EXACT, abs=1e-9)


def test_two_new_players_come_out_as_the_formula_has_it_worked_out_by_hand() -> None:
    """Both 1500 ± 350, luck 175, 2 more uncertainty a match: mean and variance of the better of two normal values."""
    variance = 350**2 + 2**2
    c = math.sqrt(2 * variance + 2 * 175**2)
    v = math.sqrt(2 / math.pi)  # density over probability of a normal value at its middle
    by_hand = (1500 + variance / c * v, math.sqrt(variance * (1 - variance / c**2 * v * v)))
    # The library leaves a sliver for draws, which is worth some hundredths of a point.
    assert by_hand == pytest.approx(EXACT, abs=0.05)


def test_the_first_model_can_still_be_computed() -> None:
    """It damped how fast uncertainty falls. Its decisions are stored, and must come out the same for ever."""
    first = model("openskill-6.2 ThurstoneMostellerFull v1")
    after = first({"ann": NEW, "ben": NEW}, "ann")
    assert (after["ann"].mu, after["ann"].sigma) == pytest.approx(
        (1676.6482025523803, 320.5821119796), abs=1e-9
    )


@given(ratings, ratings)
def test_fc_46_the_order_of_the_players_changes_nothing_at_all(ann: Rating, ben: Rating) -> None:
    assert rate({"ann": ann, "ben": ben}, "ann") == rate({"ben": ben, "ann": ann}, "ann")


@given(ratings, ratings)
def test_fc_46_both_changes_come_from_the_ratings_before_the_match(ann: Rating, ben: Rating) -> None:
    """Exchanging the strengths and the winner exchanges the results: neither side sees the other's new value."""
    one = rate({"ann": ann, "ben": ben}, "ann")
    other = rate({"ann": ben, "ben": ann}, "ben")
    assert one["ann"].mu == pytest.approx(other["ben"].mu, abs=1e-9)
    assert one["ben"].sigma == pytest.approx(other["ann"].sigma, abs=1e-9)


@given(ratings, ratings)
def test_a_winner_never_falls_and_a_loser_never_rises(ann: Rating, ben: Rating) -> None:
    after = rate({"ann": ann, "ben": ben}, "ben")
    assert after["ben"].mu >= ben.mu - 1e-6
    assert after["ann"].mu <= ann.mu + 1e-6
    assert all(math.isfinite(r.mu) and r.sigma > 0 for r in after.values())


@pytest.mark.parametrize("winner", ["", "0", "99", "UNSPECIFIED", "carl", "ANN"])
def test_fc_48_a_winner_who_is_none_of_the_two_is_an_error_not_a_tie(winner: str) -> None:
    with pytest.raises(UnknownWinnerError):
        rate({"ann": NEW, "ben": NEW}, winner)


def test_a_match_has_two_players() -> None:
    with pytest.raises(ValueError, match="two players"):
        rate({"ann": NEW}, "ann")


@pytest.mark.parametrize(
    ("rating", "shown"),
    [(NEW, 800), (Rating(1500.0, 350.25), 799), (Rating(100.0, 60.0), -20), (Rating(100.5, 60.5), -21)],
)
def test_the_shown_rating_is_rounded_down(rating: Rating, shown: int) -> None:
    assert rating.shown == shown
