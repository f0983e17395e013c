"""The real clock process: verdicts, deadlines, crashes, pauses."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from engine.clock import MILLISECOND, Effect
from engine.seats import SOUTH
from services.common.auth import write_new_keys
from services.game.livetime import LiveTime, kernel_now
from services.wire import clock_messages as m
from tests.processes import Process, free_port, running
from tests.services.clock.engines import SECRET, Room, attached, detached, new_link, run_live, with_link


@pytest.fixture
def env(database_url: str, tmp_path: Path) -> dict[str, str]:
    """Settings of a clock process; its address stays the same over restarts."""
    write_new_keys(tmp_path / "key.pem", tmp_path / "keys.json")
    return {
        "SPECTACULAR_BID_ENV": "test",
        "SPECTACULAR_BID_DATABASE_URL": database_url,
        "SPECTACULAR_BID_INTERNAL_LISTEN": f"127.0.0.1:{free_port()}",
        "SPECTACULAR_BID_INTERNAL_SECRET": SECRET,
        "SPECTACULAR_BID_JWKS_FILE": str(tmp_path / "keys.json"),
    }


def address(env: dict[str, str]) -> str:
    return env["SPECTACULAR_BID_INTERNAL_LISTEN"]


@asynccontextmanager
async def clock(env: dict[str, str], tmp_path: Path, name: str = "clock") -> AsyncIterator[Process]:
    async with running("services.clock", env=env, log_dir=tmp_path, name=name) as process:
        yield await process.ready()


def test_a_command_is_judged_and_silence_is_lost_at_the_deadline(env: dict[str, str], tmp_path: Path) -> None:
    async def main(live: LiveTime) -> None:
        async with clock(env, tmp_path):
            link = new_link(address(env), live)

            async def play() -> None:
                room = Room(link, live)
                first = room.open()
                armed = await room.hears(m.Armed)
                assert armed.deadline_ns == first.start_ns + 300 * MILLISECOND
                arrival = room.arrive(first.key)
                verdict = await room.hears(m.Verdict)
                assert verdict.elapsed_ns == max(0, arrival.arrive_ns - first.start_ns)
                assert verdict.bank_after_ns == 100 * MILLISECOND
                link.applied(first.key, "c1", 5)
                second = room.open(2, seat=SOUTH)
                timeout = await room.hears(m.Timeout)
                told_at = live.soon()
                assert timeout.seat is SOUTH
                assert timeout.deadline_ns == second.start_ns + 300 * MILLISECOND
                assert timeout.proof_ns >= timeout.deadline_ns
                assert timeout.deadline_ns <= told_at < timeout.deadline_ns + 500 * MILLISECOND
                assert not any(isinstance(message, m.Verdict) for message in room.heard)

            await with_link(link, play)

    run_live(main)


def test_a_wrong_secret_attaches_nobody(env: dict[str, str], tmp_path: Path) -> None:
    async def main(live: LiveTime) -> None:
        async with clock(env, tmp_path) as process:
            link = new_link(address(env), live, secret="a wrong secret for tests")
            trying = asyncio.create_task(link.run())
            await asyncio.sleep(0.5)  # several attempts
            trying.cancel()
            assert not link.attached
            assert not [line for line in process.events() if line["event"] == "engine_attached"]

    run_live(main)


def test_killed_while_the_count_runs_another_clock_reaches_the_same_deadline(
    env: dict[str, str], tmp_path: Path
) -> None:
    """FC-03, scenarios 27 and 28: nothing is stuck, nothing void, the deadline comes from the engine's stamps."""

    async def main(live: LiveTime) -> None:
        link = new_link(address(env), live)
        room = Room(link, live)

        async def play() -> None:
            opened = room.open(delay_ms=1500, bank_ms=0)
            armed = await room.hears(m.Armed)
            first_clock = link.clock_id
            process.kill()
            await detached(link)
            async with clock(env, tmp_path, "second"):
                await attached(link, to_another_than=first_clock)
                again = await room.hears(m.Armed)
                assert (again.deadline_ns, again.consumed_ns) == (armed.deadline_ns, armed.consumed_ns)
                assert again.remaining_ns >= 0
                timeout = await room.hears(m.Timeout)
                assert timeout.key == opened.key
                assert timeout.deadline_ns == armed.deadline_ns
                assert timeout.proof_ns >= timeout.deadline_ns

        async with clock(env, tmp_path) as process:
            await with_link(link, play)

    run_live(main)


