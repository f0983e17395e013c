"""What those who wait are told about the wait of others."""

from __future__ import annotations

from matchmaker.estimate import BASIS_MIN, RECENT
from matchmaker.ticket import SECOND, Ticket
from services.matchmaking.waits import FRESH, KEPT, STEP, Waits


class Clock:
    """A timeline that moves when told."""

    def __init__(self) -> None:
        self.now = 1_000 * SECOND

    def __call__(self) -> int:
        return self.now


def waited(clock: Clock, seconds: int, rating: float = 1500) -> Ticket:
    """The ticket of somebody who has waited so long."""
    return Ticket("somebody", rating, clock.now - seconds * SECOND)


def test_nothing_is_estimated_from_too_little() -> None:
    clock = Clock()
    waits = Waits(clock)
    for _ in range(BASIS_MIN - 1):
        waits.add("rated", waited(clock, 7))
    assert waits.estimate("rated", 1500) is None
    waits.add("rated", waited(clock, 9))
    clock.now += FRESH + 1
    found = waits.estimate("rated", 1500)
    assert found is not None
    assert (found.median, found.most, found.basis, found.similar) == (7 * SECOND, 9 * SECOND, BASIS_MIN, True)


def test_pools_are_estimated_apart() -> None:
    clock = Clock()
    waits = Waits(clock)
    for _ in range(BASIS_MIN):
        waits.add("rated", waited(clock, 7))
    assert waits.estimate("casual", 1500) is None
    assert waits.estimate("rated", 1500) is not None


def test_what_was_long_ago_says_nothing() -> None:
    clock = Clock()
    waits = Waits(clock)
    for _ in range(BASIS_MIN):
        waits.add("rated", waited(clock, 7))
    assert waits.estimate("rated", 1500) is not None
    clock.now += RECENT + 1
    assert waits.estimate("rated", 1500) is None


def test_an_estimate_is_at_most_a_second_old_and_made_once_for_neighbours() -> None:
    clock = Clock()
    waits = Waits(clock)
    for _ in range(BASIS_MIN):
        waits.add("rated", waited(clock, 7))
    first = waits.estimate("rated", 1500)
    waits.add("rated", waited(clock, 7))
    assert waits.estimate("rated", 1500 + STEP / 3) is first
    clock.now += FRESH + 1
    again = waits.estimate("rated", 1500)
    assert again is not None
    assert again.basis == BASIS_MIN + 1


def test_memory_is_bounded() -> None:
    clock = Clock()
    waits = Waits(clock)
    for _ in range(KEPT):
        waits.add("rated", waited(clock, 1, rating=3000))
    # The oldest are forgotten first.
    for _ in range(KEPT):
        waits.add("rated", waited(clock, 50))
    found = waits.estimate("rated", 3000)
    assert found is not None
    assert (found.median, found.similar) == (50 * SECOND, False)
