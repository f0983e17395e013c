"""The timekeeper: every match clock, every session, one heap of times to look again. No clock is read here."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, assert_never

from engine.clock import MILLISECOND
from services.clock.matchclock import MatchClock
from services.clock.notices import Notice, of_disruption, of_lost_session
from services.clock.owner import Owner
from services.clock.state import MEMORY_NS
from services.clock.witness import Culprit, Witness
from services.wire import clock_messages as m

PING_NS: Final = 250 * MILLISECOND
MISSED_MAX: Final = 3
"""So many pings without an answer, and the session is lost."""
RETIRED_KEPT: Final = 32
HEAP_SLACK: Final = 1024

_PING: Final = 0
_MATCH: Final = 1
_ENGINE: Final = 2


@dataclass(frozen=True, slots=True)
class Hangup:
    """End this session; nothing of it is obeyed any more."""

    reason: str


Said = list[tuple[str, m.ClockMessage | Hangup]]
"""What to tell which session, in order."""


@dataclass(slots=True, eq=False)
class _Session:
    name: str
    owner: Owner
    ping_due: int
    ping_no: int = 0
    missed: int = 0
    pinged: dict[int, int] = field(default_factory=dict)
    """When the pings without an answer went out."""


@dataclass(slots=True)
class _Engine:
    """The incarnation that counts, and those that never will again."""

    owner: Owner
    retired: deque[str] = field(default_factory=lambda: deque(maxlen=RETIRED_KEPT))
    forget_at: int | None = None


class Timekeeper:
    """A pure reducer: told messages and the time (own monotonic nanoseconds), it says what to tell whom.

    Two clocks that are told the same decide the same: what is kept here only saves asking again.
    """

    def __init__(self, clock_id: str, policy: m.Policy, new_id: Callable[[], str]) -> None:
        self.clock_id = clock_id
        self.policy = policy
        self._new_id = new_id
        self._engines: dict[str, _Engine] = {}
        self._sessions: dict[str, _Session] = {}
        self._matches: dict[str, MatchClock] = {}
        # Entries are not removed when a time changes. One that is not the current time of its owner is skipped; a match
        # whose time was put off is put off when its entry comes up. Most commands put it off.
        self._heap: list[tuple[int, int, str]] = []
        self._notices: list[Notice] = []

    def take_notices(self) -> list[Notice]:
        """What went wrong since the last call, to be kept as incidents. Nothing waits for that."""
        notices, self._notices = self._notices, []
        return notices

    @property
    def sessions(self) -> int:
        """How many engines are attached."""
        return len(self._sessions)

    @property
    def offset_width_ns(self) -> int:
        """How exactly it is known at worst where the clock of an attached engine stands to this one."""
        # Asked from the thread of the metrics page, too.
        sessions = list(self._sessions.values())
        return max((session.owner.witness.width_ns for session in sessions), default=0)

    @property
    def matches(self) -> int:
        """How many matches are remembered."""
        return len(self._matches)

    # Time.

    def next_deadline(self) -> int | None:
        """When `expire` has something to do; None when never."""
        heap = self._heap
        while heap:
            due, kind, name = entry = heap[0]
            if not self._current(entry):
                heapq.heappop(heap)
            elif kind == _MATCH and (match_clock := self._matches[name]).due != due:
                assert match_clock.due is not None
                match_clock.scheduled = match_clock.due
                heapq.heapreplace(heap, (match_clock.due, kind, name))
            else:
                return due
        return None

    def expire(self, now: int) -> Said:
        """Do what is due. Called too early it does nothing."""
        said: Said = []
        while (due := self.next_deadline()) is not None and due <= now:
            _, kind, name = heapq.heappop(self._heap)
            if kind == _PING:
                self._ping(self._sessions[name], now, said)
            elif kind == _MATCH:
                self._expire_match(self._matches[name], now, said)
            elif not self._engines[name].owner.matches:
                del self._engines[name]
        return said

    def _current(self, entry: tuple[int, int, str]) -> bool:
        due, kind, name = entry
        if kind == _PING:
            session = self._sessions.get(name)
            return session is not None and session.ping_due == due
        if kind == _ENGINE:
            engine = self._engines.get(name)
            return engine is not None and engine.forget_at == due
        match_clock = self._matches.get(name)
        return match_clock is not None and match_clock.scheduled == due

    def _push(self, due: int, kind: int, name: str) -> None:
        heapq.heappush(self._heap, (due, kind, name))
        if len(self._heap) > 4 * (len(self._matches) + len(self._sessions)) + HEAP_SLACK:
            self._heap = [entry for entry in set(self._heap) if self._current(entry)]
            heapq.heapify(self._heap)

    def _expire_match(self, match_clock: MatchClock, now: int, said: Said) -> None:
        session = match_clock.owner.session
        match_clock.scheduled = None
        if not match_clock.timed or session is None:
            self._forget(match_clock)
            return
        self._tell(match_clock, session, match_clock.expire(now), now, said)

    def _ping(self, session: _Session, now: int, said: Said) -> None:
        if session.missed >= MISSED_MAX:
            said.append((session.name, Hangup("no answer to pings")))
            self.detach(session.name, now)
            return
        session.ping_no += 1
        session.pinged[session.ping_no] = now
        session.missed += 1
        session.ping_due = now + PING_NS
        self._push(session.ping_due, _PING, session.name)
        said.append((session.name, m.Ping(session.ping_no, now)))

    # Messages.

    def handle(self, session_name: str, message: m.EngineMessage, now: int) -> Said:
        """An engine says something in a session. What a superseded session says changes nothing."""
        said: Said = []
        session = self._sessions.get(session_name)
        if session is None:
            if isinstance(message, m.Hello):
                self._attach(session_name, message, now, said)
            return said
        match message:
            case m.Arrival():
                self._arrive(session, message, now, said, hold_ns=0)
            case m.Open():
                self._open(session, message, now, said)
            case m.Pong():
                self._pong(session, message, now, said)
            case m.Close(match_id, fence):
                match_clock = self._addressed(session, match_id, fence, said)
                if match_clock is not None:
                    match_clock.close(fence, now)
                    self._schedule(match_clock)
            case m.Release(match_id, fence, at_ns):
                match_clock = self._addressed(session, match_id, fence, said)
                if match_clock is not None and match_clock.fence == fence:
                    match_clock.release(at_ns, now)
                    self._schedule(match_clock)
            case m.Applied(key) | m.ProbeReply(key) | m.Stalled(key):
                match_clock = self._addressed(session, key.match_id, key.fence, said)
                if match_clock is None or match_clock.fence != key.fence:
                    return said
                if isinstance(message, m.ProbeReply):
                    told = match_clock.probe_reply(message, now)
                    self._tell(match_clock, session_name, told, now, said)
                elif isinstance(message, m.Applied):
                    match_clock.applied(message, now)
                    self._schedule(match_clock)
                # Stalled needs nothing: a verdict without a commit has its own time limit already.
            case m.Hello():
                self._attach(session_name, message, now, said)
            case _:
                assert_never(message)
        return said

    def detach(self, session_name: str, now: int) -> None:
        """The session is gone, from whichever side."""
        session = self._sessions.pop(session_name, None)
        if session is None:
            return
        session.owner.session, session.owner.lost_at = None, now
        for match_clock in session.owner.matches.values():
            match_clock.lost(now)
            self._schedule(match_clock)
        engine = self._engines[session.owner.engine_id]
        engine.forget_at = now + 2 * MEMORY_NS
        self._push(engine.forget_at, _ENGINE, session.owner.engine_id)

    def _attach(self, name: str, hello: m.Hello, now: int, said: Said) -> None:
        owner = self._admit(hello, now, said)
        if owner is None or name in self._sessions:
            said.append((name, Hangup("a newer session exists")))
            return
        owner.attach_no, owner.session, owner.timeline_id = hello.attach_no, name, hello.timeline_id
        session = self._sessions[name] = _Session(name, owner, ping_due=now)
        said.append((name, m.Welcome(name, self.clock_id, self.policy)))
        self._ping(session, now, said)
        mentioned = {opened.key.match_id for opened in hello.open}
        for match_clock in [known for known in owner.matches.values() if known.match_id not in mentioned]:
            match_clock.unmentioned(now)
            self._schedule(match_clock)
        for opened in hello.open:
            self._open(session, opened, now, said)
        for arrival in hello.pending:
            self._arrive(session, arrival, now, said, hold_ns=hello.raw_ns - arrival.read_raw_ns)

    def _admit(self, hello: m.Hello, now: int, said: Said) -> Owner | None:
        """The owner that this session speaks for; None when it has been superseded already."""
        engine = self._engines.get(hello.engine_id)
        if engine is None:
            engine = self._engines[hello.engine_id] = _Engine(self._owner(hello))
            return engine.owner
        engine.forget_at = None
        last = engine.owner
        if hello.incarnation == last.incarnation:
            if hello.attach_no <= last.attach_no:
                return None
        elif hello.incarnation in engine.retired:
            return None
        if last.session is not None:
            said.append((last.session, Hangup("superseded by a newer session")))
            self.detach(last.session, now)
        if last.lost_at is not None and now > last.lost_at:
            restarted = hello.incarnation != last.incarnation
            self._notices.append(of_lost_session(self._new_id(), last, now, restarted=restarted))
        last.lost_at = None
        if hello.incarnation != last.incarnation:
            engine.retired.append(last.incarnation)
            engine.forget_at = None
            engine.owner = self._owner(hello)
        return engine.owner

    def _owner(self, hello: m.Hello) -> Owner:
        witness = Witness(lambda: [engine.owner.witness for engine in self._engines.values()], self._new_id)
        return Owner(hello.engine_id, hello.incarnation, witness)

    def _pong(self, session: _Session, pong: m.Pong, now: int, said: Said) -> None:
        session.missed = 0
        owner = session.owner
        self._compare(session, pong, now, said)
        if pong.lease_ok:
            owner.beat(pong, now)
        if pong.gaps or pong.gap_total_ns != owner.gap_total_ns:
            owner.gap_total_ns = pong.gap_total_ns
            for match_clock in owner.matches.values():
                told = match_clock.stalled(pong.gaps, pong.gap_total_ns, now)
                self._tell(match_clock, session.name, told, now, said)

    def _compare(self, session: _Session, pong: m.Pong, now: int, said: Said) -> None:
        """Whether the engine's clock and ours moved together since its last answer (rule R17)."""
        pinged_at = session.pinged.pop(pong.n, None)
        if pinged_at is None:
            return
        for older in [n for n in session.pinged if n < pong.n]:
            del session.pinged[older]
        owner = session.owner
        owner.witness.pong(pinged_at, now, pong.raw_ns, pong.gap_total_ns)
        for disruption in owner.witness.settle(now):
            if not disruption.ahead and disruption.culprit is not Culprit.CLOCK:
                for match_clock in owner.matches.values():
                    self._tell(match_clock, session.name, match_clock.disrupted(disruption, now), now, said)
        self._report(owner, now)

    def _report(self, owner: Owner, now: int, voided: MatchClock | None = None) -> None:
        for report in owner.witness.reports(now, at_once=voided is not None):
            self._notices.append(of_disruption(report, owner))
        if voided is not None:
            ids = {each.report_id for each in owner.witness.within(voided.since)}
            self._notices += [Notice.touching(report_id, voided.match_id) for report_id in sorted(ids)]

    def _open(self, session: _Session, message: m.Open, now: int, said: Said) -> None:
        match_id, owner = message.key.match_id, session.owner
        match_clock = self._matches.get(match_id)
        if match_clock is None:
            match_clock = MatchClock(match_id, owner, self.policy, self._new_id)
            self._matches[match_id] = owner.matches[match_id] = match_clock
        last = match_clock.owner
        if message.key.fence < match_clock.fence:
            said.append((session.name, m.Stale(match_id, message.key.fence, match_clock.fence)))
            return
        if owner is not last and message.key.fence > match_clock.fence:
            last.matches.pop(match_id, None)
            owner.matches[match_id] = match_clock
            if last.session is not None:
                stale = m.Stale(match_id, match_clock.fence, message.key.fence)
                said.append((last.session, stale))
        self._tell(match_clock, session.name, match_clock.open(message, owner, now), now, said)

    def _arrive(self, session: _Session, message: m.Arrival, now: int, said: Said, *, hold_ns: int) -> None:
        key = message.key
        match_clock = self._addressed(session, key.match_id, key.fence, said)
        if match_clock is not None and match_clock.fence == key.fence:
            told = match_clock.arrive(message, now, hold_ns=hold_ns)
            self._tell(match_clock, session.name, told, now, said)
        elif match_clock is not None or key.match_id not in self._matches:
            said.append((session.name, m.Mismatch(key, "state", "open", "unknown")))
        elif self._matches[key.match_id].fence == key.fence:
            known = self._matches[key.match_id].owner.incarnation
            said.append((session.name, m.Mismatch(key, "incarnation", known, session.owner.incarnation)))

    def _addressed(self, session: _Session, match_id: str, fence: int, said: Said) -> MatchClock | None:
        """The match, if this session may speak about it under this fence; tells it so if that is too old."""
        match_clock = self._matches.get(match_id)
        if match_clock is None:
            return None
        if fence < match_clock.fence:
            said.append((session.name, m.Stale(match_id, fence, match_clock.fence)))
            return None
        if fence == match_clock.fence and match_clock.owner is not session.owner:
            return None
        return match_clock

    def _tell(
        self, match_clock: MatchClock, session: str, told: list[m.ClockMessage], now: int, said: Said
    ) -> None:
        for message in told:
            said.append((session, message))
        self._schedule(match_clock)
        if match_clock.doubted:
            match_clock.doubted = False
            self._report(match_clock.owner, now, match_clock)

    def _schedule(self, match_clock: MatchClock) -> None:
        due, scheduled = match_clock.due, match_clock.scheduled
        if due is not None and (scheduled is None or due < scheduled):
            match_clock.scheduled = due
            self._push(due, _MATCH, match_clock.match_id)

    def _forget(self, match_clock: MatchClock) -> None:
        self._matches.pop(match_clock.match_id, None)
        match_clock.owner.matches.pop(match_clock.match_id, None)
