"""A stall is booked with a decision for as long as the decision was open in it."""

from __future__ import annotations

from engine.clock import MILLISECOND, SECOND
from services.game.gaps import Gaps
from services.game.incarnation import Incarnation
from services.game.livetime import LiveTime


class Host:
    """A process that runs when told, and what it notices of that."""

    def __init__(self) -> None:
        self.now = 1_000 * SECOND
        self.live = LiveTime("test", read=lambda: self.now)
        self._gaps = Gaps(self.live, Incarnation("game", "game.1", "game"), "v1")

    def work(self, ns: int) -> None:
        """It has something to do, or does not run, for so long."""
        self.now += ns

    def rest(self) -> None:
        """It has nothing left to do."""
        self.live.waits(self.now)
        self.now += 2 * MILLISECOND
        self.live.woke(self.now - 2 * MILLISECOND, self.now)

    def booked(self, gap_total_from: int) -> list[int]:
        """What of each gap came after that total."""
        return [size for _, size in self._gaps.between(gap_total_from, self.live.gap_total_ns)]


def test_of_a_stall_that_lasted_already_a_decision_has_the_rest() -> None:
    """Opened in the backlog of a stall of 31 s, it has what passes before it is drained, and those 31 s void nothing."""
    host = Host()
    host.rest()
    host.work(31 * SECOND)
    opened = host.live.starting()
    host.work(200 * MILLISECOND)
    host.rest()
    assert host.live.gap_total_ns == 31 * SECOND + 200 * MILLISECOND
    assert host.booked(opened.gap_total_ns) == [200 * MILLISECOND]
    host.work(300 * MILLISECOND)
    host.rest()
    assert host.booked(opened.gap_total_ns) == [200 * MILLISECOND, 300 * MILLISECOND]
    assert host.booked(0) == [31 * SECOND + 200 * MILLISECOND, 300 * MILLISECOND]


def test_a_stall_that_began_later_is_booked_as_a_whole() -> None:
    """Also when the decision opened in the work that became a stall, but had not yet."""
    host = Host()
    host.rest()
    host.work(20 * MILLISECOND)
    opened = host.live.starting()
    host.work(31 * SECOND)
    host.rest()
    assert host.booked(opened.gap_total_ns) == [31 * SECOND + 20 * MILLISECOND]
