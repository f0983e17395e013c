"""What every house bot must do: answer each question legally, from its seat's view alone, the same way each time."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.arena.seat import ArenaSeat
from client.bots.levels import LEVELS
from client.bots.search import deals
from engine.match import decide
from engine.refusal import Refusal
from engine.seats import NORTH
from engine.tiles import Tile, tiles_of
from engine.view import view
from tests.client.bots.seen import Seen, positions

FEW = deals(16)


def sitting(name: str, seen: Seen) -> ArenaSeat:
    """A bot of this level on that seat, with all that the seat remembers."""
    bot = ArenaSeat(seen.seat, LEVELS[name].choose, FEW, "seed")
    bot.memory = seen.memory
    return bot


def exchanged(seen: Seen, rng: random.Random) -> Seen:
    """Another true state of the match that looks the same from the seat: other tiles in the other hand and boneyard."""
    hidden = seen.deals.draw(rng)
    boneyard: tuple[Tile, ...] = tuple(tiles_of(tile)[0] for tile in hidden.boneyard)
    state = seen.state._replace(boneyard=boneyard)
    if seen.seat is NORTH:
        return seen._replace(state=state._replace(south_hand=hidden.hand))
    return seen._replace(state=state._replace(north_hand=hidden.hand))


@pytest.mark.parametrize("name", LEVELS)
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_what_is_hidden_changes_no_choice(name: str, seed: int) -> None:
    """Two true states with equal views and the same seed: the same answer, and a legal one."""
    rng, different = random.Random(seed), 0
    for seen in positions(seed):
        other = exchanged(seen, rng)
        different += other.state != seen.state
        assert view(seen.state, seen.seat) == view(other.state, seen.seat)
        command = sitting(name, seen).answer(seen.state)
        assert command == sitting(name, seen).answer(other.state)
        assert not isinstance(decide(seen.state, command), Refusal)
    assert different
