"""How fast one player may ask: a game process that is never idle hears nobody, and that would be time for the flooder.

Time in which the process cannot be shown to have listened is credited. Whoever could keep it busy alone would buy time,
or a void match, so no player gets so much of it, by whatever call. Far more than hands or honest bots need is allowed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

COMMANDS_PER_SECOND: Final = 500.0
"""What a player may keep up."""
COMMANDS_AT_ONCE: Final = 2000.0
"""What a player may ask at once after a pause."""
DEAR_COST: Final = 10.0
"""Opening a stream, and a call that the database must answer, are as much work as so many commands."""
REFUSAL_SECONDS: Final = 5.0
"""How long a refused call waits for its refusal: to refuse is nearly as much work as to answer, and whoever was refused at
once would ask again at once."""
PLAYERS_MAX: Final = 100_000
"""Players remembered. Whoever was quiet for longest is forgotten first, and has a full allowance anyway."""


class Pace:
    """An allowance for each player: filled steadily, spent by asking. `now` is in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._spent: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, player_id: str, cost: float = 1.0) -> bool:
        """Whether the player may ask this now; if so, it is spent. What is refused costs nothing."""
        now = self._now()
        spent, at = self._spent.pop(player_id, (0.0, now))
        left = max(0.0, spent - (now - at) * COMMANDS_PER_SECOND)
        allowed = left + cost <= COMMANDS_AT_ONCE
        self._spent[player_id] = (left + cost if allowed else left, now)
        if len(self._spent) > PLAYERS_MAX:
            self._spent.popitem(last=False)
        return allowed
