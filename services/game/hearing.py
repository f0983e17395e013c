"""What the clock, and operators, say of a match: to the command that waits for it, or in line behind what was heard."""

from __future__ import annotations

from services.game.decision import OpenDecision
from services.game.inbox import Declared, Inbox, LogLost, Message, Probed
from services.game.listeners import Listeners
from services.game.shell import Shell
from services.game.steps import Steps, pause
from services.storage.incidents import Incident
from services.wire.clock_messages import Armed, Arrival, Key, Mismatch, Probe, Stale, Timeout, Verdict, Void

Ended = Timeout | Void | Stale | Mismatch | Declared | LogLost
"""What ends a match, or this process's part in it."""
Judgement = Verdict | Ended


class Hearing:
    """The ears of a room. Everything is heard synchronously, on the loop, in the order in which it was said."""

    def __init__(self, shell: Shell) -> None:
        self.listeners = Listeners(shell.pace)
        self._shell = shell
        self._inbox = Inbox()
        self._steps = Steps()
        self._judging = False
        """Whether a command waits to be judged."""
        self._judgement: Judgement | None = None
        self._decision: OpenDecision | None = None
        self._declared = False

    def on_armed(self, armed: Armed) -> None:
        """The clock counts from here; after a resume it may have granted time."""
        decision = self._decision
        if decision is not None and decision.key == armed.key and decision.armed(armed):
            self.listeners.announce()

    def on_verdict(self, verdict: Verdict) -> None:
        """A command is in time."""
        self._judged(verdict)

    def on_probe(self, probe: Probe, watermark_ns: int) -> None:
        """Behind everything already in line: then nothing heard before the watermark is left."""
        self._post(Probed(probe, watermark_ns))

    def on_timeout(self, timeout: Timeout) -> None:
        """The deadline passed, with proof."""
        self._judged(timeout)

    def on_void(self, void_: Void) -> None:
        """Time can no longer be judged."""
        self._judged(void_)

    def on_stale(self, stale: Stale) -> None:
        """A newer owner exists."""
        self._judged(stale)

    def on_mismatch(self, mismatch: Mismatch) -> None:
        """The clock contradicts us."""
        self._judged(mismatch)

    def declare(self, incident: Incident) -> None:
        """An incident voids the match; saying it again changes nothing."""
        if not self._declared:
            self._declared = True
            self._judged(Declared(incident))

    def lose_log(self, why: str) -> None:
        """The database has lost rulings of this match that nobody can give back to it."""
        self._judged(LogLost(why))

    def _judged(self, message: Judgement) -> None:
        if self._judging:
            if not isinstance(message, Verdict | Timeout | Mismatch) or self._current(message.key):
                self._judging, self._judgement = False, message
                self._steps.go()
        elif not isinstance(message, Verdict):
            self._post(message)

    def _post(self, message: Message) -> None:
        self._inbox.post(message)
        self._steps.go()

    def _current(self, key: Key) -> bool:
        return self._decision is not None and key == self._decision.key

    def held_too_long(self) -> None:
        """The clock has said nothing about a command for as long as a match may be held."""
        self._judging = False
        self._steps.go()

    async def _judge(self, arrival: Arrival) -> Judgement | None:
        """What is said of a command; None when the clock said nothing for as long as a match may be held."""
        holds = self._shell.holds
        self._judging, self._judgement = True, None
        holds.begin(self)
        self._shell.clock.arrive(arrival)
        try:
            while self._judging:
                await pause
        finally:
            holds.end(self)
            self._judging = False
        return self._judgement
