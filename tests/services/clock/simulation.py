"""One match through a hostile world in virtual time: the real timekeeper, the real link, the real live time.

What is played by the simulation: the kernel clock, the network between them, the room, the player, and the faults:
stalls of the engine, sessions that break, messages of a broken session that come late, clocks that are replaced.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random

from prometheus_client import CollectorRegistry

from engine import clock
from engine.clock import MILLISECOND, SECOND, Effect
from engine.seats import Seat
from services.clock.timekeeper import Hangup, Timekeeper
from services.game.clock_client import ClockLink
from services.game.livetime import LiveTime
from services.wire import clock_messages as m

DELAY = 1 * SECOND
BANK = 2 * SECOND
DECISIONS = 12


@dataclass(frozen=True)
class Faults:
    """How often what goes wrong, as a chance for each decision."""

    stall: float = 0.0
    cut: float = 0.0
    crash: float = 0.0


@dataclass(frozen=True)
class Disabled:
    """Rules taken away, to see that the checks notice."""

    probe: bool = False
    """The timer decides."""
    idle_stamp: bool = False
    """Arrivals are stamped with now."""
    attach_no: bool = False
    """Late messages of an older session count."""
    free_commit: bool = False
    """A decision counts from the verdict before it, not from its own opening."""


@dataclass
class Outcome:
    """What came of it."""

    verdicts: list[m.Verdict] = field(default_factory=list)
    timeout: m.Timeout | None = None
    faults: list[object] = field(default_factory=list)
    """Voids, mismatches, stales: there must be none."""
    wrong: list[str] = field(default_factory=list)
    """Broken promises, in words."""
    last_fault_at: int = 0
    ended_at: int | None = None


class World:
    """One run, decided by its seed."""

    def __init__(self, seed: int, faults: Faults, disabled: Disabled | None = None) -> None:
        # The player's thinking has dice of its own, so that it stays the same whatever goes wrong.
        self.thinking = Random(f"thinking {seed}")
        self.luck = Random(f"luck {seed}")
        self.faults = faults
        self.disabled = disabled or Disabled()
        self.now = 5_000 * SECOND
        self.outcome = Outcome()
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._ids = count(1)
        self.live = LiveTime("i1", read=lambda: self.now)
        self.link = ClockLink(
            "", "", "e1", "i1", self.live, lease_ok=lambda: True, registry=CollectorRegistry()
        )
        self._stalled_until = 0
        self._unread: list[Callable[[], None]] = []
        self._session = 0
        self._lost: set[int] = set()
        self._late_until: dict[int, int] = {}
        self._start_clock()
        self.room = RoomModel(self)

    # The kernel.

    def at(self, when: int, what: Callable[[], None]) -> None:
        """Something happens then."""
        heapq.heappush(self._queue, (max(when, self.now), next(self._order), what))

    def after(self, ns: int, what: Callable[[], None]) -> None:
        """Something happens later."""
        self.at(self.now + ns, what)

    def run(self) -> Outcome:
        """Until everything has come to its end, or far too much time has passed."""
        self._connect()
        self._tick()
        self.room.open_next()
        limit = self.now + 600 * SECOND
        while self._queue and not self.room.over and self.now < limit:
            self.now, _, what = heapq.heappop(self._queue)
            what()
            self._arm()
        if not self.room.over:
            self.outcome.wrong.append("undecided")
        return self.outcome

    def _faulty_until(self, when: int) -> None:
        self.outcome.last_fault_at = max(self.outcome.last_fault_at, when)

    # The engine's loop.

    def engine_reads(self, what: Callable[[], None]) -> None:
        """Something reaches the engine: it is read now, or when the loop runs again."""
        if self.now < self._stalled_until:
            self._unread.append(what)
            return
        self._idle()
        what()
        self._flush()

    def true_arrival(self) -> int:
        """The live time at which something reaches the engine now, by definition and not by stamp."""
        if self.now >= self._stalled_until:
            self._idle()
        return self.live.mark()

    def stall(self, ns: int) -> None:
        """The loop does not run for a while."""
        if self.now < self._stalled_until:
            return
        self._idle()
        self._stalled_until = self.now + ns
        self._faulty_until(self._stalled_until)
        self.at(self._stalled_until, self._go_on)

    def _go_on(self) -> None:
        unread, self._unread = self._unread, []
        for what in unread:
            what()
        self._flush()
        self._idle()

    def _idle(self) -> None:
        self.live.raw()
        self.live.idle(self.now)

    def _tick(self) -> None:
        if self.now >= self._stalled_until:
            self._idle()
            self._flush()
        self.after(5 * MILLISECOND, self._tick)

    # The network.

    def _connect(self) -> None:
        self._session += 1
        self._breaking = False
        self._last_there = self._last_back = 0
        # What ClockLink._session does, without a channel.
        self.link._attach_no += 1
        self.link._outbox = [self.link._hello()]
        self.link._speaking = True
        self.link._gaps_told = 0
        self._flush()

    def _flush(self) -> None:
        messages, self.link._outbox = self.link._outbox, []
        if not messages or not self.link._speaking:
            return
        # Nobody has noticed yet that the session is broken: it is under way all the same.
        session, keeper = self._session, self.keeper
        self._last_there = max(self._last_there, self.now + self._delay())
        for message in messages:
            self.at(self._last_there, lambda message=message: self._clock_reads(session, keeper, message))  # type: ignore[misc]

    def _delay(self) -> int:
        slow = self.luck.random() < 0.05
        return self.luck.randrange(0, 400 * MILLISECOND if slow else 3 * MILLISECOND)

    def cut(self) -> None:
        """The session breaks; some of what is under way comes late, as if from nowhere."""
        if self._breaking:
            return
        self._breaking = True
        self._faulty_until(self.now)
        keeper, name = self.keeper, f"s{self._session}"
        self.after(self.luck.randrange(0, 900 * MILLISECOND), lambda: self._clock_notices(keeper, name))
        self.after(self.luck.randrange(0, 900 * MILLISECOND), self._engine_notices)

    def _engine_notices(self) -> None:
        if self.now < self._stalled_until:
            self.at(self._stalled_until, self._engine_notices)
            return
        self.link.attached = self.link._speaking = False
        self.link._outbox.clear()
        self.after(self.luck.randrange(1, 300 * MILLISECOND), self._connect)

    def _clock_notices(self, keeper: Timekeeper, name: str) -> None:
        keeper.detach(name, self.clock_now)

    # The clock.

    def _start_clock(self) -> None:
        number = next(self._ids)
        self.keeper = Timekeeper(f"clock-{number}", m.Policy(), lambda: f"evidence-{next(self._ids)}")
        self._clock_offset = self.luck.randrange(1, 10**15)
        self._clock_down_until = 0
        self._armed: int | None = None

    @property
    def clock_now(self) -> int:
        """The clock's own time, which starts anywhere with each clock."""
        return self.now + self._clock_offset

    def crash(self) -> None:
        """The clock is gone, and after a while there is one that knows nothing."""
        self._start_clock()
        self._clock_down_until = self.now + self.luck.randrange(1, 2 * SECOND)
        self._faulty_until(self._clock_down_until)
        self.cut()

    def _clock_reads(self, session: int, keeper: Timekeeper, message: m.EngineMessage) -> None:
        if session != self._session or self._breaking:
            self._comes_late(session, keeper, message)
            return
        if self.now < self._clock_down_until:
            # The connection is refused until it is back.
            self._breaking = True
            self._lost.add(session)
            self.at(self._clock_down_until, self._engine_notices)
            return
        self._clock_hears(f"s{session}", message)

    def _comes_late(self, session: int, keeper: Timekeeper, message: m.EngineMessage) -> None:
        """What was under way in a broken session: in order, up to some message, to the same clock, much later."""
        if session in self._lost or self.luck.random() < 0.2:
            self._lost.add(session)
            return
        when = max(self._late_until.get(session, 0), self.now + self.luck.randrange(0, 3 * SECOND))
        self._late_until[session] = when

        def arrives() -> None:
            if keeper is self.keeper:
                obeyed = self._session if self.disabled.attach_no else session
                self._clock_hears(f"s{obeyed}", message)

        self.at(when, arrives)

    def _clock_hears(self, name: str, message: m.EngineMessage) -> None:
        self._send(self.keeper.handle(name, message, self.clock_now))

    def _arm(self) -> None:
        due = self.keeper.next_deadline()
        if due is None:
            return
        when = due - self._clock_offset
        # As real timers do it: now and then a little early, mostly a little late.
        jitter = self.luck.randrange(-MILLISECOND, 3 * MILLISECOND)
        if when != self._armed or when <= self.now:
            self._armed = when
            keeper = self.keeper
            self.at(max(self.now + 1, when + jitter), lambda: self._ring(keeper))

    def _ring(self, keeper: Timekeeper) -> None:
        self._armed = None
        if keeper is self.keeper:
            self._send(keeper.expire(self.clock_now))

    def _send(self, said: list[tuple[str, m.ClockMessage | Hangup]]) -> None:
        for name, message in said:
            if isinstance(message, m.Probe) and self.disabled.probe:
                answer = m.ProbeReply(message.key, message.probe_no, message.deadline_ns)
                self._send(self.keeper.handle(name, answer, self.clock_now))
                continue
            if isinstance(message, m.Timeout):
                self._check_timeout(message)
            session = int(name[1:])
            if session != self._session or self._breaking:
                continue
            if isinstance(message, Hangup):
                self.cut()
                continue
            self._last_back = max(self._last_back, self.now + self._delay())
            self.at(self._last_back, lambda message=message, session=session: self._deliver(session, message))  # type: ignore[misc]

    def _deliver(self, session: int, message: m.ClockMessage) -> None:
        if session == self._session and not self._breaking:
            self.engine_reads(lambda: self._engine_hears(session, message))

    def _engine_hears(self, session: int, message: m.ClockMessage) -> None:
        if session == self._session and self.link._speaking:
            self.link._hear(message)

    def _check_timeout(self, timeout: m.Timeout) -> None:
        """Invariants I7 and I8, at the moment it is decided."""
        if timeout.proof_ns < timeout.deadline_ns:
            self.outcome.wrong.append("timeout without proof")
        known = self.room.true_arrivals.get(self.room.part)
        if known is not None and known < self.room.deadline:
            self.outcome.wrong.append("timeout although a command had arrived in time")


