"""Who counts as lost, and how long everybody's time stands still when too many are (fault 25)."""

from __future__ import annotations

import pytest

from services.game.livetime import LiveTime
from services.game.massloss import HOLD_SECONDS_MAX, LOST_MIN, WINDOW_SECONDS, MassLoss


class World:
    """A time of its own, and live time that is frozen or not."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.live = LiveTime(read=lambda: int(self.now * 1e9))
        self.losses = MassLoss(self.live, lambda: self.now)

    def holding(self) -> bool:
        """Whether time is held."""
        return self.losses.holding

    def stands_still(self) -> bool:
        """Whether nothing counts as listening."""
        before = self.live.mark()
        self.now += 0.001
        self.live.idle(int(self.now * 1e9))
        return self.live.mark() == before


@pytest.fixture
def world() -> World:
    """Forty players, each with a stream."""
    world = World()
    for number in range(40):
        world.losses.opened(f"player-{number}")
    return world


def lose(world: World, *numbers: int) -> None:
    """Their streams break."""
    for number in numbers:
        world.losses.ended(f"player-{number}", broken=True)


def test_half_of_the_players_at_once_stop_time_until_they_are_back(world: World) -> None:
    """Scenario 48: and it goes on as soon as half of all are here."""
    lose(world, *range(LOST_MIN))
    assert world.holding()
    assert world.stands_still()
    world.losses.opened("player-0")
    world.losses._look()
    assert not world.holding()
    assert not world.stands_still()


def test_less_than_half_stop_nothing(world: World) -> None:
    """Scenario 48: nineteen of forty."""
    lose(world, *range(19))
    assert not world.holding()
    assert not world.stands_still()


def test_one_player_with_many_streams_is_one_player() -> None:
    """R24: what one client does stops nobody's clock, however many streams it opens and drops."""
    world = World()
    for _ in range(32):
        world.losses.opened("crafty")
    for _ in range(32):
        world.losses.ended("crafty", broken=True)
    assert not world.holding()


def test_who_comes_back_at_once_was_not_lost(world: World) -> None:
    """One stream replaced by the next, by everybody, again and again."""
    for _ in range(3):
        for number in range(40):
            lose(world, number)
            world.losses.opened(f"player-{number}")
    assert not world.holding()


def test_players_who_leave_one_after_the_other_stop_nothing(world: World) -> None:
    """Outside of the window they are not lost together."""
    for number in range(40):
        lose(world, number)
        world.now += WINDOW_SECONDS / 10
        world.losses._look()
    assert not world.holding()


def test_what_the_process_ends_itself_is_no_loss(world: World) -> None:
    """The ends of matches, and a drain."""
    for number in range(40):
        world.losses.ended(f"player-{number}", broken=False)
    assert not world.holding()


def test_the_hold_ends_although_nobody_comes_back(world: World) -> None:
    """Longer than the limit nobody waits."""
    lose(world, *range(30))
    assert world.holding()
    world.now += HOLD_SECONDS_MAX
    world.losses._look()
    assert not world.holding()


def test_players_who_left_while_the_process_stood_still_are_not_waited_for(world: World) -> None:
    """A process that was paused past its lease wakes up, and its players are elsewhere: it is not well itself, and whoever
    comes to it next must not stand still for that."""
    world.now += 12
    lose(world, *range(30))
    assert not world.holding()
    # Once it listens again, the next ones count.
    world.live.idle(int(world.now * 1e9))
    for number in range(40):
        world.losses.opened(f"player-{number}")
    lose(world, *range(30))
    assert world.holding()
