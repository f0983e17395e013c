"""What counts as lost, and how long everybody's time stands still when too much is (fault 25)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from services.common.peers import Peers
from services.game.livetime import LiveTime
from services.game.massloss import (
    COOLDOWN_SECONDS,
    HOLD_SECONDS_MAX,
    LOST_MIN,
    WINDOW_SECONDS,
    MassLoss,
    Place,
)
from services.game.networks import network_of
from services.wire.clock_messages import Policy

MATCHES = 2 * LOST_MIN


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

    def passes(self, seconds: float) -> None:
        """Time goes on, and the process listens all along."""
        self.now += seconds
        self.live.idle(int(self.now * 1e9))
        self.losses._look()

    def come(self, places: Iterable[Place]) -> None:
        """Their streams begin."""
        for place in places:
            self.losses.opened(place)

    def lose(self, places: Iterable[Place], *, broken: bool = True, running: bool = True) -> None:
        """Their streams end."""
        for place in places:
            self.losses.ended(place, broken=broken, running=running)


def seats(*numbers: int, network: str | None = None) -> list[Place]:
    """Both seats of these matches, each match from a network of its own unless one is given."""
    return [
        Place(f"match-{number}", f"player-{number}-{seat}", network or f"net-{number}")
        for number in numbers
        for seat in ("north", "south")
    ]


@pytest.fixture
def world() -> World:
    """Twenty matches, both players of each with a stream."""
    world = World()
    world.come(seats(*range(MATCHES)))
    return world


def test_half_of_the_matches_at_once_stop_time_until_they_are_back(world: World) -> None:
    """Scenario 48: and it goes on as soon as half of all are whole."""
    world.lose(seats(*range(LOST_MIN + 1)))
    assert world.holding()
    assert world.stands_still()
    world.come(seats(0))
    world.losses._look()
    assert not world.holding()
    assert not world.stands_still()


def test_less_than_half_stop_nothing(world: World) -> None:
    """Scenario 48: nine of twenty, both players of each."""
    world.lose(seats(*range(LOST_MIN - 1)))
    assert not world.holding()
    assert not world.stands_still()


def test_one_player_of_a_match_is_enough_and_two_are_one_loss(world: World) -> None:
    """Who is lost from a match, and how many of them, makes no difference."""
    world.lose(seats(*range(LOST_MIN))[::2][:-1])
    assert not world.holding()
    world.lose(seats(*range(LOST_MIN))[1::2][:-1])
    assert not world.holding()
    world.lose(seats(LOST_MIN - 1)[:1])
    assert world.holding()


def test_one_player_with_many_streams_is_one_player() -> None:
    """R24: what one client does stops nobody's clock, however many streams it opens and drops."""
    world = World()
    world.come(seats(0) * 32)
    world.lose(seats(0) * 32)
    assert not world.holding()


def test_one_network_is_one_loss(world: World) -> None:
    """A person has as many players and matches as they like, and not as many networks: matches of a hundred players of
    theirs against each other, dropped at once, stop nobody's clock."""
    theirs = seats(*range(1000, 1050), network="theirs")
    world.come(theirs)
    world.lose(theirs)
    assert not world.holding()
    # With one network less than it takes, too.
    few = [place._replace(network=f"net-{n % (LOST_MIN - 1)}") for n, place in enumerate(theirs)]
    world.passes(WINDOW_SECONDS)
    world.come(few)
    world.lose(few)
    assert not world.holding()
    # The matches of others count as before.
    world.lose(seats(*range(MATCHES)))
    assert world.holding()


def test_matches_whose_clock_does_not_run_are_no_losses(world: World) -> None:
    """Nobody can lose on time in them."""
    world.lose(seats(*range(MATCHES)), running=False)
    assert not world.holding()


def test_one_hold_is_not_followed_by_another(world: World) -> None:
    """Holds must not add up to what makes a match void, whoever makes the connections break."""
    world.lose(seats(*range(MATCHES)))
    assert world.holding()
    world.come(seats(*range(MATCHES)))
    world.losses._look()
    assert not world.holding()
    for _ in range(3):
        world.passes(COOLDOWN_SECONDS / 4)
        world.lose(seats(*range(MATCHES)))
        assert not world.holding()
        world.come(seats(*range(MATCHES)))
    world.passes(COOLDOWN_SECONDS / 4)
    world.lose(seats(*range(MATCHES)))
    assert world.holding()
    # Two of them, in a match as long as that, are not yet too much.
    assert Policy().credit_total_max_ns > 2 * HOLD_SECONDS_MAX * 1e9
    assert Policy().gap_max_ns > HOLD_SECONDS_MAX * 1e9


def test_who_comes_back_at_once_was_not_lost(world: World) -> None:
    """One stream replaced by the next, by everybody, again and again."""
    for _ in range(3):
        for place in seats(*range(MATCHES)):
            world.lose([place])
            world.come([place])
    assert not world.holding()


def test_players_who_leave_one_after_the_other_stop_nothing(world: World) -> None:
    """Outside of the window they are not lost together."""
    for place in seats(*range(MATCHES)):
        world.lose([place])
        world.passes(WINDOW_SECONDS / 10)
    assert not world.holding()


def test_what_the_process_ends_itself_is_no_loss(world: World) -> None:
    """The ends of matches, and a drain."""
    world.lose(seats(*range(MATCHES)), broken=False)
    assert not world.holding()


def test_the_hold_ends_although_nobody_comes_back(world: World) -> None:
    """Longer than the limit nobody waits."""
    world.lose(seats(*range(MATCHES)))
    assert world.holding()
    world.now += HOLD_SECONDS_MAX
    world.losses._look()
    assert not world.holding()


def test_players_who_left_while_the_process_stood_still_are_not_waited_for(world: World) -> None:
    """A process that was paused past its lease wakes up, and its players are elsewhere: it is not well itself, and whoever
    comes to it next must not stand still for that."""
    world.now += 12
    world.lose(seats(*range(LOST_MIN)))
    assert not world.holding()
    # Once it listens again, the next ones count.
    world.live.idle(int(world.now * 1e9))
    world.come(seats(*range(LOST_MIN)))
    world.lose(seats(*range(MATCHES)))
    assert world.holding()


def test_a_network_is_what_one_customer_has() -> None:
    """Addresses of one person are one network, as they are told to us."""
    peers = Peers()

    def network(peer: str) -> str:
        return network_of(peers.address(peer, ()))

    assert network("ipv4:203.0.113.7:4000") == network("ipv4:203.0.113.250:1") == "203.0.113.0/24"
    assert network("ipv6:%5B2001:db8:1:2::7%5D:4000") == network("ipv6:%5B2001:db8:1:ffff::1%5D:1")
    assert network("ipv6:%5B2001:db8:2:2::7%5D:4000") != network("ipv6:%5B2001:db8:1:2::7%5D:4000")
    assert network("ipv6:%5B::ffff:203.0.113.9%5D:1") == "203.0.113.0/24"
    assert network("ipv4:203.0.114.7:4000") != "203.0.113.0/24"
    assert network("unix:") == network("unix:/run/somewhere")
