"""The ladder as a fold: what rulings come to, what counts, and that a refused step moves nothing."""

from __future__ import annotations

import random
from importlib.metadata import version

import pytest

from matchmaker.ladder import (
    Action,
    Change,
    Ladder,
    NonsenseError,
    Record,
    Result,
    Treatment,
    rule,
    treatment_of,
)
from matchmaker.rating import (
    MODEL_VERSION,
    NEW,
    PROVISIONAL_SIGMA,
    Rating,
    UnknownModelError,
    UnknownWinnerError,
    model,
    rate,
)

COUNTS, HELD, REVERSED, ANNULLED = Treatment
HOLD, RELEASE, REVERSE, ANNUL = Action


@pytest.mark.parametrize(
    ("now", "action", "then"),
    [
        (COUNTS, HOLD, HELD),
        (COUNTS, RELEASE, "it is not held"),
        (COUNTS, REVERSE, REVERSED),
        (HELD, HOLD, "it is held already"),
        (HELD, RELEASE, COUNTS),
        (HELD, REVERSE, REVERSED),
        (REVERSED, HOLD, HELD),
        (REVERSED, RELEASE, "it is reversed"),
        (REVERSED, REVERSE, "it is reversed already"),
        (COUNTS, ANNUL, ANNULLED),
        (HELD, ANNUL, ANNULLED),
        (REVERSED, ANNUL, "it is reversed"),
        (ANNULLED, HOLD, "it is annulled"),
        (ANNULLED, RELEASE, "it is annulled"),
        (ANNULLED, REVERSE, "it is annulled"),
        (ANNULLED, ANNUL, "it is annulled already"),
    ],
)
def test_each_ruling_in_each_state_does_one_thing_or_is_refused(
    now: Treatment, action: Action, then: Treatment | str
) -> None:
    if isinstance(then, Treatment):
        assert rule(now, action) is then
    else:
        with pytest.raises(NonsenseError) as refused:
            rule(now, action)
        assert str(refused.value) == then


def test_rulings_come_to_what_the_last_one_leaves() -> None:
    assert treatment_of([]) is COUNTS
    assert treatment_of([HOLD, RELEASE, REVERSE, HOLD]) is HELD
    with pytest.raises(NonsenseError):
        treatment_of([HOLD, HOLD])


@pytest.mark.parametrize(
    ("rated", "cause", "treatment", "reason"),
    [
        (False, "void", HELD, "unrated_mode"),
        (False, "balance", COUNTS, "unrated_mode"),
        (True, "void", HELD, "void"),
        (True, "cancelled", REVERSED, "cancelled"),
        (True, "time", HELD, "held"),
        (True, "balance", REVERSED, "reversed"),
        (True, "balance", ANNULLED, "annulled"),
        (True, "void", ANNULLED, "void"),
        (True, "resignation", COUNTS, "rated"),
    ],
)
def test_the_first_reason_not_to_rate_is_the_one_that_is_given(
    rated: bool, cause: str, treatment: Treatment, reason: str
) -> None:
    winner = None if cause in ("void", "cancelled") else "north"
    result = Result(rated, "ann", "ben", winner, cause)
    assert result.reason(treatment) == reason
    ladder = Ladder()
    assert (ladder.take(result, treatment) is None) == (reason != "rated")
    assert bool(ladder.records) == (reason == "rated")


def test_a_match_moves_its_two_players_by_what_the_model_says() -> None:
    ladder = Ladder()
    ladder.take(Result(True, "ann", "ben", "south", "balance"))
    before = {"north": ladder.records["ben"].rating, "south": NEW}
    after = rate(before, "north")
    changes = ladder.take(Result(True, "ben", "carl", "north", "time"))
    assert changes == {seat: Change(before[seat], after[seat]) for seat in ("north", "south")}
    assert ladder.records["ben"] == Record(after["north"], 2, 2)
    assert ladder.records["carl"] == Record(after["south"], 1, 0)


def test_a_result_that_is_held_and_released_leaves_no_trace() -> None:
    """Taking all results again without one, and then with it, gives the same bits as never having touched it."""
    draw = random.Random(44)
    results = []
    for _ in range(200):
        north, south = draw.sample("abcdefgh", 2)
        results.append(Result(True, north, south, draw.choice(["north", "south"]), "balance"))

    def built(held: int | None = None) -> dict[str, Record]:
        ladder = Ladder()
        for number, result in enumerate(results):
            ladder.take(result, HELD if number == held else COUNTS)
        return ladder.records

    assert built(20) != built()
    assert built() == built()
    assert sum(record.rated_matches for record in built(20).values()) == 398


@pytest.mark.parametrize("winner", [None, "", "0", "99", "ann"])
def test_fc_48_a_senseless_winner_is_refused_and_moves_nothing(winner: str | None) -> None:
    """FC-48: an outcome that is not understood is an error, never a tie, in the fold too."""
    ladder = Ladder()
    ladder.take(Result(True, "ann", "ben", "north", "balance"))
    before = dict(ladder.records)
    with pytest.raises(UnknownWinnerError):
        ladder.take(Result(True, "ann", "ben", winner, "balance"))
    assert ladder.records == before


def test_a_decision_of_another_model_is_not_guessed_at() -> None:
    assert model(MODEL_VERSION) is rate
    ladder = Ladder()
    with pytest.raises(UnknownModelError, match="another model"):
        ladder.take(Result(True, "ann", "ben", "north", "balance"), COUNTS, "another model")
    assert ladder.records == {}


def test_the_version_of_the_model_names_the_release_that_computes() -> None:
    """A new release of the library may compute differently, so it is a new version."""
    assert MODEL_VERSION.startswith(f"openskill-{'.'.join(version('openskill').split('.')[:2])} ")


def test_a_rating_is_provisional_above_the_bound_and_so_for_the_first_dozen_matches() -> None:
    assert NEW.provisional
    assert Rating(1500, PROVISIONAL_SIGMA + 0.01).provisional
    assert not Rating(1500, PROVISIONAL_SIGMA).provisional
    established, player, matches = Rating(1500, 90), NEW, 0
    while player.provisional:
        matches += 1
        player = rate({"player": player, "other": established}, ("player", "other")[matches % 2])["player"]
    assert 10 <= matches <= 16