class RoomModel:
    """The room: one decision after another, and a player who likes the last moment."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.part = 0
        """Counts the stretches between two openings."""
        self.number = 0
        self.deadline = 0
        self.over = False
        self.true_arrivals: dict[int, int] = {}
        """By part: the live time at which the player's command reached the engine."""
        self._banks = dict.fromkeys(Seat, BANK)
        self._seat = Seat.NORTH
        self._opened: m.Open | None = None
        self._waiting_probes: list[tuple[m.Probe, int]] = []
        self._arrival: m.Arrival | None = None
        self._opened_real_at = 0
        self._verdict_at: int | None = None

    def open_next(self, carried: m.Verdict | None = None) -> None:
        """Open what the last command asks for."""
        world = self.world
        if carried is None:
            if self.number == DECISIONS:
                self._end()
                return
            self.number += 1
            self._seat = self._seat.opponent
        stamp = world.live.starting()
        start = stamp.at_ns
        if world.disabled.free_commit and self._verdict_at is not None:
            start = self._verdict_at
        self.part += 1
        opened = m.Open(
            key=m.Key("m", 1, self.number),
            cause=m.OpenCause.NEW if carried is None else m.OpenCause.CONTINUE,
            seat=self._seat,
            kind="turn",
            start_ns=start,
            start_raw_ns=stamp.raw_ns,
            mark_ns=stamp.mark_ns,
            gap_total_ns=stamp.gap_total_ns,
            bank_ns=self._banks[self._seat],
            delay_ns=DELAY,
            consumed_ns=0 if carried is None else carried.consumed_ns,
        )
        self._opened, self._arrival = opened, None
        self._opened_real_at = world.now
        budget = DELAY + opened.bank_ns - opened.consumed_ns
        self.deadline = start + budget
        world.link.open(opened, self)
        self._play(opened, budget)
        self._misfortune(budget)

    def _play(self, opened: m.Open, budget: int) -> None:
        """The player's command reaches the engine at some time, mostly around the deadline."""
        dice, world, part = self.world.thinking, self.world, self.part
        style = dice.random()
        think = dice.randrange(0, DELAY)
        close = budget + dice.randrange(-30 * MILLISECOND, 5 * MILLISECOND)
        draw = dice.random() < 0.3
        silent = dice.random() < 0.02
        if style < 0.25:
            think = close
        if silent:
            return
        effect = Effect.CONTINUES if draw else Effect.ENDS

        def reaches() -> None:
            self.true_arrivals.setdefault(part, world.true_arrival())
            world.engine_reads(lambda: self._read(part, opened, effect))

        world.after(max(0, think), reaches)

    def _misfortune(self, budget: int) -> None:
        world, luck = self.world, self.world.luck
        if luck.random() < world.faults.stall:
            length = luck.choice([30 * MILLISECOND, 70 * MILLISECOND, 400 * MILLISECOND, 3 * SECOND])
            around = luck.choice([luck.randrange(0, budget), max(0, budget - luck.randrange(0, length))])
            world.after(around, lambda: world.stall(length))
        if luck.random() < world.faults.cut:
            world.after(luck.randrange(0, budget + 200 * MILLISECOND), world.cut)
        if luck.random() < world.faults.crash:
            world.after(luck.randrange(0, budget + 200 * MILLISECOND), world.crash)

    def _read(self, part: int, opened: m.Open, effect: Effect) -> None:
        if part != self.part or self.over or self._arrival is not None:
            return
        live = self.world.live
        stamp = live.heard()
        at = stamp.raw_ns - stamp.gap_total_ns if self.world.disabled.idle_stamp else stamp.at_ns
        self._arrival = m.Arrival(opened.key, f"c{part}", at, stamp.raw_ns, stamp.gap_total_ns, effect)
        self.world.link.arrive(self._arrival)

    def _end(self) -> None:
        self.over = True
        self.world.outcome.ended_at = self.world.now

    # What the clock says.

    def on_armed(self, armed: m.Armed) -> None:
        if armed.deadline_ns != self.deadline:
            self.world.outcome.wrong.append(f"another deadline: {armed.deadline_ns - self.deadline}")

    def on_verdict(self, verdict: m.Verdict) -> None:
        world, arrival, opened = self.world, self._arrival, self._opened
        assert arrival is not None
        assert opened is not None
        true = self.true_arrivals[self.part]
        cost = clock.settle(
            opened.start_ns,
            arrival.arrive_ns,
            opened.consumed_ns,
            opened.bank_ns,
            opened.delay_ns,
            arrival.effect,
        )
        told = (verdict.elapsed_ns, verdict.consumed_ns, verdict.charge_ns, verdict.bank_after_ns)
        if told != cost:
            world.outcome.wrong.append("another verdict than the engine's own")
        if true >= self.deadline:
            world.outcome.wrong.append("in time although it arrived too late")
        real = world.now - self._opened_real_at
        if verdict.elapsed_ns - opened.consumed_ns > real:
            world.outcome.wrong.append("charged for more than has passed")
        if not 1 <= verdict.bank_after_ns <= opened.bank_ns:
            world.outcome.wrong.append("a bank that grows or is gone")
        world.outcome.verdicts.append(verdict)
        self._banks[opened.seat] = verdict.bank_after_ns
        self._verdict_at = world.live.soon()
        commit = world.luck.choice([0, MILLISECOND, 20 * MILLISECOND, 2 * SECOND])
        world.after(commit, lambda: world.engine_reads(lambda: self._committed(arrival, verdict)))

    def _committed(self, arrival: m.Arrival, verdict: m.Verdict) -> None:
        # In the order of the real room: the next decision opens before the last one is said to be applied.
        self.open_next(verdict if arrival.effect is Effect.CONTINUES else None)
        self.world.link.applied(arrival.key, arrival.command_id, self.part)
        waiting, self._waiting_probes = self._waiting_probes, []
        for probe, watermark in waiting:
            self.world.link.probe_reply(probe.key, probe.probe_no, watermark)

    def on_probe(self, probe: m.Probe, watermark_ns: int) -> None:
        if self._arrival is not None:
            # The room waits for its verdict: the probe stays in the mailbox.
            self._waiting_probes.append((probe, watermark_ns))
        else:
            self.world.link.probe_reply(probe.key, probe.probe_no, watermark_ns)

    def on_timeout(self, timeout: m.Timeout) -> None:
        true = self.true_arrivals.get(self.part)
        if true is not None and true < self.deadline:
            self.world.outcome.wrong.append("lost although it arrived in time")
        opened = self._opened
        assert opened is not None
        budget = opened.delay_ns + opened.bank_ns - opened.consumed_ns
        began = max(self.world.outcome.last_fault_at, self._opened_real_at)
        if self.world.now > began + budget + 5 * SECOND:
            self.world.outcome.wrong.append("undecided for too long")
        self.world.outcome.timeout = timeout
        self._end()

    def on_void(self, void: m.Void) -> None:
        self._fault(void)

    def on_stale(self, stale: m.Stale) -> None:
        self._fault(stale)

    def on_mismatch(self, mismatch: m.Mismatch) -> None:
        self._fault(mismatch)

    def _fault(self, message: object) -> None:
        self.world.outcome.faults.append(message)
        self._end()
