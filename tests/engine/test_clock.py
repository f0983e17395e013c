"""The arithmetic of the match clock, to the nanosecond."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.clock import (
    BANK,
    DELAY,
    RESUME_FLOOR,
    SECOND,
    Charge,
    Effect,
    Verdict,
    deadline,
    forfeit,
    judge,
    resume_consumed,
    settle,
)

instants = st.integers(0, 10**18)
banks = st.integers(0, BANK)
durations = st.integers(0, BANK + DELAY)


@pytest.mark.parametrize(
    ("bank", "elapsed", "charge"),
    [
        (120 * SECOND, 8 * SECOND, 0),
        (120 * SECOND, 13 * SECOND, 3 * SECOND),
        (120 * SECOND, 10 * SECOND, 0),
        (120 * SECOND, 10 * SECOND + 1, 1),
        (2 * SECOND, 12 * SECOND - 1, 2 * SECOND - 1),
        (2 * SECOND, 11_900_000_000, 1_900_000_000),  # a simple delay: nothing is added to the bank
    ],
)
def test_the_bank_pays_what_exceeds_the_delay(bank: int, elapsed: int, charge: int) -> None:
    """Rule 6.2."""
    expected = Charge(elapsed, 0, charge, bank - charge)
    assert expected == settle(1000, 1000 + elapsed, 0, bank, DELAY, Effect.ENDS)


@pytest.mark.parametrize("consumed", [0, 1, 3 * SECOND])
@pytest.mark.parametrize("bank", [0, 1, 2 * SECOND, BANK])
def test_one_nanosecond_decides(bank: int, consumed: int) -> None:
    """Rule 6.7: the deadline itself is too late."""
    end = deadline(7, consumed, bank)
    assert end == 7 + DELAY + bank - consumed
    verdicts = [judge(7, end + late, consumed, bank) for late in (-1, 0, 1)]
    assert verdicts == [Verdict.IN_TIME, Verdict.TIMED_OUT, Verdict.TIMED_OUT]
    with pytest.raises(ValueError, match="lost"):
        settle(7, end, consumed, bank, DELAY, Effect.ENDS)


def test_a_draw_carries_its_time_and_pays_nothing_yet() -> None:
    """Rule 6.3: a draw at 4 s, stored in 3 s that nobody pays, a play 7 s later: 11 s, 1 s to pay."""
    drawn = settle(0, 4 * SECOND, 0, BANK, DELAY, Effect.CONTINUES)
    assert drawn == Charge(4 * SECOND, 4 * SECOND, 0, BANK)
    start = 7 * SECOND
    placed = settle(start, start + 7 * SECOND, drawn.consumed, BANK, DELAY, Effect.ENDS)
    assert placed == Charge(11 * SECOND, 0, SECOND, 119 * SECOND)


@given(instants, durations, st.lists(durations, max_size=3), banks)
def test_the_bank_never_grows_and_empties_only_by_a_forfeit(
    start: int, wait: int, draws: list[int], bank: int
) -> None:
    """However a turn is cut into draws, it costs what it took; in time means at least a nanosecond is left."""
    consumed = 0
    for draw in draws:
        if judge(start, start + draw, consumed, bank) is Verdict.TIMED_OUT:
            return
        consumed = settle(start, start + draw, consumed, bank, DELAY, Effect.CONTINUES).consumed
    assert consumed == sum(draws)
    if judge(start, start + wait, consumed, bank) is Verdict.TIMED_OUT:
        assert sum(draws) + wait >= DELAY + bank
        assert forfeit(bank) == Charge(DELAY + bank, 0, bank, 0)
        return
    cost = settle(start, start + wait, consumed, bank, DELAY, Effect.ENDS)
    assert cost.elapsed == sum(draws) + wait
    assert cost.charge == max(0, cost.elapsed - DELAY)
    assert cost.bank_after == bank - cost.charge
    assert cost.bank_after > 0 or bank == 0


@given(instants, st.integers(1, SECOND), banks)
def test_an_arrival_dated_before_the_start_used_nothing(start: int, early: int, bank: int) -> None:
    assert settle(start, start - early, 0, bank, DELAY, Effect.ENDS) == Charge(0, 0, 0, bank)


@given(durations, banks)
def test_a_turn_that_resumes_has_the_floor_or_all_there_is(proven: int, bank: int) -> None:
    consumed = resume_consumed(proven, bank)
    assert 0 <= consumed <= proven
    assert DELAY + bank - consumed >= min(RESUME_FLOOR, DELAY + bank)


def test_a_budget_below_the_floor_is_given_whole() -> None:
    assert resume_consumed(SECOND, 0, delay=2 * SECOND) == 0
