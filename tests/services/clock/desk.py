"""A timekeeper and an engine in virtual time: the engine's timeline is another one, on purpose."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TypeVar

from engine.clock import BANK, DELAY, SECOND, Effect
from engine.seats import NORTH, Seat
from services.clock.timekeeper import Hangup, Timekeeper
from services.wire import clock_messages as m

T = TypeVar("T")
OFFSET = 7_000_000 * SECOND
"""What the engine's live time is ahead of the clock's own."""

Heard = m.ClockMessage | Hangup


class Desk:
    """One clock and what engines tell it. Times in the methods are the engine's, unless they say otherwise."""

    def __init__(self, policy: m.Policy | None = None, now: int = 1_000 * SECOND) -> None:
        self.policy = policy or m.Policy()
        self.clock_now = now
        self._ids = count(1)
        self.keeper = self._new_keeper()
        self.told: list[tuple[str, Heard]] = []
        """Everything the clock has said, with the session."""

    def _new_keeper(self) -> Timekeeper:
        return Timekeeper(f"clock-{next(self._ids)}", self.policy, lambda: f"evidence-{next(self._ids)}")

    @property
    def now(self) -> int:
        """The engine's live time."""
        return self.clock_now + OFFSET

    def crash(self) -> None:
        """The clock is replaced by one that knows nothing."""
        self.keeper = self._new_keeper()

    def say(self, message: m.EngineMessage, session: str = "s1") -> list[Heard]:
        """What the clock answers to anybody, without pings."""
        return self._keep(self.keeper.handle(session, message, self.clock_now))

    def advance(self, ns: int) -> list[Heard]:
        """Let time pass; the alarm rings exactly when asked to. Pings are answered."""
        end, said = self.clock_now + ns, []
        while (due := self.keeper.next_deadline()) is not None and due <= end:
            self.clock_now = max(self.clock_now, due)
            said += self.ring()
        self.clock_now = end
        return said

    def ring(self) -> list[Heard]:
        """The alarm rings now."""
        return self._keep(self.keeper.expire(self.clock_now))

    def _keep(self, said: list[tuple[str, Heard]]) -> list[Heard]:
        kept: list[Heard] = []
        for session, message in said:
            self.told.append((session, message))
            if isinstance(message, m.Ping):
                self._keep(self.keeper.handle(session, self.pong(message.n), self.clock_now))
            else:
                kept.append(message)
        return kept

    # What an engine says.

    def pong(self, n: int = 0, *, gap_total_ns: int = 0, gaps: tuple[m.Gap, ...] = ()) -> m.Pong:
        """A beat: listening until now."""
        return m.Pong(n, self.now, self.now - gap_total_ns, True, gap_total_ns, gaps)

    def hello(
        self,
        attach_no: int = 1,
        *,
        incarnation: str = "i1",
        engine_id: str = "e1",
        opened: tuple[m.Open, ...] = (),
        pending: tuple[m.Arrival, ...] = (),
    ) -> m.Hello:
        """An engine attaches."""
        return m.Hello(
            engine_id=engine_id,
            incarnation=incarnation,
            attach_no=attach_no,
            timeline_id=f"boot/{incarnation}",
            clock_source="boottime",
            raw_ns=self.now,
            mark_ns=self.now,
            policy_version="v1",
            open=tuple(replace(one, cause=m.OpenCause.REATTACH, mark_ns=self.now) for one in opened),
            pending=pending,
        )

    def attach(self, session: str = "s1", **hello: object) -> list[Heard]:
        """Say hello; what is answered after the welcome."""
        heard = self.say(self.hello(**hello), session)  # type: ignore[arg-type]
        only(m.Welcome, heard)
        return [message for message in heard if not isinstance(message, m.Welcome)]

    def opened(
        self,
        number: int = 1,
        *,
        cause: m.OpenCause = m.OpenCause.NEW,
        seat: Seat = NORTH,
        bank: int = BANK,
        delay: int = DELAY,
        consumed: int = 0,
        fence: int = 1,
        match_id: str = "m1",
        credited: int = 0,
        outage: int = 0,
        gap_total: int = 0,
        start: int | None = None,
    ) -> m.Open:
        """A decision that opens now."""
        at = self.now if start is None else start
        return m.Open(
            key=m.Key(match_id, fence, number),
            cause=cause,
            seat=seat,
            kind="turn",
            start_ns=at,
            start_raw_ns=at + gap_total,
            mark_ns=self.now,
            gap_total_ns=gap_total,
            bank_ns=bank,
            delay_ns=delay,
            consumed_ns=consumed,
            credited_total_ns=credited,
            outage_hint_ns=outage,
        )


def arrival(
    opened: m.Open,
    at: int,
    command_id: str = "c1",
    effect: Effect = Effect.ENDS,
    *,
    gap_total: int | None = None,
) -> m.Arrival:
    """A command for this decision, stamped `at`."""
    gaps = opened.gap_total_ns if gap_total is None else gap_total
    return m.Arrival(opened.key, command_id, at, at + gaps, gaps, effect)


def reply(probe: m.Probe, watermark: int) -> m.ProbeReply:
    """Everything heard before the watermark has been sent."""
    return m.ProbeReply(probe.key, probe.probe_no, watermark)


def only(kind: type[T], heard: list[Heard]) -> T:
    """The only message of a kind."""
    found = [message for message in heard if isinstance(message, kind)]
    assert len(found) == 1, f"one {kind.__name__} expected in {heard}"
    return found[0]