def test_a_command_heard_without_a_clock_is_judged_by_the_next_one_on_its_stamp(
    env: dict[str, str], tmp_path: Path
) -> None:
    """Scenario 27, RUNNING and HELD: in time by its stamp although the deadline has passed when it is judged."""

    async def main(live: LiveTime) -> None:
        link = new_link(address(env), live)
        room = Room(link, live)

        async def play() -> None:
            opened = room.open(delay_ms=600, bank_ms=0)
            await room.hears(m.Armed)
            first_clock = link.clock_id
            process.kill()
            await detached(link)
            arrival = room.arrive(opened.key, "draw", Effect.CONTINUES)
            await asyncio.sleep(0.7)
            async with clock(env, tmp_path, "second") as second:
                await attached(link, to_another_than=first_clock)
                verdict = await room.hears(m.Verdict)
                assert verdict.command_id == "draw"
                assert verdict.elapsed_ns == verdict.consumed_ns == arrival.arrive_ns - opened.start_ns
                # Judged but not committed when this one dies too: told again, and the room hears it once.
                second_clock = link.clock_id
                second.kill()
                await detached(link)
                async with clock(env, tmp_path, "third"):
                    await attached(link, to_another_than=second_clock)
                    going_on = room.open(
                        cause=m.OpenCause.CONTINUE, delay_ms=600, bank_ms=0, consumed_ns=verdict.consumed_ns
                    )
                    link.applied(opened.key, "draw", 3)
                    timeout = await room.hears(m.Timeout)
                    assert timeout.deadline_ns == going_on.start_ns + 600 * MILLISECOND - verdict.consumed_ns
                    assert not [message for message in room.heard if isinstance(message, m.Verdict)]

        async with clock(env, tmp_path) as process:
            await with_link(link, play)

    run_live(main)


def test_a_frozen_clock_is_left_within_seconds_and_its_timers_decide_nothing(
    env: dict[str, str], tmp_path: Path
) -> None:
    """Scenarios 18 and 44: silence is noticed by pings, and what the clock slept through is judged on stamps."""

    async def main(live: LiveTime) -> None:
        link = new_link(address(env), live)
        room = Room(link, live)

        async def play() -> None:
            opened = room.open(delay_ms=1000, bank_ms=0)
            await room.hears(m.Armed)
            process.signal(signal.SIGSTOP)
            frozen_at = live.raw()
            arrival = room.arrive(opened.key)
            await detached(link)
            assert live.raw() - frozen_at < 2_500 * MILLISECOND
            process.signal(signal.SIGCONT)
            verdict = await room.hears(m.Verdict)
            assert verdict.elapsed_ns == max(0, arrival.arrive_ns - opened.start_ns)

        async with clock(env, tmp_path) as process:
            await with_link(link, play)

    run_live(main)


def test_a_clock_that_stops_in_order_sends_everyone_away_first(env: dict[str, str], tmp_path: Path) -> None:
    """Scenario 30, fault 7: a drain in the middle of a decision has no effect on time."""

    async def main(live: LiveTime) -> None:
        link = new_link(address(env), live)
        room = Room(link, live)

        async def play() -> None:
            room.open(delay_ms=900, bank_ms=0)
            armed = await room.hears(m.Armed)
            first_clock = link.clock_id
            assert await process.terminate() == 0
            async with clock(env, tmp_path, "second"):
                await attached(link, to_another_than=first_clock)
                timeout = await room.hears(m.Timeout)
                assert timeout.deadline_ns == armed.deadline_ns

        async with clock(env, tmp_path) as process:
            await with_link(link, play)

    run_live(main)


def test_many_matches_of_one_engine_share_a_session(env: dict[str, str], tmp_path: Path) -> None:
    async def main(live: LiveTime) -> None:
        async with clock(env, tmp_path):
            link = new_link(address(env), live)

            async def play() -> None:
                rooms = [Room(link, live, f"m{number}") for number in range(300)]
                opened = [room.open(delay_ms=400, bank_ms=0) for room in rooms]
                for room, at in zip(rooms[::2], opened[::2], strict=True):
                    room.arrive(at.key)
                for number, room in enumerate(rooms):
                    if number % 2:
                        await room.hears(m.Timeout)
                    else:
                        await room.hears(m.Verdict)

            await with_link(link, play)

    run_live(main)


