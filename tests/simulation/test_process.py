"""What is true about a simulated process, whatever is done to its kernel clock."""

from __future__ import annotations

import pytest

from engine.clock import SECOND
from services.game.livetime import LiveTime
from tests.simulation.process import Kernel, ListeningProcess
from tests.simulation.world import World


@pytest.mark.parametrize("paused", [False, True])
def test_what_was_heard_before_a_kernel_clock_went_back_stays_heard(*, paused: bool) -> None:
    """The process ends when it looks; how long it had listened until then is not less for the leap."""
    world = World(1)
    process = ListeningProcess(world, "game", Kernel(world, world.dice("kernel")), LiveTime, "incarnation")
    heard = process.true_mark
    if paused:
        process.pause(SECOND, busy=False)
    process.jump(-3 * SECOND)
    world.run(world.now + 2 * SECOND, lambda: False)
    process.reach(lambda: None)
    assert not process.alive
    assert heard <= process.true_mark <= heard + 2 * SECOND
    process.dispose()
