"""What is true about a turn that several processes opened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from engine.clock import SECOND
from engine.seats import Seat
from services.wire import clock_messages as m
from tests.simulation.database import Database
from tests.simulation.game import GameProcess, Parts
from tests.simulation.opened import RESOLUTION_NS, Opened, Openings
from tests.simulation.process import Kernel
from tests.simulation.truth import Truth
from tests.simulation.world import EPOCH, World


@dataclass
class Turn:
    """One turn of one match, and two processes that take it from each other."""

    world: World = field(default_factory=lambda: World(1))
    openings: Openings = field(default_factory=Openings)

    def __post_init__(self) -> None:
        database = Database(self.world)
        truth = Truth(self.world, database)
        self.games = [
            GameProcess(self.world, name, Kernel(self.world, self.world.dice(name)), database, truth, Parts())
            for name in ("game-a", "game-b")
        ]

    def open(self, game: int, fence: int, cause: m.OpenCause, consumed_ns: int = 0) -> Opened:
        """A process opens it now."""
        process, key = self.games[game], m.Key("match", fence, 1)
        at = process.live.starting()
        stamps = (at.at_ns, at.raw_ns, at.mark_ns, at.gap_total_ns)
        bank, delay = 120 * SECOND, 10 * SECOND
        opened = m.Open(key, cause, Seat.NORTH, "bid", *stamps, bank, delay, consumed_ns, 0, 0)
        return self.openings.add(process, opened, 1, self.world.now, EPOCH)

    def wait(self, seconds: int) -> None:
        """Time passes."""
        self.world.run(self.world.now + seconds * SECOND, lambda: False)


@pytest.fixture
def turn() -> Iterator[Turn]:
    """Taken apart at the end."""
    turn = Turn()
    yield turn
    for game in turn.games:
        game.dispose()


def used(record: Opened, seconds: int) -> bool:
    """Whether that much can have been used when it was opened, and hardly more."""
    return 0 <= record.bound_ns - seconds * SECOND < 10 * RESOLUTION_NS


def test_who_opens_under_an_older_fence_takes_nothing_from_the_owner(turn: Turn) -> None:
    """Two took the match up, the first of them opens last: the next owner goes on from the second."""
    turn.open(0, 1, m.OpenCause.NEW)
    turn.wait(1)
    turn.open(0, 3, m.OpenCause.RESUME)
    turn.wait(2)
    turn.open(1, 2, m.OpenCause.RESUME)
    turn.games[1].clock.close("match", 2, "not played here")
    turn.wait(4)
    assert used(turn.open(1, 4, m.OpenCause.RESUME), 7)


def test_who_opens_under_an_older_fence_goes_on_from_before_it(turn: Turn) -> None:
    """What the owner of a higher fence heard was never heard under this one."""
    turn.open(0, 1, m.OpenCause.NEW)
    turn.wait(1)
    turn.games[0].clock.close("match", 1, "not played here")
    turn.open(0, 3, m.OpenCause.RESUME)
    turn.wait(2)
    assert used(turn.open(1, 2, m.OpenCause.RESUME), 1)


def test_a_draw_goes_on_from_the_part_before_it(turn: Turn) -> None:
    """Whatever another process opened meanwhile under an older fence."""
    turn.open(0, 3, m.OpenCause.NEW)
    turn.wait(1)
    turn.open(1, 2, m.OpenCause.RESUME)
    turn.games[1].clock.close("match", 2, "not played here")
    turn.wait(2)
    assert used(turn.open(0, 3, m.OpenCause.CONTINUE, 3 * SECOND), 3)
