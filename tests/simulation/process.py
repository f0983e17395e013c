"""A simulated process: an asyncio loop under virtual time, which may be paused, killed, and given bad clocks."""

from __future__ import annotations

import asyncio
import sys
from asyncio import events
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any, Final

from engine.clock import MILLISECOND, SECOND
from services.game.livetime import SLACK_NS, TICK_SECONDS, LiveTime
from services.wire.clock_messages import Policy
from tests.simulation.world import World

MICROSECOND: Final = 1_000
TICK_NS: Final = int(TICK_SECONDS * SECOND)
THRESHOLD_NS: Final = Policy().stall_threshold_ns


class KilledError(SystemExit):
    """This process ends here and now. Nothing in asyncio or in a service catches it."""


class _NoSelector:
    def select(self, _timeout: float | None) -> list[Any]:
        return []

    def close(self) -> None:
        pass


class OrderedTask(asyncio.Task[Any]):
    """A task whose place in a set does not depend on where it lies in memory."""

    _numbers = count()

    def __init__(self, *arguments: Any, **more: Any) -> None:
        self._number = next(OrderedTask._numbers)
        super().__init__(*arguments, **more)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop that never waits: somebody else says when it runs."""

    def __init__(self, now: Callable[[], int]) -> None:
        super().__init__()
        self._selector = _NoSelector()
        self._clock_resolution = 1e-6
        self._now = now
        self.set_task_factory(lambda loop, coroutine, **more: OrderedTask(coroutine, loop=loop, **more))
        self.set_exception_handler(lambda _loop, _context: None)

    def time(self) -> float:
        """Seconds of virtual time."""
        return self._now() / SECOND

    def _process_events(self, _events: list[Any]) -> None:
        pass

    def _check_closed(self) -> None:
        """What is left of a run is taken apart in silence."""

    def _write_to_self(self) -> None:
        pass

    def turn(self) -> None:
        """Runs until nothing is left that could be done now."""
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(self._asyncgen_firstiter_hook, self._asyncgen_finalizer_hook)  # type: ignore[attr-defined]
        events._set_running_loop(self)
        try:
            while self._ready or self._due():  # type: ignore[attr-defined]
                self._run_once()  # type: ignore[attr-defined]
        finally:
            events._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def _due(self) -> bool:
        when = self.next_timer()
        return when is not None and when <= self._now()

    def next_timer(self) -> int | None:
        """When it should run next by itself, in nanoseconds."""
        scheduled = self._scheduled  # type: ignore[attr-defined]
        while scheduled and scheduled[0]._cancelled:
            _run_cancelled(self)
        return int(scheduled[0]._when * SECOND) if scheduled else None


def _run_cancelled(loop: Any) -> None:
    import heapq

    handle = heapq.heappop(loop._scheduled)
    handle._scheduled = False
    loop._timer_cancelled_count = max(0, loop._timer_cancelled_count - 1)


class Process:
    """What the host does for a process: it runs it when something has reached it, unless it is paused."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.alive = True
        self.began = world.now
        self.loop = VirtualLoop(lambda: world.now)
        self._unread: deque[Callable[[], None]] = deque()
        self._running = False
        self._paused_until = 0
        self._alarm_at: int | None = None
        self._tasks: list[asyncio.Task[Any]] = []

    # What others do to it.

    def reach(self, what: Callable[[], None]) -> None:
        """Something is readable: it is read now, or as soon as the process runs."""
        if self.alive:
            self._unread.append(what)
            self._run()

    def start(self, main: Callable[[], Any]) -> None:
        """The coroutine that is this process."""
        self.reach(lambda: self._tasks.append(self.loop.create_task(main())))

    @property
    def paused(self) -> bool:
        """Whether it does not run."""
        return self.world.now < self._paused_until

    def pause(self, ns: int, *, busy: bool) -> None:
        """It does not run for a while: because it is busy with one thing, or because the host does not let it."""
        if not self.alive or self.paused:
            return
        if busy:
            self._wake()
        else:
            self._stop()
        self._paused_until = self.world.now + ns
        self.world.at(self._paused_until, self._resume)

    def kill(self) -> None:
        """SIGKILL."""
        if not self.alive:
            return
        self.alive = False
        self._unread.clear()
        for task in asyncio.all_tasks(self.loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.killed()

    def killed(self) -> None:
        """For those who want to know."""

    def die(self, why: str) -> None:
        """It ends itself."""
        self.world.note(f"{self.name} dies: {why}")
        self.kill()
        raise KilledError(why)

    # Running.

    def _resume(self) -> None:
        if self.alive:
            self._went_on()
            self._run()

    def _run(self) -> None:
        if self.paused or self._running or not self.alive:
            return
        self._running = True
        try:
            self._wake()
            while self.alive:
                if self._unread:
                    self.loop.call_soon(self._unread.popleft())
                self.loop.turn()
                if not self._unread:
                    break
            if self.alive:
                self._wait()
        except KilledError:
            pass
        finally:
            self._running = False
        if self.alive:
            self._set_alarm()

    def _set_alarm(self) -> None:
        when = self.loop.next_timer()
        if when is None or (self._alarm_at is not None and self.world.now < self._alarm_at <= when):
            return
        when = max(when + 1, self.world.now + MICROSECOND)
        self._alarm_at = when
        self.world.at(when, lambda: self._ring(when))

    def _ring(self, when: int) -> None:
        if self._alarm_at == when:
            self._alarm_at = None
            self._run()

    def _wake(self) -> None:
        """It leaves its wait."""

    def _stop(self) -> None:
        """It is stopped in its wait."""

    def _went_on(self) -> None:
        """It is not stopped any more."""

    def _wait(self) -> None:
        """It has nothing left to do and begins to wait."""

    def dispose(self) -> None:
        """Takes everything apart, when nothing of it can reach the world any more."""
        self.alive = False
        for _ in range(8):
            tasks = asyncio.all_tasks(self.loop)
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            with suppress(KilledError):
                self.loop.turn()
        for task in asyncio.all_tasks(self.loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.loop.close()


class Kernel:
    """The kernel clock of one host as its processes read it: it may start anywhere, run fast, jump and freeze."""

    def __init__(self, world: World, dice: Random, ppm: int = 0) -> None:
        self._world = world
        self._ppm = ppm
        self._base_world = world.now
        self._base_raw = dice.randrange(1, 10**15)
        self._frozen = False
        self.went_back = False
        """Whether it ever leapt to the past: until its process looks, nothing can be said about its readings."""

    def read(self, at: int) -> int:
        """Its reading at an instant of the world, not before its last change."""
        if self._frozen:
            return self._base_raw
        gone = at - self._base_world
        return self._base_raw + gone + gone * self._ppm // 1_000_000

    def _rebase(self) -> None:
        self._base_raw, self._base_world = self.read(self._world.now), self._world.now

    def jump(self, ns: int) -> None:
        """It leaps; to the past, too, if that is what is wanted."""
        self._rebase()
        self._base_raw += ns
        self.went_back |= ns < 0

    def run_at(self, ppm: int) -> None:
        """It runs this many millionths too fast from now on."""
        self._rebase()
        self._ppm = ppm

    def freeze(self) -> None:
        """It stands still, as the clock of a virtual machine that its host does not run."""
        self._rebase()
        self._frozen = True

    def thaw(self) -> None:
        """It goes on."""
        self._base_world = self._world.now
        self._frozen = False


class ListeningProcess(Process):
    """A process with live time, whose loop is watched as IdleSelector watches it."""

    def __init__(
        self, world: World, name: str, kernel: Kernel, live_type: type[LiveTime], incarnation: str
    ) -> None:
        super().__init__(world, name)
        self.kernel = kernel
        self._seen_at: int | None = None
        self._waiting_since: int | None = None
        self._entered = 0
        self._stopped_at: int | None = None
        self.live = live_type(
            incarnation,
            read=lambda: kernel.read(world.now if self._seen_at is None else self._seen_at),
            on_regression=lambda was, now: self.die(f"the kernel clock went back from {was} to {now}"),
        )
        self.true_gap = 0
        """What the live time should have as gaps, known from what was done to this process. Raw nanoseconds."""
        self.stalls = 0
        """How often live time may be off by a tick."""
        self._pause_raw: int | None = None
        self._hold_raw: int | None = None
        self._watch_holds()

    def _watch_holds(self) -> None:
        """The truth of what this process itself does not count as listening."""
        freeze, thaw = self.live.freeze, self.live.thaw

        def frozen(cause: str) -> None:
            self.stalls += 1
            self._hold_raw = self.true_raw
            self.holds()
            freeze(cause)

        def thawed() -> None:
            if self._hold_raw is not None:
                size = self.kernel.read(self.world.now) - self._hold_raw
                # One that is hardly longer than the threshold may be seen as shorter: then it was the player's.
                self.true_gap += size if size > THRESHOLD_NS + TICK_NS + SLACK_NS else 0
                self._hold_raw = None
            self.stalls += 1
            thaw()

        self.live.freeze, self.live.thaw = frozen, thawed  # type: ignore[method-assign]

    def holds(self) -> None:
        """For those who want to know: it lets live time stand still."""

    @property
    def true_raw(self) -> int:
        """The kernel clock now, or when this process was paused."""
        return self.kernel.read(self.world.now) if self._pause_raw is None else self._pause_raw

    @property
    def true_mark(self) -> int:
        """The live time now, by definition and not by stamp."""
        raw = self.true_raw if self._hold_raw is None else self._hold_raw
        return raw - self.true_gap

    def jump(self, ns: int) -> None:
        """The kernel clock leaps: the host was suspended, or its clock is broken."""
        if not self.paused:
            self.stalls += 1
            if (ns > THRESHOLD_NS and self._hold_raw is None) or ns < 0:
                # A clock that goes back ends the process when it looks; what it had heard until then stays heard.
                self.true_gap += ns
        self.change_kernel(lambda: self.kernel.jump(ns))

    def pause(self, ns: int, *, busy: bool) -> None:
        """As Process, and the truth about it is kept."""
        if self.alive and not self.paused:
            self.stalls += 1
            self._pause_raw = self.kernel.read(self.world.now)
        super().pause(ns, busy=busy)

    # What IdleSelector.select does, told from outside.

    def _wait(self) -> None:
        self._waiting_since = self.world.now
        self._entered = self.live.raw()
        self.live.waits(self._entered)

    def _stop(self) -> None:
        self._settle(self.world.now)
        self._stopped_at = self.world.now

    def _went_on(self) -> None:
        if self._pause_raw is not None:
            size = self.kernel.read(self.world.now) - self._pause_raw
            if (size > THRESHOLD_NS and self._hold_raw is None) or size < 0:
                self.true_gap += size
            self._pause_raw = None

    def _wake(self) -> None:
        if self._waiting_since is None:
            return
        if self._stopped_at is None:
            self._settle(self.world.now)
        self._stopped_at = self._waiting_since = None
        self.live.woke(self._entered, self._entered + TICK_NS + SLACK_NS)

    def _settle(self, until: int) -> None:
        """The ticks of an undisturbed wait: the first two are told, in which what was before may still show, and the
        last; those between cannot be told apart."""
        since = self._waiting_since
        if since is None:
            return
        told = 0
        while until - since > TICK_NS:
            ticks = (until - since - 1) // TICK_NS
            if told == 2 and ticks > 1:
                since += (ticks - 1) * TICK_NS
                self._entered = self.kernel.read(since)
                # A stall does not end while the kernel clock stands still: no tick left out here would end it.
                if self.live._frozen is None and self.live._drained_by is None:
                    self.live._ok = max(self.live._ok, self._entered)
            since += TICK_NS
            self._tick(since)
            told += 1
        self._waiting_since = since

    def _tick(self, now: int) -> None:
        self._seen_at = now
        try:
            self.live.woke(self._entered, self._entered + TICK_NS + SLACK_NS)
            self._entered = self.live.raw()
            self.live.waits(self._entered)
        finally:
            self._seen_at = None

    def change_kernel(self, change: Callable[[], None]) -> None:
        """Does something to the kernel clock. What was before has been seen as it was."""
        if not self.paused:
            self._settle(self.world.now)
        change()


def jitter(dice: Random, mean_ms: float) -> int:
    """A delay: mostly short, sometimes long."""
    factor = 20 if dice.random() < 0.03 else 1
    return int(dice.expovariate(1 / (mean_ms * factor)) * MILLISECOND) + 10 * MICROSECOND
