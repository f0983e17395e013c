"""The states of a match clock, and how long it stays in them.

    IDLE --Open--> RUNNING --Arrival in time, ends------> JUDGED --Applied, or the next Open--> IDLE
                     | ^  `--Arrival in time, continues-> HELD ----Open(CONTINUE)-------------> RUNNING
        timer at D   | | ProbeReply before D (timer again)
                     v |
                   PROBING --ProbeReply at or after D---> FORFEIT
    RUNNING, PROBING ------Arrival at or after D--------> FORFEIT
    any but FORFEIT -------cap, contradiction-----------> VOID

FORFEIT and VOID absorb: whatever comes, the answer is the same again. `closed` lies over the state, because an owner
that leaves also closes, and the next one, under a higher fence, goes on from what is remembered.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from engine.clock import MILLISECOND, SECOND

REARM_NS_MIN: Final = 1 * MILLISECOND
MEMORY_NS: Final = 3600 * SECOND
"""How long a match is remembered when nothing happens: far longer than any outage that does not void."""
CLOSED_MEMORY_NS: Final = 120 * SECOND
"""The same once its owner has left it; longer than the longest gap from which another may go on."""


class State(Enum):
    """Where the clock of a match stands. Without a session it stays there and nothing times out."""

    IDLE = auto()
    RUNNING = auto()
    PROBING = auto()
    JUDGED = auto()
    HELD = auto()
    FORFEIT = auto()
    VOID = auto()


LIVE: Final = frozenset({State.RUNNING, State.PROBING, State.JUDGED, State.HELD})
