"""Commands against the timer and against a process that stands still: what is seen on the wire decides what must follow.

Messages between game and clock are held and let go, so that each order of command and timer happens for certain. What is
right is worked out from the stamps that were seen, never from this machine's idea of the time.
"""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from client.errors import CallError
from engine.clock import MILLISECOND, deadline
from engine.seats import NORTH
from services.game.livetime import SLACK_NS, TICK_SECONDS, kernel_now
from spectacularbid.internal.clock.v1 import clock_service_pb2 as clock_pb
from tests.engine.tables import play
from tests.integration.conftest import Tapped
from tests.integration.timing import FORCED, in_time, is_over, near_the_deadline, one_row, reproduced
from tests.proxy import Way
from tests.seats import Table, eventually, scripted
from tests.stack import time_control

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def until_kernel(at_ns: int) -> None:
    """Until an instant of the kernel clock that game and test share; as exactly as the machine allows."""
    while (left := at_ns - kernel_now()) > 0:  # noqa: ASYNC110 - nobody tells us
        await asyncio.sleep(max(0.0, left / 1e9 - 0.002))


class Race:
    """One match whose mover has a second, and what was said about it."""

    def __init__(self, tapped: Tapped, table: Table, decision_id: int) -> None:
        self.tapped = tapped
        self.table = table
        self.decision_id = decision_id
        self.link = tapped.clock.proxy

    @classmethod
    async def begin(cls, tapped: Tapped) -> Race:
        """The mover's time runs."""
        control = time_control(200, 800)
        table = await Table.create(tapped.stack, deals=scripted(FORCED), time_control=control)
        return cls(tapped, table, (await table.view(NORTH)).prompt.decision_id)

    def said(self, kind: type[Any]) -> list[Any]:
        """What was said of this kind about this match, oldest first."""
        return [
            message
            for _, message in self.tapped.clock.seen
            if isinstance(message, kind) and message.key.match_id == self.table.match_id
        ]

    async def until(self, kind: type[Any]) -> Any:
        """Waits for such a message."""

        async def seen() -> bool:
            return bool(self.said(kind))

        await eventually(seen)
        return self.said(kind)[0]

    def hold_at(self, kind: type[Any], way: Way) -> None:
        """From the first such message of this match on, nothing comes through in that direction."""

        def saw(_way: Way, message: Any) -> bool:
            if isinstance(message, kind) and message.key.match_id == self.table.match_id:
                self.link.hold(way)
            return True

        self.tapped.clock.saw = saw

    def release(self, *ways: Way) -> None:
        """Everything goes on."""
        self.tapped.clock.clear()
        self.link.release(*ways)

    def play(self) -> asyncio.Task[bool]:
        """The one legal command; whether it was in time."""
        return asyncio.create_task(in_time(self.table, play(NORTH, "6|6"), self.decision_id))

    async def proof(self) -> str:
        """What the forfeit rests on."""
        await eventually(lambda: is_over(self.table))
        evidence = await self.table.stack.evidence(self.table.match_id)
        return str(evidence["detail"]["proof"])

    def is_in_time(self) -> bool:
        """By what was said: the arrival against the deadline."""
        return bool(self.said(clock_pb.Arrival)[0].arrive_ns < self.deadline_ns)

    @property
    def deadline_ns(self) -> int:
        """The first instant that is too late, as the decision was opened."""
        opened = self.said(clock_pb.Open)[0]
        return deadline(opened.start_ns, opened.consumed_ns, opened.bank_ns, opened.delay_ns)


async def test_the_timer_fires_while_a_command_in_time_is_on_its_way(tapped: Tapped) -> None:
    """Scenarios 10 and 12: the arrival is held between game and clock, the timer fires and asks; while a command waits for its
    verdict the room answers no question, so nothing contradicts the stamp."""
    race = await Race.begin(tapped)
    await near_the_deadline(race.table, 250)
    race.link.hold(Way.UP)
    playing = race.play()
    await race.until(clock_pb.Arrival)
    await race.until(clock_pb.Probe)
    assert not race.said(clock_pb.ProbeReply)
    race.release(Way.UP)
    assert race.is_in_time()
    assert await playing
    await reproduced(race.table)


async def test_a_command_after_the_deadline_comes_before_the_question(tapped: Tapped) -> None:
    """Scenario 10: the probe is held, so the late command is what the clock hears first: it proves the timeout."""
    race = await Race.begin(tapped)
    race.hold_at(clock_pb.Probe, Way.DOWN)
    await race.until(clock_pb.Probe)
    # A stamp is early, not late: by a tick when the process is idle, and by more when it is busy.
    opened = race.said(clock_pb.Open)[0]
    await until_kernel(race.deadline_ns + opened.gap_total_ns + 100 * MILLISECOND)
    playing = race.play()
    arrival = await race.until(clock_pb.Arrival)
    await race.until(clock_pb.Timeout)
    assert not race.said(clock_pb.ProbeReply)
    race.release(Way.DOWN)
    assert not await playing
    assert arrival.arrive_ns >= race.deadline_ns
    assert await race.proof() == "arrival"
    await reproduced(race.table)


async def test_a_command_after_the_answer_changes_nothing(tapped: Tapped) -> None:
    """Scenarios 10 and 13: the answer to the probe is held with the late command behind it."""
    race = await Race.begin(tapped)
    race.hold_at(clock_pb.Probe, Way.UP)
    await race.until(clock_pb.ProbeReply)
    playing = race.play()
    await race.until(clock_pb.Arrival)
    race.release(Way.UP)
    assert not await playing
    assert await race.proof() == "watermark"
    await reproduced(race.table)


