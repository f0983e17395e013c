"""What one player, or one address, may use up."""

from __future__ import annotations

from services.common.allowance import DEBT_MAX, Allowance, Places, Rate

RATE = Rate(per_second=5.0, at_once=20.0)


class Time:
    """Stands still unless told."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def burst(made: Allowance, key: str) -> int:
    """How often the key is let in before it must wait."""
    count = 0
    while not made.wait(key):
        count += 1
    return count


def test_a_burst_is_allowed_and_then_a_steady_rate() -> None:
    """The allowance is spent by asking and filled by waiting; what is refused costs nothing."""
    time = Time()
    made = Allowance(RATE, time)
    assert burst(made, "ann") == RATE.at_once
    time.seconds += 1
    assert burst(made, "ann") == RATE.per_second


def test_who_is_refused_is_told_the_truth_about_when_to_come_back() -> None:
    """Not sooner, and not later: then the same is let in."""
    time = Time()
    made = Allowance(RATE, time)
    burst(made, "ann")
    wait = made.wait("ann", 10.0)
    assert wait == 10.0 / RATE.per_second
    time.seconds += wait * 0.99
    assert made.wait("ann", 10.0) > 0
    time.seconds += wait * 0.01 + 1e-6
    assert made.wait("ann", 10.0) == 0


def test_nobody_pays_for_another() -> None:
    """Each has an own allowance, and it never grows beyond one burst."""
    time = Time()
    made = Allowance(RATE, time)
    burst(made, "ann")
    assert made.wait("ben") == 0
    time.seconds += 3600
    assert burst(made, "ann") == RATE.at_once


def test_debts_are_paid_off_in_bounded_time() -> None:
    """What is charged without asking is owed, up to a limit; what is given back is there again, up to one burst."""
    time = Time()
    made = Allowance(RATE, time)
    for _ in range(1000):
        made.charge("ann", 10.0)
    assert made.wait("ann") == (DEBT_MAX * RATE.at_once + 1) / RATE.per_second
    for _ in range(1000):
        made.charge("ann", -10.0)
    assert burst(made, "ann") == RATE.at_once


def test_only_so_many_are_remembered() -> None:
    """The one who was quiet for longest is forgotten first."""
    made = Allowance(RATE, Time(), keys_max=100)
    burst(made, "ann")
    for number in range(100):
        made.wait(str(number))
    assert len(made._spent) == 100
    assert made.wait("ann") == 0


def test_places_are_limited_for_each_and_nobody_is_remembered_for_what_he_had() -> None:
    """Who leaves makes room for himself alone."""
    made = Places(2)
    assert [made.take("ann"), made.take("ann"), made.take("ann"), made.take("ben")] == [
        True,
        True,
        False,
        True,
    ]
    assert made.taken == 3
    made.leave("ben")
    assert not made.take("ann")
    made.leave("ann")
    assert made.take("ann")
    made.leave("ann")
    made.leave("ann")
    assert (made.taken, len(made._by_key)) == (0, 0)
