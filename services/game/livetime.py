"""Live time: the time during which this process could provably hear its clients.

A stamp is not "now" but the last instant of which it is known that whatever had reached the process by then has been
read: an idle instant, at which the event loop had nothing left to do. A stall, a paused process or a suspended host
therefore needs no rule of its own. Time that passes without such an instant is a gap, and live time stands still in it.

A process may be busy for longer than that without standing still. Each turn of its loop takes all that is there, so what
had come when a turn began has been read some turns later, and that beginning is such an instant, too.

One hook in the loop's selector finds these instants; `new_event_loop` installs it. It bounds every wait as well, so no
timer is needed to keep live time going.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from engine.clock import MILLISECOND, SECOND
from services.common.values import value
from services.wire.clock_messages import Gap, Policy

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

TICK_SECONDS: Final = 0.005
"""The longest wait without an idle instant: a paused process is dated to at most this before its pause."""
TICK_NS: Final = int(TICK_SECONDS * SECOND)
SLACK_NS: Final = 2 * MILLISECOND
"""How much later than asked a wait may end before that counts as not running."""
QUIET_NS: Final = 1 * MILLISECOND
"""How long nothing must come for the backlog behind a stall to be over. gRPC hands its messages to the loop one by one
through a thread, so between two that had both arrived long ago the loop waits for some ten microseconds."""
TURNS: Final = 16
HANDED_NS: Final = 10 * MILLISECOND
"""After so many turns of the loop, and so long, what had reached a process that is always busy has been read and stamped.
Each turn takes all that gRPC has for the loop then; a call takes some ten turns from its first byte to its stamp, and a
message on an open stream two, with ways through gRPC's threads in between."""
NOTABLE_NS: Final = 10 * MILLISECOND
"""Stretches without an idle instant that are worth observing."""
GAPS_KEPT: Final = 1000
_FOR_EVER: Final = 3600 * SECOND
"""How long a loop without any timer waits at a stretch."""

SOURCE: Final = "boottime" if hasattr(time, "CLOCK_BOOTTIME") else "monotonic"
"""The kernel clock behind `raw`. `boottime` sees a suspended host; where it is missing, suspension goes unseen."""

if sys.platform == "linux":

    def kernel_now() -> int:
        """The kernel clock in nanoseconds; never wall time."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

else:

    def kernel_now() -> int:
        """The kernel clock in nanoseconds; never wall time."""
        return time.monotonic_ns()


def timeline_of(incarnation: str) -> str:
    """The name of this process's timeline: boot, time namespace, incarnation."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        space = Path("/proc/self/ns/time").readlink().name
    except OSError:
        boot, space = "unknown", "none"
    return f"{boot}/{space}/{incarnation}"


def _die(was: int, now: int) -> None:
    # No stamp of this process can be trusted any more, and an exception might be caught by somebody.
    sys.stderr.write(f"fatal: the kernel clock went back from {was} to {now}\n")
    sys.stderr.flush()
    os._exit(70)


@value
class Stamp:
    """An instant of live time with everything that later proves it. Nanoseconds."""

    at_ns: int
    raw_ns: int
    mark_ns: int
    gap_total_ns: int


