"""The stream itself: what the clock's server refuses, and what the game's link survives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from prometheus_client import CollectorRegistry

from engine.clock import MILLISECOND
from engine.seats import SOUTH
from services.clock.metrics import ClockMetrics
from services.clock.rpc import ClockRpc
from services.clock.timekeeper import Timekeeper
from services.common.gates import SecretGate
from services.common.guard import Guard
from services.common.metrics import RpcMetrics
from services.game.livetime import LiveTime
from services.wire import clock as wire
from services.wire import clock_messages as m
from spectacularbid.internal.clock.v1 import clock_service_pb2 as pb
from spectacularbid.internal.clock.v1.clock_service_pb2_grpc import (
    ClockServiceServicer,
    ClockServiceStub,
    add_ClockServiceServicer_to_server,
)
from tests.services.clock.desk import Desk
from tests.services.clock.engines import SECONDS_MAX, SECRET, Room, attached, new_link, run_live, with_link


@asynccontextmanager
async def serving(servicer: ClockServiceServicer) -> AsyncIterator[str]:
    """The servicer behind a real server; its address."""
    guard = Guard(SecretGate(SECRET), RpcMetrics(CollectorRegistry()))
    server = grpc.aio.server(interceptors=[guard])
    add_ClockServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)
        if guard.running:
            await asyncio.wait(guard.running, timeout=5)


class Unwatched(ClockServiceServicer):
    """A clock that is only about governing."""

    def Watch(self, request: pb.WatchRequest, context: Any) -> AsyncIterator[pb.WatchResponse]:
        raise NotImplementedError


def new_rpc(registry: CollectorRegistry | None = None) -> ClockRpc:
    ids = iter(range(1_000_000))
    keeper = Timekeeper("clock-1", m.Policy(), lambda: f"evidence-{next(ids)}")
    return ClockRpc(keeper, ClockMetrics(registry or CollectorRegistry()))


async def govern(address: str, requests: list[pb.GovernRequest]) -> grpc.StatusCode:
    """Send these, and read until the server ends the stream; with what status."""
    async with grpc.aio.insecure_channel(address) as channel:
        call: Any = ClockServiceStub(channel).Govern(metadata=(("authorization", f"Bearer {SECRET}"),))
        try:
            for request in requests:
                await call.write(request)
            while await call.read() is not grpc.aio.EOF:
                pass
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass
        code = await call.code()
        assert isinstance(code, grpc.StatusCode)
        return code


HELLO = wire.request_to_pb([Desk().hello()])
PONG = wire.request_to_pb([Desk().pong(1)])


@pytest.mark.parametrize(
    "requests",
    [
        [PONG],
        [HELLO, HELLO],
        [HELLO, pb.GovernRequest(messages=[pb.EngineMessage()])],
        [HELLO, pb.GovernRequest(messages=[pb.EngineMessage(open=pb.Open())])],
    ],
    ids=["no hello", "two hellos", "empty", "malformed"],
)
async def test_a_session_that_makes_no_sense_is_refused(requests: list[pb.GovernRequest]) -> None:
    async with asyncio.timeout(20), serving(new_rpc()) as address:
        assert await govern(address, requests) is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_draining_clock_takes_nobody() -> None:
    rpc = new_rpc()
    async with asyncio.timeout(20), serving(rpc) as address:
        await rpc.drain()
        assert await govern(address, [HELLO]) is grpc.StatusCode.UNAVAILABLE


def play(test: Callable[[LiveTime], Awaitable[None]]) -> None:
    """Run a test on a live loop, within reasonable time."""

    async def main(live: LiveTime) -> None:
        async with asyncio.timeout(30):
            await test(live)

    run_live(main)


def test_a_room_with_a_bug_does_not_stop_the_others() -> None:
    class Broken(Room):
        def on_armed(self, armed: m.Armed) -> None:
            raise RuntimeError("a bug")

    async def main(live: LiveTime) -> None:
        async with serving(new_rpc()) as address:
            link = new_link(address, live)

            async def both() -> None:
                Broken(link, live, "m1").open()
                room = Room(link, live, "m2")
                opened = room.open()
                await room.hears(m.Armed)
                room.arrive(opened.key)
                await room.hears(m.Verdict)

            await with_link(link, both)

    play(main)


def test_a_clock_that_accepts_and_says_nothing_is_left() -> None:
    """Scenario 44 with a peer that is connected but dumb."""

    class Dumb(Unwatched):
        sessions = 0

        async def Govern(self, request_iterator: Any, context: Any) -> AsyncIterator[pb.GovernResponse]:
            Dumb.sessions += 1
            if Dumb.sessions == 1:
                await asyncio.Event().wait()
            async for response in new_rpc().Govern(request_iterator, context):
                yield response

    async def main(live: LiveTime) -> None:
        async with serving(Dumb()) as address:
            link = new_link(address, live)

            async def nothing() -> None:
                assert Dumb.sessions == 2

            await with_link(link, nothing)

    play(main)


def test_the_clock_counts_as_lost_since_it_was_last_heard() -> None:
    """Fault 6: a link that goes dead is noticed a second later; the incident begins when it went dead."""

    class Dying(Unwatched):
        sessions = 0

        async def Govern(self, request_iterator: Any, context: Any) -> AsyncIterator[pb.GovernResponse]:
            Dying.sessions += 1
            dies = Dying.sessions == 1
            async for response in new_rpc().Govern(request_iterator, context):
                yield response
                if dies and any(message.HasField("armed") for message in response.messages):
                    await asyncio.Event().wait()

    async def main(live: LiveTime) -> None:
        async with serving(Dying()) as address:
            link = new_link(address, live)
            regained: asyncio.Future[tuple[int, int, int, int]] = asyncio.get_running_loop().create_future()
            link.on_regained = lambda *told: regained.set_result(told)

            async def dead() -> None:
                room = Room(link, live)
                opened = room.open(delay_ms=60_000)
                await room.hears(m.Armed)
                last_heard_by = live.raw()
                room.arrive(opened.key)
                lost_at, back_at, open_decisions, held_commands = await regained
                assert lost_at <= last_heard_by < back_at
                assert (open_decisions, held_commands) == (1, 1)
                await room.hears(m.Verdict)

            await with_link(link, dead)

    play(main)


def test_what_happens_without_a_session_is_told_by_the_next_hello() -> None:
    """Opened, heard, applied and closed while nobody listens."""

    async def main(live: LiveTime) -> None:
        link = new_link("127.0.0.1:1", live)
        kept, judged, closed = (Room(link, live, f"m{number}") for number in range(3))
        opened = kept.open(delay_ms=60_000)
        heard = kept.arrive(opened.key)
        first = judged.open(delay_ms=60_000)
        judged.arrive(first.key, "done")
        link.applied(first.key, "another", 1)
        assert len(link._hello().pending) == 2
        link.applied(first.key, "done", 1)
        closed.open()
        link.close("m2", 1, "points")
        hello = link._hello()
        assert [one.key for one in hello.open] == [opened.key]
        assert hello.open[0].cause is m.OpenCause.REATTACH
        assert hello.open[0].start_ns == opened.start_ns
        assert hello.open[0].mark_ns >= opened.mark_ns
        assert hello.pending == (heard,)
        assert link._outbox == []

    play(main)


def test_a_resume_stays_a_resume_until_a_clock_has_worked_it_out() -> None:
    async def main(live: LiveTime) -> None:
        link = new_link("127.0.0.1:1", live)
        room = Room(link, live, fence=2)
        opened = room.open(
            cause=m.OpenCause.RESUME, delay_ms=60_000, consumed_ns=3 * MILLISECOND, outage_hint_ns=7
        )
        assert link._hello().open[0].cause is m.OpenCause.RESUME
        consumed = 5 * MILLISECOND
        deadline = opened.start_ns + opened.delay_ns + opened.bank_ns - consumed
        link._hear(m.Armed(opened.key, deadline, 1, consumed, 11))
        told = link._hello().open[0]
        assert (told.cause, told.consumed_ns) == (m.OpenCause.REATTACH, consumed)
        assert (told.credited_total_ns, told.outage_hint_ns) == (11, 0)

    play(main)


def test_the_draw_before_is_not_taken_for_this_part_of_the_turn() -> None:
    """After a reconnect the clock repeats what it said; all parts of a turn have one key."""

    async def main(live: LiveTime) -> None:
        link = new_link("127.0.0.1:1", live)
        room = Room(link, live)
        first = room.open(delay_ms=60_000)
        room.arrive(first.key, "draw")
        armed = m.Armed(first.key, first.start_ns + first.delay_ns + first.bank_ns, 1, 0, 0)
        verdict = m.Verdict(first.key, "draw", 5, 5, 0, first.bank_ns, 0)
        link._hear(armed)
        link._hear(verdict)
        await asyncio.sleep(0.02)
        second = room.open(cause=m.OpenCause.CONTINUE, delay_ms=60_000, consumed_ns=5)
        link.applied(first.key, "draw", 1)
        assert link._hello().open[0].start_ns == second.start_ns
        room.arrive(second.key, "play")
        link._hear(armed)
        link._hear(verdict)
        assert room.heard == [armed, verdict]
        assert len(link._hello().pending) == 1

    play(main)


def test_an_owner_that_is_none_any_more_is_forgotten() -> None:
    async def main(live: LiveTime) -> None:
        async with serving(new_rpc()) as address:
            old, new = new_link(address, live, "engine-1"), new_link(address, live, "engine-2")
            left, right = Room(old, live), Room(new, live, fence=2)

            async def both() -> None:
                left.open(delay_ms=60_000)
                await left.hears(m.Armed)

                async def adopt() -> None:
                    right.open(cause=m.OpenCause.RESUME, delay_ms=60_000)
                    assert (await left.hears(m.Stale)).current_fence == 2
                    await right.hears(m.Armed)
                    assert old._hello().open == ()

                await with_link(new, adopt)

            await with_link(old, both)

    play(main)


def test_the_page_of_metrics_says_what_happened() -> None:
    async def main(live: LiveTime) -> None:
        registry = CollectorRegistry()
        async with serving(new_rpc(registry)) as address:
            link = new_link(address, live)

            def value(name: str, **labels: str) -> float | None:
                return registry.get_sample_value(f"spectacular_bid_clock_{name}", labels)

            async def one_of_each() -> None:
                assert value("verdicts_total", result="timeout") == 0
                assert value("voids_total", reason="gap_too_long") == 0
                room = Room(link, live)
                opened = room.open()
                room.arrive(opened.key)
                await room.hears(m.Verdict)
                link.applied(opened.key, "c1", 1)
                room.open(2, seat=SOUTH)
                await room.hears(m.Timeout)
                assert value("verdicts_total", result="in_time") == 1
                assert value("verdicts_total", result="timeout") == 1
                assert (value("probe_seconds_count") or 0) >= 1
                assert (value("timer_lag_seconds_count") or 0) >= 1
                assert value("sessions") == value("matches") == 1

            await with_link(link, one_of_each)
            await asyncio.wait_for(_until(lambda: value("sessions") == 0), 10)

    play(main)


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - a test watches
        await asyncio.sleep(0.01)


def test_a_link_that_is_stopped_as_its_clock_leaves_ends() -> None:
    """A stop is a stop, also in the turn of the loop in which the session breaks by itself."""

    async def main(live: LiveTime) -> None:
        rpc = new_rpc()
        async with serving(rpc) as address:
            link = new_link(address, live)
            running = asyncio.create_task(link.run())
            await attached(link)
            hear = link._hear

            def stopped_as_the_clock_leaves(message: m.ClockMessage) -> None:
                if isinstance(message, m.Drain):
                    running.cancel()
                hear(message)

            link._hear = stopped_as_the_clock_leaves  # type: ignore[method-assign]
            await rpc.drain()
            done, _ = await asyncio.wait([running], timeout=SECONDS_MAX)
            assert done
            assert running.cancelled()

    run_live(main)
