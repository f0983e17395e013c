"""Rules taken away, one at a time, to see that the simulation notices.

Production code has no switches: what is taken away is taken away here, by a subclass or by another function in the
place of the real one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Any, Final

from engine.clock import MILLISECOND, SECOND, Effect
from engine.refusal import Refusal
from services.clock import matchclock, timekeeper
from services.clock.state import State
from services.clock.timekeeper import Said, Timekeeper
from services.game import limits, massloss, room, rooms
from services.game.asked import Asked, rule
from services.game.clock_client import ClockLink
from services.game.decision import OpenDecision
from services.game.livetime import LiveTime, Stamp
from services.game.room import Room
from services.storage import incidents
from services.storage.entry import Entry
from services.storage.journal import Journal
from services.wire import clock_messages as m
from tests.simulation.database import WALL
from tests.simulation.game import Parts
from tests.simulation.simulation import Switches


@dataclass(frozen=True)
class Switch:
    """A rule that can be taken away."""

    rule: str
    """Which, and what happens without it."""
    make: Callable[[], Switches]


class TimerDecides(Timekeeper):
    """When the timer rings, nobody is asked (R13)."""

    def expire(self, now: int) -> Said:
        said: Said = []
        for session, message in super().expire(now):
            if isinstance(message, m.Probe):
                said += self.handle(
                    session, m.ProbeReply(message.key, message.probe_no, message.deadline_ns), now
                )
            else:
                said.append((session, message))
        return said


class StampedNow(LiveTime):
    """A stamp is now, not the last idle instant (R3)."""

    def heard(self) -> Stamp:
        raw = self.raw()
        now = raw - self.gap_total_ns
        return Stamp(now, raw, now, self.gap_total_ns)


class NoGaps(LiveTime):
    """Stalls are not frozen out (R3)."""

    def idle(self, at: int) -> None:
        super().idle(at)
        self.gap_total_ns = 0
        self._gaps.clear()


class OldSessionsObeyed(Timekeeper):
    """What a superseded session says counts (R14)."""

    def handle(self, session_name: str, message: m.EngineMessage, now: int) -> Said:
        if isinstance(message, m.Hello):
            self._spoke = {**getattr(self, "_spoke", {}), session_name: message.engine_id}
            engine = self._engines.get(message.engine_id)
            if engine is not None:
                engine.owner.attach_no = 0
                engine.retired.clear()
        elif session_name not in self._sessions:
            engine = self._engines.get(getattr(self, "_spoke", {}).get(session_name, ""))
            if engine is not None and engine.owner.session is not None:
                return super().handle(engine.owner.session, message, now)
        return super().handle(session_name, message, now)


class RawBeats(ClockLink):
    """Beats carry now, not the mark (R5)."""

    def _pong(self, n: int) -> None:
        live = self._live
        gaps, self._gaps_told = live.gaps_since(self._gaps_told)
        raw = live.raw()
        self._say(m.Pong(n, raw, raw - live.gap_total_ns, True, live.gap_total_ns, gaps))


class PendingForgotten(ClockLink):
    """A new session is not told of commands that wait for their verdict."""

    def _hello(self) -> m.Hello:
        return replace(super()._hello(), pending=())


class OpenForgotten(ClockLink):
    """A new session is not told of open decisions."""

    def _hello(self) -> m.Hello:
        return replace(super()._hello(), open=(), pending=())


class LeavesSilently(ClockLink):
    """A clock is not told that a match is not played here any more (P0)."""

    def close(self, match_id: str, fence: int, reason: str) -> None:
        if reason != "not played here":
            super().close(match_id, fence, reason)
        elif self._governed(match_id, fence) is not None:
            del self._matches[match_id]


class OpenedEarly(Room):
    """A decision counts from the arrival of the command before it, so that the commit is not free (R8)."""

    async def _commit(self, *args: Any, asked: Any = None, **kwargs: Any) -> None:
        self._early = None if asked is None else asked.heard
        await super()._commit(*args, asked=asked, **kwargs)

    def _open_decision(self, cause: m.OpenCause) -> None:
        live, early = self._shell.livetime, getattr(self, "_early", None)
        if early is None:
            super()._open_decision(cause)
            return
        real = live.starting
        live.starting = lambda: replace(real(), at_ns=early.at_ns)  # type: ignore[method-assign]
        try:
            super()._open_decision(cause)
        finally:
            del live.starting


class ToldFirst(Room):
    """News are told before they are stored (R7)."""

    async def _commit(self, events: Any, **more: Any) -> None:
        story = self.story
        own = {audience: dict(told) for audience, told in story._own.items()}
        before = {**story.__dict__, "_public": list(story._public), "_own": own}
        story.tell(events, 0)
        self.listeners.announce()
        for _ in range(10):
            await asyncio.sleep(0)
        story.__dict__.update(before)
        await super()._commit(events, **more)


class NoReadBack(Journal):
    """After a commit with an unknown result nobody looks whether it is there."""

    async def _already_there(self, connection: Any, entries: Any) -> set[str]:
        return set()


class NoIncidents(Journal):
    """Credits are not written down."""

    def append(self, entry: Entry) -> Any:
        return super().append(replace(entry, touched=()))


class NoEvidence(Journal):
    """A forfeit is stored without its proof (R25)."""

    def append(self, entry: Entry) -> Any:
        ending = entry.ending
        if ending is not None:
            entry = replace(entry, ending=replace(ending, evidence=None))
        return super().append(entry)


class ForgetfulClock(matchclock.MatchClock):
    """A proven timeout is forgotten when another process takes the match over (R21)."""

    def _take_over(self, message: m.Open, owner: Any, now: int) -> list[m.ClockMessage]:
        if self._timeout is not None and self.state is State.FORFEIT:
            self.state, self._timeout, self._verdict = State.RUNNING, None, None
        return super()._take_over(message, owner, now)


class LosesItsStart(matchclock.MatchClock):
    """A timeout told to the next owner is told with that owner's start, which is on another timeline."""

    def _after_forfeit(self, message: m.Open, now: int) -> list[m.ClockMessage]:
        if self._timeout is not None:
            self._timeout = replace(self._timeout, start_ns=message.start_ns, consumed_ns=message.consumed_ns)
        return super()._after_forfeit(message, now)


