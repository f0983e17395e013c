"""What waits for a room, in the order in which it was heard."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Final

from services.game.asked import Asked
from services.storage.incidents import Incident
from services.wire.clock_messages import Mismatch, Probe, Stale, Timeout, Void

COMMANDS_MAX: Final = 64


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
        self._wake = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def full(self) -> bool:
        """Whether no more commands are taken."""
        return len(self._waiting) >= COMMANDS_MAX

    def post(self, message: Message) -> None:
        """Puts a message behind all others."""
        self._waiting.append(message)
        self._wake.set()

    def nudge(self) -> None:
        """Makes the room look up, though nothing was posted."""
        self._wake.set()

    def pop(self) -> Message:
        """The next message."""
        return self._waiting.popleft()

    async def changes(self, until: float | None) -> bool:
        """Waits for a message or a nudge; False when `until`, on the loop's clock, came first."""
        self._wake.clear()
        if self._waiting:
            return True
        try:
            async with asyncio.timeout_at(until):
                await self._wake.wait()
        except TimeoutError:
            return False
        return True

    def drain(self) -> list[Asked]:
        """Empties it; the commands that were in it."""
        asked = [message for message in self._waiting if isinstance(message, Asked)]
        self._waiting.clear()
        return asked
