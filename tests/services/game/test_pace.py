"""A player's allowance of commands."""

from __future__ import annotations

from services.game import pace
from services.game.pace import COMMANDS_AT_ONCE, COMMANDS_PER_SECOND, Pace


class Time:
    """Stands still unless told."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def test_a_burst_is_allowed_and_then_a_steady_rate() -> None:
    """The allowance is spent by asking and filled by waiting; what is refused costs nothing."""
    time = Time()
    made = Pace(time)
    asked = [made.allows("ann") for _ in range(int(COMMANDS_AT_ONCE) + 5)]
    assert asked.count(True) == COMMANDS_AT_ONCE
    assert not any(asked[int(COMMANDS_AT_ONCE) :])
    time.seconds += 1
    assert [made.allows("ann") for _ in range(int(COMMANDS_PER_SECOND) + 1)].count(
        True
    ) == COMMANDS_PER_SECOND


def test_nobody_pays_for_another() -> None:
    """Each player has an own allowance, and it never grows beyond one burst."""
    time = Time()
    made = Pace(time)
    while made.allows("ann"):
        pass
    assert made.allows("ben")
    time.seconds += 3600
    assert made.allows("ann", COMMANDS_AT_ONCE)
    assert not made.allows("ann")


def test_only_so_many_players_are_remembered() -> None:
    """The one who was quiet for longest is forgotten first."""
    made = Pace(Time())
    while made.allows("ann"):
        pass
    for number in range(pace.PLAYERS_MAX):
        made.allows(str(number))
    assert len(made._spent) == pace.PLAYERS_MAX
    assert made.allows("ann")