async def test_a_verdict_in_time_arrives_after_the_deadline(tapped: Tapped) -> None:
    """Scenario 10: judged before the timer, heard after it; the timer has nothing left to ask."""
    race = await Race.begin(tapped)
    race.hold_at(clock_pb.Verdict, Way.DOWN)
    await near_the_deadline(race.table, 250)
    playing = race.play()
    await race.until(clock_pb.Verdict)
    # Live time is never ahead of the kernel clock, which game and test share.
    await until_kernel(race.deadline_ns + 50 * MILLISECOND)
    race.release(Way.DOWN)
    assert race.is_in_time()
    assert await playing
    assert not race.said(clock_pb.Probe)
    await reproduced(race.table)


async def test_command_and_question_can_be_read_in_the_same_turn_of_the_loop(tapped: Tapped) -> None:
    """Scenarios 10, 11 and 18: the process stands still across the deadline, and finds both when it goes on: in whichever
    order it reads them, the command is dated to before the pause."""
    race = await Race.begin(tapped)
    game = tapped.stack.processes["game"]
    await near_the_deadline(race.table, 250)
    game.signal(signal.SIGSTOP)
    playing = race.play()
    await race.until(clock_pb.Probe)
    game.signal(signal.SIGCONT)
    assert await playing
    arrival = race.said(clock_pb.Arrival)[0]
    assert race.is_in_time()
    assert arrival.read_raw_ns > race.deadline_ns
    await reproduced(race.table)


@pytest.mark.parametrize("milliseconds", [10, 49, 51, 500])
async def test_a_process_stands_still_across_the_deadline(tapped: Tapped, milliseconds: int) -> None:
    """Scenario 16: for 10, 49, 51 and 500 ms around the deadline, with a command sent before, in and after the pause. One that
    came in a long pause is dated to its beginning, one that came later is not charged for a long pause (over 50 ms without
    an idle instant, the last of which may be a tick after the pause began); each is in time if its stamp is before the
    deadline, and lost if it is not. (29 and 31 s: `make long`.)"""
    game = tapped.stack.processes["game"]
    for when in ("before", "in", "after"):
        race = await Race.begin(tapped)
        opened = await race.until(clock_pb.Open)
        await near_the_deadline(race.table, milliseconds / 2 + 10)
        playing = race.play() if when == "before" else None
        await until_kernel(race.deadline_ns + opened.gap_total_ns - milliseconds // 2 * MILLISECOND)
        game.signal(signal.SIGSTOP)
        stopped = kernel_now()
        if when == "in":
            playing = race.play()
        await until_kernel(stopped + milliseconds * MILLISECOND)
        paused_ns = kernel_now() - stopped
        game.signal(signal.SIGCONT)
        result = await (playing or race.play())
        arrivals = race.said(clock_pb.Arrival)
        if not arrivals:
            # The forfeit was there first: it had been proven before the pause, or the machine was slow to send.
            assert not result
            assert await race.proof() == "watermark"
            await reproduced(race.table)
            continue
        (arrival,) = arrivals
        assert result == race.is_in_time()
        if when == "in" and milliseconds > 100:
            # Nearer to the beginning of the pause than to its end, by far more than a busy machine needs to read it.
            assert arrival.arrive_ns + opened.gap_total_ns < stopped + paused_ns / 2
        if when == "after" and milliseconds > 100:
            # Idle to the last tick before the pause, and busy again after it.
            uncertain_ns = int(TICK_SECONDS * 1e9) + SLACK_NS
            listened_ns = arrival.read_raw_ns - opened.start_raw_ns - paused_ns + uncertain_ns
            assert arrival.arrive_ns - opened.start_ns <= listened_ns
        await reproduced(race.table)


async def test_a_backlog_of_two_hundred_commands_behind_a_pause(tapped: Tapped) -> None:
    """Scenario 17: forty matches reach their deadlines while the process stands still; five commands of each wait for it, four
    illegal ones and then the one that counts. All were there before anybody's deadline, as far as the process could hear."""
    tables = await asyncio.gather(
        *(
            Table.create(tapped.stack, deals=scripted(FORCED), time_control=time_control(500, 5_500))
            for _ in range(40)
        )
    )
    views = [await table.view(NORTH) for table in tables]
    decisions = [view.prompt.decision_id for view in views]
    game = tapped.stack.processes["game"]
    left_ms = [(await table.view(NORTH)).prompt.clock.remaining_ms for table in tables]
    await asyncio.sleep(max(0.0, min(left_ms) / 1000 - 1))
    game.signal(signal.SIGSTOP)
    stopped = kernel_now()

    async def send(table: Table, decision: int, tile: str) -> str:
        try:
            await table.do(play(NORTH, tile), decision_id=decision)
        except CallError as error:
            return error.reason
        return ""

    sending = [
        asyncio.create_task(send(table, decision, tile))
        for table, decision in zip(tables, decisions, strict=True)
        for tile in ("1|2", "1|2", "1|2", "1|2", "6|6")
    ]
    spread_ms = max(left_ms) - min(left_ms)
    past_ns = (spread_ms + 1300) * MILLISECOND
    await until_kernel(stopped + past_ns)  # everybody's deadline is over
    game.signal(signal.SIGCONT)
    reasons = await asyncio.gather(*sending)
    assert len(reasons) == 200
    assert [reasons.count(""), reasons.count("OPENING_TILE_FORCED")] == [40, 160]
    for table in tables:
        row = await one_row(
            tapped.stack,
            "select elapsed_ns, read_raw_ns from match_log where match_id = $1 and turn is not null",
            table.match_id,
        )
        assert row["elapsed_ns"] < 6_000 * MILLISECOND  # the whole budget
        assert row["read_raw_ns"] > stopped + past_ns
        await reproduced(table)
