"""An engine for tests of the clock: the real link on a loop with real live time, and a room that writes down."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from prometheus_client import CollectorRegistry

from engine.clock import MILLISECOND, Effect
from engine.seats import NORTH, Seat
from services.game.clock_client import ClockLink
from services.game.livetime import LiveTime, new_event_loop
from services.game.metrics import LinkMetrics
from services.wire import clock_messages as m

T = TypeVar("T")
SECRET = "an internal secret for tests"
SECONDS_MAX = 20.0
LIVE_SECONDS_MAX = 120.0


def run_live(main: Callable[[LiveTime], Awaitable[T]], live: LiveTime | None = None) -> T:
    """Run `main` on a loop whose idle instants drive the live time it is given."""
    living = live or LiveTime()

    async def run() -> T:
        # What hangs must fail, not stop the suite.
        async with asyncio.timeout(LIVE_SECONDS_MAX):
            return await main(living)

    with asyncio.Runner(loop_factory=lambda: new_event_loop(living)) as runner:
        return runner.run(run())


class Room:
    """Keeps what the clock says about one match, and answers probes at once unless told to be slow."""

    def __init__(self, link: ClockLink, live: LiveTime, match_id: str = "m1", fence: int = 1) -> None:
        self.link = link
        self.live = live
        self.match_id = match_id
        self.fence = fence
        self.heard: list[object] = []
        self.answers_probes = True
        self._news = asyncio.Event()

    def open(
        self,
        number: int = 1,
        *,
        seat: Seat = NORTH,
        cause: m.OpenCause = m.OpenCause.NEW,
        bank_ms: int = 100,
        delay_ms: int = 200,
        consumed_ns: int = 0,
        outage_hint_ns: int = 0,
    ) -> m.Open:
        """Open a decision now."""
        now = self.live.starting()
        opened = m.Open(
            key=m.Key(self.match_id, self.fence, number),
            cause=cause,
            seat=seat,
            kind="turn",
            start_ns=now.at_ns,
            start_raw_ns=now.raw_ns,
            mark_ns=now.mark_ns,
            gap_total_ns=now.gap_total_ns,
            bank_ns=bank_ms * MILLISECOND,
            delay_ns=delay_ms * MILLISECOND,
            consumed_ns=consumed_ns,
            outage_hint_ns=outage_hint_ns,
        )
        self.link.open(opened, self)
        return opened

    def arrive(self, key: m.Key, command_id: str = "c1", effect: Effect = Effect.ENDS) -> m.Arrival:
        """A legal command arrives now."""
        heard = self.live.heard()
        arrival = m.Arrival(key, command_id, heard.at_ns, heard.raw_ns, heard.gap_total_ns, effect)
        self.link.arrive(arrival)
        return arrival

    async def hears(self, kind: type[T], seconds_max: float = SECONDS_MAX) -> T:
        """The first message of this kind that nobody has asked for yet."""
        async with asyncio.timeout(seconds_max):
            while True:
                for message in self.heard:
                    if isinstance(message, kind):
                        self.heard.remove(message)
                        return message
                self._news.clear()
                await self._news.wait()

    def _hear(self, message: object) -> None:
        self.heard.append(message)
        self._news.set()

    def on_armed(self, armed: m.Armed) -> None:
        self._hear(armed)

    def on_verdict(self, verdict: m.Verdict) -> None:
        self._hear(verdict)

    def on_probe(self, probe: m.Probe, watermark_ns: int) -> None:
        self._hear(probe)
        if self.answers_probes:
            self.link.probe_reply(probe.key, probe.probe_no, watermark_ns)

    def on_timeout(self, timeout: m.Timeout) -> None:
        self._hear(timeout)

    def on_void(self, void: m.Void) -> None:
        self._hear(void)

    def on_stale(self, stale: m.Stale) -> None:
        self._hear(stale)

    def on_mismatch(self, mismatch: m.Mismatch) -> None:
        self._hear(mismatch)


def new_link(
    address: str,
    live: LiveTime,
    engine_id: str = "engine-1",
    secret: str = SECRET,
    *,
    reckons: bool = False,
) -> ClockLink:
    """A link as the game process makes it. Unless it reckons, as that does, it hears that the clock has read an Open."""
    return ClockLink(
        address,
        secret,
        engine_id,
        live.incarnation,
        live,
        lease_ok=lambda: True,
        metrics=LinkMetrics(CollectorRegistry()),
        reckons=reckons,
    )


async def attached(link: ClockLink, *, to_another_than: str = "") -> None:
    """Wait for a session."""
    async with asyncio.timeout(SECONDS_MAX):
        while not (link.attached and link.clock_id != to_another_than):  # noqa: ASYNC110 - a test watches
            await asyncio.sleep(0.005)


async def detached(link: ClockLink) -> None:
    """Wait for the end of the session."""
    async with asyncio.timeout(SECONDS_MAX):
        while link.attached:  # noqa: ASYNC110 - a test watches
            await asyncio.sleep(0.005)


async def with_link(link: ClockLink, play: Callable[[], Awaitable[T]]) -> T:
    """Play while the link runs."""
    running = asyncio.create_task(link.run())
    try:
        await attached(link)
        return await play()
    finally:
        running.cancel()
        await asyncio.wait([running])
