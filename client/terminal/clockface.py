"""Both clocks at one instant, worked out from the last figures of the service; never more than there is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine.seats import NORTH, SOUTH, BySeat

if TYPE_CHECKING:
    from client.table import TableState
    from engine.seats import Seat

LOW_MS: Final = 20_000
"""A bank below this is shown as low."""


@dataclass(frozen=True, slots=True)
class Face:
    """One seat's clock."""

    delay_ms: int
    """What is left of the delay; the whole delay when the clock stands, as the next decision brings it afresh."""
    bank_ms: int
    running: bool

    @property
    def low(self) -> bool:
        """Whether the bank is nearly gone."""
        return self.bank_ms < LOW_MS

    @property
    def over(self) -> bool:
        """Whether nothing is left; the service has the last word."""
        return self.running and self.delay_ms + self.bank_ms <= 0

    @property
    def delay(self) -> str:
        """The delay in whole seconds, rounded down."""
        return str(self.delay_ms // 1000)

    @property
    def bank(self) -> str:
        """The bank, rounded down: minutes and seconds, and tenths when it is nearly gone."""
        if self.bank_ms < LOW_MS // 2:
            return f"{self.bank_ms // 1000}.{self.bank_ms % 1000 // 100}"
        return f"{self.bank_ms // 60_000}:{self.bank_ms // 1000 % 60:02}"


def faces(table: TableState, now: float, *, way_ms: int = 0) -> BySeat[Face]:
    """Both clocks at `now`, seconds on the monotonic clock that `Clock.as_of` is on.

    `way_ms` is what a message to the service and its answer take: the figures were that old at most when they came, and
    a command needs that long at most to arrive. It is taken off the clock that runs.
    """
    clock = table.prompt.clock
    running = clock.running if table.outcome is None else None

    def face(seat: Seat) -> Face:
        # Of two figures the later one is the lower: a bank is never refilled (rule 6.1).
        bank = max(0, min(clock.banks_ms[seat], table.banks_ms[seat]))
        if seat is not running:
            return Face(table.delay_ms, bank, running=False)
        spent = max(0, int((now - clock.as_of) * 1000) + 1) + way_ms
        # The two figures of the service: what is left of the delay, and of both together.
        bank = min(bank, max(0, clock.remaining_ms - clock.delay_left_ms))
        delay = max(0, clock.delay_left_ms - spent)
        return Face(delay, max(0, min(bank, clock.remaining_ms - spent)), running=True)

    return BySeat(face(NORTH), face(SOUTH))