class RunsThroughCrash(matchclock.MatchClock):
    """The time between the death of one process and the resume by another is the player's (P0)."""

    def _resume(self, message: m.Open, proven_ns: int, gap_ns: int, *more: Any) -> list[m.ClockMessage]:
        return super()._resume(message, proven_ns + gap_ns, 0, *more)


class JudgesAgain(matchclock.MatchClock):
    """A command that comes after the verdict is judged, too (R15)."""

    def arrive(self, message: m.Arrival, now: int, *, hold_ns: int = 0) -> list[m.ClockMessage]:
        if self.state in (State.JUDGED, State.HELD) and message.key.decision_no == self.decision_no:
            self.state, self._verdict = State.RUNNING, None
        return super().arrive(message, now, hold_ns=hold_ns)


class FreshDelay(matchclock.MatchClock):
    """A draw brings a new delay (R9)."""

    def _run(self, message: m.Open, consumed_ns: int, granted_ns: int, now: int) -> list[m.ClockMessage]:
        again = message.cause is m.OpenCause.CONTINUE
        return super()._run(message, 0 if again else consumed_ns, granted_ns, now)


class SlowRoom(Room):
    """A command waits in line for a moment before anybody looks at it, which is nobody's time."""

    async def _take(self, asked: Asked) -> None:
        until = asyncio.get_running_loop().time() + 0.02
        while await self._steps.change(until):
            pass
        await super()._take(asked)


class ProbeOvertakes(SlowRoom):
    """A probe is answered at once, whatever waits in line (R5)."""

    def on_probe(self, probe: m.Probe, watermark_ns: int) -> None:
        if self._current(probe.key):
            self._shell.clock.probe_reply(probe.key, probe.probe_no, watermark_ns)


class RawWatermarks(ClockLink):
    """A watermark is now, not the mark (R5)."""

    def _tell(self, governed: Any, message: Any) -> None:
        if isinstance(message, m.Probe):
            live = self._live
            governed.listener.on_probe(message, live.raw() - live.gap_total_ns)
        else:
            super()._tell(governed, message)


class RunsOn(LiveTime):
    """The mark goes on in a stall, and back when that is recorded as a gap (I9)."""

    def mark(self) -> int:
        return self.raw() - self.gap_total_ns


class WallTime(LiveTime):
    """Time is read from the wall (R1)."""

    def __init__(self, *arguments: Any, read: Callable[[], int], **more: Any) -> None:
        def wall() -> int:
            now = incidents.datetime.now(UTC)  # type: ignore[attr-defined]
            return int((now - WALL).total_seconds() * SECOND) + 10**15

        super().__init__(*arguments, read=wall, **more)


class ToldOfNonsense(Room):
    """What is illegal or stale reaches the clock like any other command (R6)."""

    def _ruling(self, asked: Asked) -> Any:
        decision = self._decision
        if decision is not None and isinstance(rule(self.story.state, asked), Refusal):
            self._shell.clock.arrive(decision.arrival(asked, Effect.ENDS))
        return super()._ruling(asked)


