"""What is true about a simulated process, whatever is done to its kernel clock."""

from __future__ import annotations

import pytest

from engine.clock import SECOND
from services.game.livetime import LiveTime
from tests.simulation.process import THRESHOLD_NS, Kernel, ListeningProcess
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


def test_a_stall_in_which_the_kernel_clock_stopped_ends_when_that_goes_on() -> None:
    """Until then nothing shows that its backlog is drained, however often the process waits."""
    world = World(1)
    process = ListeningProcess(world, "game", Kernel(world, world.dice("kernel")), LiveTime, "incarnation")
    process.pause(SECOND, busy=True)
    world.at(world.now + SECOND // 2, lambda: process.change_kernel(process.kernel.freeze))
    world.at(world.now + 2 * SECOND, lambda: process.reach(lambda: None))
    world.run(world.now + 2 * SECOND, lambda: False)
    heard = process.true_mark
    assert (process.live.mark(), process.live.gap_total_ns) == (heard, 0)
    process.change_kernel(process.kernel.thaw)
    world.at(world.now + SECOND, lambda: process.reach(lambda: None))
    world.run(world.now + SECOND, lambda: False)
    assert process.live.gap_total_ns == pytest.approx(SECOND // 2, abs=THRESHOLD_NS)
    assert process.live.mark() == pytest.approx(heard + SECOND, abs=THRESHOLD_NS)
    process.dispose()