class LiveTime:
    """The live time of one process. `read` is its kernel clock."""

    def __init__(
        self,
        incarnation: str | None = None,
        *,
        read: Callable[[], int] = kernel_now,
        threshold_ns: int = Policy().stall_threshold_ns,
        on_regression: Callable[[int, int], None] = _die,
    ) -> None:
        self.incarnation = incarnation or uuid4().hex
        self.timeline_id = timeline_of(self.incarnation)
        self.clock_source = SOURCE
        self.gap_total_ns = 0
        """All gaps so far, nanoseconds."""
        self.observe_stretch: Callable[[int], None] | None = None
        """Told the length of each stretch without an idle instant that is longer than 10 ms."""
        self._read = read
        self._threshold = threshold_ns
        self._on_regression = on_regression
        self._last_raw = read()
        self._ok = self._last_raw
        self._overslept = False
        self._frozen: str | None = None
        self._thawed: str | None = None
        self._drained_by: int | None = None
        self._begun: deque[int] = deque()
        """When turns of the loop began, since the last wait, that are not yet long enough ago."""
        self._gaps: deque[Gap] = deque(maxlen=GAPS_KEPT)
        self._gaps_seen = 0

    def raw(self) -> int:
        """The kernel clock now. If it ever goes back, the process ends."""
        now = self._read()
        if now < self._last_raw:
            self._on_regression(self._last_raw, now)
        self._last_raw = now
        return now

    def mark(self) -> int:
        """The last instant by which all was heard, gaps taken out: for arrivals, beats and watermarks. Never decreases."""
        return self._ok - self.gap_total_ns

    def soon(self) -> int:
        """An instant not before now, as far as it is known: for starts and for what is left."""
        raw = self.raw()
        if 0 <= raw - self._ok <= self._threshold:
            return raw - self.gap_total_ns
        return max(self.mark(), raw - self._gap_total_at(raw))

    def _gap_total_at(self, raw: int) -> int:
        """All gaps up to `raw`, one that still lasts included: what is too long already will be one as a whole."""
        stretch = raw - self._last_heard(raw)
        return self.gap_total_ns + (stretch if stretch > self._threshold else 0)

    def _last_heard(self, raw: int) -> int:
        """The last instant before `raw` with which a gap can begin: of a process that is busy all the time, when a turn
        of its loop began, though what came until then is not all read yet."""
        last = self._ok
        if raw - last > self._threshold and self._drained_by is None and self._frozen is None:
            for at in self._begun:
                if at - last > self._threshold:
                    break
                last = at
        return last

    def unheard_ns(self) -> int:
        """How long the process has not heard anybody: long in a stall, and behind it until its backlog is drained."""
        raw = self.raw()
        return raw - self._last_heard(raw)

    def heard(self) -> Stamp:
        """The stamp of something just read. Take it before the first await after the read."""
        mark = self.mark()
        return Stamp(mark, self.raw(), mark, self.gap_total_ns)

    def starting(self) -> Stamp:
        """The stamp of a decision that is about to be published.

        Behind a stall it begins when the stall's backlog is drained: what the stall took before is not its gap, and
        its player neither pays for that nor is credited with it.
        """
        raw, mark = self.raw(), self.mark()
        gap_total_ns = self._gap_total_at(raw)
        return Stamp(max(mark, raw - gap_total_ns), raw, mark, gap_total_ns)

    def gaps_since(self, seen: int) -> tuple[tuple[Gap, ...], int]:
        """The gaps after the first `seen` ones (the oldest may be forgotten), and how many there have been."""
        new = min(self._gaps_seen - seen, len(self._gaps))
        return tuple(self._gaps)[len(self._gaps) - new :], self._gaps_seen

    def freeze(self, cause: str) -> None:
        """From the last idle instant on nothing counts as listening, until `thaw`: players cannot reach us."""
        self._frozen = cause

    def thaw(self) -> None:
        """Listening counts again; the time between is one gap."""
        self._begun.clear()
        self._frozen, self._thawed = None, self._frozen

    def idle(self, at: int) -> None:
        """Nothing that had reached this process by `at` is left unread or undone."""
        if self._frozen is not None:
            return
        stretch = at - self._ok
        if stretch <= 0:
            return
        if stretch > self._threshold:
            self.gap_total_ns += stretch
            self._gaps.append(
                Gap(self._ok, at, self._thawed or ("oversleep" if self._overslept else "stall"))
            )
            self._gaps_seen += 1
        if self.observe_stretch is not None and stretch > NOTABLE_NS:
            self.observe_stretch(stretch)
        self._ok = at
        self._thawed = None
        self._overslept = False
        self._drained_by = None

    def turns(self, at: int) -> None:
        """The loop begins a turn at `at`, since there is something to do."""
        begun = self._begun
        begun.append(at)
        if len(begun) > TURNS and at - begun[0] >= HANDED_NS:
            self._read_until(begun.popleft())

    def waits(self, entered: int) -> None:
        """The loop found nothing to do at `entered` and begins to wait."""
        if entered - self._ok > self._threshold:
            for at in self._begun:
                self._read_until(at)
        self._begun.clear()
        self._read_until(entered)

    def _read_until(self, at: int) -> None:
        """What had come by `at` is read. Behind a stall more may come that was there then."""
        stretch = at - self._ok
        if stretch <= self._threshold:
            self.idle(at)
        elif self._drained_by is None:
            # Draining takes less time than filling did, unless the load is more than can be served at all.
            self._drained_by = at + stretch
        elif at >= self._drained_by:
            self.idle(at)

    def woke(self, entered: int, bound: int) -> int:
        """The wait from `entered`, which should have ended by `bound`, is over: idle until then, starved after it.
        Returns now."""
        now = self.raw()
        until = min(now, bound)
        if self._drained_by is not None:
            if until - entered < QUIET_NS:
                return now
            self.idle(entered)
        self.idle(until)
        self._overslept = now > bound
        return now


class IdleSelector(selectors.BaseSelector):
    """A loop's selector that tells LiveTime when there was nothing to do."""

    def __init__(self, inner: selectors.BaseSelector, live: LiveTime) -> None:
        self._inner = inner
        self._live = live

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As the inner selector, in ticks: the loop itself is not woken by them. May return early and empty when the
        process did not run; that harms no loop."""
        entered = self._live.raw()
        ready = self._inner.select(0)
        if ready or (timeout is not None and timeout <= 0):
            self._live.turns(entered)
            return ready  # something had been readable or runnable: that wait would not have been idle
        # The time was read before looking, so nothing that came by then is left.
        self._live.waits(entered)
        left = _FOR_EVER if timeout is None else int(timeout * SECOND)
        while True:
            wait = min(left, TICK_NS)
            ready = self._inner.select(wait / SECOND)
            bound = entered + wait + SLACK_NS
            now = self._live.woke(entered, bound)
            left -= now - entered
            # A wait that ended empty and in time was a look as well: by its end nothing had come, and the next tick
            # begins there.
            if ready or left <= 0 or now > bound:
                return ready
            entered = now

    def register(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        """As the inner selector."""
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        """As the inner selector."""
        return self._inner.unregister(fileobj)

    def modify(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        """As the inner selector."""
        return self._inner.modify(fileobj, events, data)

    def get_key(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        """As the inner selector."""
        return self._inner.get_key(fileobj)

    def get_map(self) -> Mapping[FileDescriptorLike, selectors.SelectorKey]:
        """As the inner selector."""
        return self._inner.get_map()

    def close(self) -> None:
        """As the inner selector."""
        self._inner.close()


def new_event_loop(live: LiveTime) -> asyncio.SelectorEventLoop:
    """An event loop whose idle instants drive `live`. uvloop has no such place to look."""
    return asyncio.SelectorEventLoop(IdleSelector(selectors.DefaultSelector(), live))