class PaysForTheWait(OpenDecision):
    """What a commit takes is taken from the bank of whoever is next (I19)."""

    @classmethod
    def begin(cls, state: Any, *arguments: Any, **more: Any) -> Any:
        seat = state.to_act
        less = max(0, state.banks[seat] - 3 * MILLISECOND)
        return super().begin(state._replace(banks=state.banks.put(seat, less)), *arguments, **more)


class OpensUnrevealed(Room):
    """Time runs before the tiles are shown on a shared device (R10)."""

    def _open_decision(self, cause: m.OpenCause) -> None:
        state = self.story.state
        if state.awaiting_reveal is None:
            super()._open_decision(cause)
            return
        self.story.state = state._replace(to_act=state.awaiting_reveal)
        super()._open_decision(cause)
        self.story.state = state


def _parts(**parts: Any) -> Callable[[], Switches]:
    return lambda: Switches(parts=Parts(**parts))


def _patch(target: Any, **names: Any) -> Callable[[], Switches]:
    return lambda: Switches(patches={target: names})


SWITCHES: Final[dict[str, Switch]] = {
    "probe": Switch("R13: the timer asks before it decides", _parts(timekeeper=TimerDecides)),
    "idle_stamp": Switch("R3: a stamp is the last idle instant", _parts(live_time=StampedNow)),
    "gaps": Switch("R3: stalls are frozen out", _parts(live_time=NoGaps)),
    "pump": Switch(
        "R4: a reader does nothing between reading and stamping", _parts(pump_ns=60 * MILLISECOND)
    ),
    "beat": Switch("R5: beats carry the mark", _parts(link=RawBeats)),
    "leaving": Switch("P0: a process is not heard for matches it has left", _parts(link=LeavesSilently)),
    "dedupe": Switch(
        "R6: a repeated request gets its answer again", _patch(room, repeated=lambda _story, _asked: None)
    ),
    "told_first": Switch("R7: durable before told", _patch(rooms, Room=ToldFirst)),
    "free_commit": Switch("R8: a decision opens after the commit", _patch(rooms, Room=OpenedEarly)),
    "probe_place": Switch(
        "R5: a probe is answered behind the commands in line", _patch(rooms, Room=ProbeOvertakes)
    ),
    "watermark": Switch("R5: a watermark is the mark", _parts(link=RawWatermarks)),
    "nonsense": Switch("R6: what has no effect is not told to the clock", _patch(rooms, Room=ToldOfNonsense)),
    "draw": Switch("R9: a draw brings no new delay", _patch(timekeeper, MatchClock=FreshDelay)),
    "reveal": Switch("R10: no time before tiles are revealed", _patch(rooms, Room=OpensUnrevealed)),
    "first_verdict": Switch("R15: the first verdict stands", _patch(timekeeper, MatchClock=JudgesAgain)),
    "one_client": Switch(
        "R24: one client who leaves stops no clock", _patch(massloss, LOST_MIN=1, LOST_SHARE=0.0)
    ),
    "mark": Switch("I9: the mark stands still in a gap", _parts(live_time=RunsOn)),
    "wall": Switch("I22: nothing is measured on the wall", _parts(live_time=WallTime)),
    "still_bank": Switch("I19: no bank moves between turns", _patch(room, OpenDecision=PaysForTheWait)),
    "limit": Switch("a match that nobody starts ends", _patch(limits, limit_ns=lambda _row, _state: None)),
    "attach_no": Switch("R14: only the newest session counts", _parts(timekeeper=OldSessionsObeyed)),
    "fence": Switch("R19: every write checks the fence", lambda: Switches(fences=False)),
    "floor": Switch("R20: at least five seconds after a resume", _parts(policy=m.Policy(resume_floor_ns=0))),
    "credit": Switch(
        "P0: the clock does not run through a crash",
        _patch(timekeeper, MatchClock=RunsThroughCrash),
    ),
    "memory": Switch("R21: a proven timeout stands", _patch(timekeeper, MatchClock=ForgetfulClock)),
    "timeline": Switch(
        "I23: a timeout told again keeps the start that its deadline was counted from",
        _patch(timekeeper, MatchClock=LosesItsStart),
    ),
    "caps": Switch(
        "R23: no more than so much credit",
        _parts(policy=m.Policy(gap_max_ns=10_000 * SECOND, credit_total_max_ns=10_000 * SECOND)),
    ),
    "pending": Switch("a new session hears of waiting commands", _parts(link=PendingForgotten)),
    "reattach": Switch("a new session hears of open decisions", _parts(link=OpenForgotten)),
    "read_back": Switch("an unknown commit is read back", _parts(journal=NoReadBack)),
    "incidents": Switch("I13: every credited nanosecond has an incident", _parts(journal=NoIncidents)),
    "evidence": Switch("R25: no forfeit without stored evidence", _parts(journal=NoEvidence)),
}
