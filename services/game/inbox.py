"""What waits for a room, in the order in which it was heard."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import Final

from engine.seats import Seat
from services.game.asked import Asked
from services.storage.incidents import Incident
from services.wire.clock_messages import Mismatch, Probe, Stale, Timeout, Void

COMMANDS_MAX: Final = 64
"""Of each seat: whoever fills the line with theirs leaves the other seat its place."""


@dataclass(frozen=True, slots=True)
class Probed:
    """A probe, behind everything that was heard before it."""

    probe: Probe
    watermark_ns: int


@dataclass(frozen=True, slots=True)
class Declared:
    """An operator has declared an incident that voids this match."""

    incident: Incident


@dataclass(frozen=True, slots=True)
class LogLost:
    """The database has lost rulings of this match that nobody can give back to it."""

    why: str


Message = Asked | Probed | Declared | LogLost | Timeout | Void | Stale | Mismatch


class Inbox:
    """First in, first out. Commands are bounded; what the clock says is not, since it must not be lost."""

    def __init__(self) -> None:
        self._waiting: deque[Message] = deque()
        self._commands: Counter[Seat] = Counter()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def full(self, seat: Seat) -> bool:
        """Whether no more commands of a seat are taken."""
        return self._commands[seat] >= COMMANDS_MAX

    def post(self, message: Message) -> None:
        """Puts a message behind all others."""
        self._waiting.append(message)
        if isinstance(message, Asked):
            self._commands[message.command.seat] += 1

    def pop(self) -> Message:
        """The next message."""
        message = self._waiting.popleft()
        if isinstance(message, Asked):
            self._commands[message.command.seat] -= 1
        return message

    def drain(self) -> list[Asked]:
        """Empties it; the commands that were in it."""
        asked = [message for message in self._waiting if isinstance(message, Asked)]
        self._waiting.clear()
        self._commands.clear()
        return asked