def test_a_paused_engine_is_not_charged_for_its_pause(env: dict[str, str], tmp_path: Path) -> None:
    """Scenario 16: the loop stands still across the deadline; what was used before and after it counts, no more."""

    async def main(live: LiveTime) -> None:
        async with clock(env, tmp_path):
            link = new_link(address(env), live)

            async def play() -> None:
                room = Room(link, live)
                opened = room.open(delay_ms=400, bank_ms=0)
                await room.hears(m.Armed)
                _block(0.6)
                assert live.raw() > opened.start_raw_ns + 400 * MILLISECOND
                arrival = room.arrive(opened.key)
                verdict = await room.hears(m.Verdict)
                assert verdict.elapsed_ns == max(0, arrival.arrive_ns - opened.start_ns) < 100 * MILLISECOND
                link.applied(opened.key, "c1", 1)
                lost = room.open(2, delay_ms=400, bank_ms=0)
                await room.hears(m.Armed)
                _block(0.6)
                timeout = await room.hears(m.Timeout)
                # 400 ms of listening, although 600 had passed already when the pause was over.
                assert timeout.deadline_ns == lost.start_ns + 400 * MILLISECOND
                assert live.raw() - lost.start_raw_ns >= 1000 * MILLISECOND

            await with_link(link, play)

    run_live(main)


def _block(seconds: float) -> None:
    """Stand still as a process does that is not scheduled; the loop must not know."""
    os.system(f"sleep {seconds}")  # noqa: S605 - a constant


def test_a_forfeit_by_a_clock_that_runs_too_fast_is_void(
    database_url: str, env: dict[str, str], tmp_path: Path
) -> None:
    """Scenario 23 with the real clock process: 20 % too fast, silence until the deadline. A match id that no database knows
    does not stop the incident from being stored."""
    began = kernel_now()

    def read() -> int:
        return began + (kernel_now() - began) * 6 // 5

    async def main(live: LiveTime) -> None:
        async with clock(env, tmp_path):
            link = new_link(address(env), live)

            async def play() -> None:
                room = Room(link, live, str(uuid4()))
                room.open(bank_ms=1000, delay_ms=1500)
                void = await room.hears(m.Void)
                assert void.reason == m.VoidReason.CLOCK_DISRUPTION
                assert not any(isinstance(message, m.Timeout) for message in room.heard)

            await with_link(link, play)
        connection = await asyncpg.connect(database_url)
        try:
            rows = await connection.fetch("select detail from incident where kind = 'clock_disruption'")
        finally:
            await connection.close()
        assert sum(json.loads(row["detail"])["size_ns"] for row in rows) > 100 * MILLISECOND

    run_live(main, LiveTime(read=read))


def test_incidents_of_the_clock_are_stored_beside_the_game(
    database_url: str, env: dict[str, str], tmp_path: Path
) -> None:
    """Rule R17, faults 4 and 6: a kernel clock that jumps, and a session that was lost and came back."""
    jumped = 0

    def read() -> int:
        return kernel_now() + jumped

    async def main(live: LiveTime) -> None:
        async with clock(env, tmp_path):
            link = new_link(address(env), live)

            async def play() -> None:
                nonlocal jumped
                room = Room(link, live)
                await stored("select clock_id from incident where kind = 'clock_disruption'", 0)
                room.open()
                await room.hears(m.Timeout)  # pings went round meanwhile
                jumped = 5_000 * MILLISECOND
                (row,) = await stored("select * from incident where kind = 'clock_disruption'", 1)
                assert (row["engine_id"], row["noticed_by"]) == ("engine-1", f"clock/{link.clock_id}")
                assert row["timeline_id"] == live.timeline_id
                facts = json.loads(row["detail"])
                # The loop saw the jump as a gap, so nobody was charged for it.
                assert facts["ahead"] is True
                assert facts["culprit"] == "unknown"
                assert 4_900 * MILLISECOND < facts["size_ns"] <= facts["covered_ns"] + 100 * MILLISECOND

            await with_link(link, play)
            again = new_link(address(env), live)
            again._attach_no = 100  # as the same link after many sessions
            await with_link(again, nothing)
            (row,) = await stored("select * from incident where kind = 'clock_lost'", 1)
            assert row["ended_at"] > row["began_at"]

    async def nothing() -> None:
        pass

    async def stored(query: str, rows: int) -> list[asyncpg.Record]:
        connection = await asyncpg.connect(database_url)
        try:
            async with asyncio.timeout(20):
                while len(found := await connection.fetch(query)) < rows:  # noqa: ASYNC110 - a test watches
                    await asyncio.sleep(0.05)
            return found
        finally:
            await connection.close()

    run_live(main, LiveTime(read=read))
