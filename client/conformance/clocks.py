"""The clock, with short time controls: what is charged, what is not, and what happens at the deadline.

No figure is compared with a wish. What the service says must fit together, and must lie between what this side measured
around it: a command cannot have taken longer than from the sending of the one before to its own answer.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from client.conformance.bench import failure, new_id
from client.conformance.check import BrokenError, checks_of, expect
from client.conformance.commands import next_move
from client.conformance.hearing import Heard, Watching
from client.conformance.played import commands as legal_commands
from client.conformance.refusals import deal, play
from client.conformance.table import Table, scripted
from engine.command import Draw, Start
from engine.seats import NORTH, SOUTH, Seat
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from client.conformance.bench import Bench
    from spectacularbid.match.v1 import event_pb2

# What a stamp may lie before the arrival without being a gap, and the rounding of figures.
_STAMP_MS: Final = 60
_TURNS_MAX: Final = 6
_SEAT_NAMES: Final = {table_pb2.SEAT_NORTH: "north", table_pb2.SEAT_SOUTH: "south"}


def control(bank_ms: int, delay_ms: int) -> dict[str, Any]:
    """The field of CreateMatch."""
    return {"time_control": pb.TimeControl(bank_ms=bank_ms, delay_ms=delay_ms)}


def charge_of(events: dict[int, event_pb2.MatchEvent], applied: pb.Applied) -> event_pb2.TurnTimed:
    """What a command was charged."""
    for number in range(applied.first_sequence, applied.last_sequence + 1):
        if number in events and events[number].HasField("turn_timed"):
            return events[number].turn_timed
    raise BrokenError(f"no turn_timed among events {applied.first_sequence} to {applied.last_sequence}")


async def whole_turn(table: Table, seat: Seat) -> pb.Applied:
    """Something legal by a seat to the end of its turn: draws belong to it, and are paid for at its end (rule 6.3)."""
    while True:
        acting, request = await next_move(table)
        expect(acting is seat, "the turn passed to the other seat by itself")
        applied = await table.send(request, seat)
        if not request.command.HasField("draw"):
            return applied


async def _thought(table: Table, watching: Watching, seconds: float) -> event_pb2.TurnTimed:
    """A turn that is thought about for that long, and what it was charged."""
    seat = await table.to_act()
    await asyncio.sleep(seconds)  # what is looked at is time itself
    applied = await whole_turn(table, seat)
    return charge_of((await watching.reached(applied.last_sequence)).events, applied)


async def counted(
    turn: Callable[[], Awaitable[event_pb2.TurnTimed]], least_ms: float
) -> list[event_pb2.TurnTimed]:
    """Turns until one is counted for at least so long. Raises BrokenError when none of several is.

    One alone proves nothing: a service that stands still dates what comes meanwhile to the beginning, for the player.
    """
    turns: list[event_pb2.TurnTimed] = []
    while not turns or turns[-1].elapsed_ms < least_ms - _STAMP_MS:
        most = max((timed.elapsed_ms for timed in turns), default=0)
        expect(
            len(turns) < _TURNS_MAX,
            f"of {_TURNS_MAX} turns of {least_ms:.0f} ms none was counted for more than {most} ms",
        )
        turns.append(await turn())
    return turns


async def the_delay_is_free(bench: Bench) -> None:
    """A turn within its delay costs the bank nothing (rule 6.2)."""
    async with (
        await Table.create(bench, **control(60_000, 60_000)) as table,
        Watching.of(table, NORTH) as watching,
    ):
        await watching.read()
        for _ in range(2):
            timed = await _thought(table, watching, 0.1)
            expect(
                timed.elapsed_ms < 60_000, "the turn took a minute: the machine is too slow to say anything"
            )
            expect(timed.charge_ms == 0, f"{timed.charge_ms} ms were charged within the delay")
            expect(timed.bank_ms == 60_000, f"the bank has {timed.bank_ms} ms after a free turn")


async def the_bank_pays_what_exceeds_the_delay(bench: Bench) -> None:
    """What a turn takes beyond the delay, and no more, is taken from the bank of its seat (rule 6.2)."""
    delay_ms, bank_ms = 100, 600_000
    async with (
        await Table.create(bench, **control(bank_ms, delay_ms)) as table,
        Watching.of(table, NORTH) as watching,
    ):
        await watching.read()
        banks = {table_pb2.SEAT_NORTH: bank_ms, table_pb2.SEAT_SOUTH: bank_ms}
        for timed in await counted(lambda: _thought(table, watching, 0.4), 400):
            over = max(0, timed.elapsed_ms - delay_ms)
            expect(
                over <= timed.charge_ms <= over + 1,
                f"{timed.charge_ms} ms charged for {over} ms beyond the delay",
            )
            left = banks[timed.seat] - timed.charge_ms
            expect(
                left - 1 <= timed.bank_ms <= left + 1,
                f"the bank has {timed.bank_ms} ms and should have {left}",
            )
            banks[timed.seat] = timed.bank_ms
        view = await table.view(NORTH)
        said = {
            table_pb2.SEAT_NORTH: view.prompt.clock.north_bank_ms,
            table_pb2.SEAT_SOUTH: view.prompt.clock.south_bank_ms,
        }
        expect(said == banks, f"the prompt has the banks {said}, the events {banks}")


async def a_turn_is_not_charged_for_more_than_it_took(bench: Bench) -> None:
    """A turn is charged for no more than passed between the turn before it and its own answer."""
    async with (
        await Table.create(bench, start=False, **control(600_000, 1)) as table,
        Watching.of(table, NORTH) as watching,
    ):
        await watching.read()
        await table.do(Start(NORTH))
        begun = time.monotonic()
        await table.do(Start(SOUTH))
        for _ in range(4):
            seat = await table.to_act()
            asked = time.monotonic()
            applied = await whole_turn(table, seat)
            took_ms = (time.monotonic() - begun) * 1000
            timed = charge_of((await watching.reached(applied.last_sequence)).events, applied)
            expect(
                timed.elapsed_ms <= took_ms + 1,
                f"{timed.elapsed_ms} ms for what took {took_ms:.0f} ms at most",
            )
            begun = asked


async def a_draw_continues_the_turn(bench: Bench) -> None:
    """A draw changes the question and neither the turn nor its delay (rule 6.3)."""
    drawing = deal("0|0 0|1 0|2 1|1 1|2 2|2 0|3", "6|6 5|5", "1|3 0|6")
    delay_ms, bank_ms = 600, 600_000
    async with await Table.create(bench, deals=scripted(drawing), **control(bank_ms, delay_ms)) as table:
        await table.do(play(SOUTH, "6|6"))
        before = (await table.view(NORTH)).prompt
        async with Watching.of(table, NORTH) as watching:
            await watching.read()
            await asyncio.sleep(0.4)  # most of the delay
            drawn = await table.do(Draw(NORTH))
            after = (await table.view(NORTH)).prompt
            expect(after.decision_id == before.decision_id + 1, "a draw did not change the question")
            expect(after.turn == before.turn, "a draw began another turn")
            first = charge_of((await watching.reached(drawn.last_sequence)).events, drawn)
            await asyncio.sleep(0.4)  # together more than one delay
            await table.do(Draw(NORTH))
            placed = await table.do(play(NORTH, "0|6", "6|6 line_a"))
            last = charge_of((await watching.reached(placed.last_sequence)).events, placed)
        expect(
            last.elapsed_ms >= first.elapsed_ms,
            f"the turn has {last.elapsed_ms} ms at its end; it had {first.elapsed_ms} ms at a draw",
        )
        over = max(0, last.elapsed_ms - delay_ms)
        spent = bank_ms - last.bank_ms
        expect(over <= spent <= over + 1, f"the bank paid {spent} ms for {over} ms beyond one delay")


async def a_clock_that_runs_out_loses(bench: Bench) -> None:
    """Who says nothing until the deadline loses on time, not before it, and is never shown more time than there is."""
    delay_ms, bank_ms = 900, 600
    async with await Table.create(bench, start=False, **control(bank_ms, delay_ms)) as table:
        spectator = await bench.guest()
        async with Watching.of(table, spectator) as watching:
            await watching.read()
            await table.do(Start(NORTH))
            begun = time.monotonic()
            await table.do(Start(SOUTH))
            asked = time.monotonic()
            view = await table.view(NORTH)
            heard = await watching.to_the_end()
            ended = time.monotonic()
        outcome, loser = _lost_on_time(heard)
        winner = table_pb2.SEAT_SOUTH if loser == table_pb2.SEAT_NORTH else table_pb2.SEAT_NORTH
        named = _SEAT_NAMES.get(outcome.winner, "nobody")
        expect(outcome.winner == winner, f"{_SEAT_NAMES[loser]} let the time pass, and the winner is {named}")
        there_ms, passed_ms = delay_ms + bank_ms, (ended - begun) * 1000
        expect(passed_ms >= there_ms, f"lost after {passed_ms:.0f} ms, with {there_ms} ms to spend")
        if view.prompt.clock.running:
            remaining, until_ms = view.prompt.clock.remaining_ms, (ended - asked) * 1000
            expect(remaining <= there_ms, f"{remaining} ms are shown of {there_ms}")
            expect(
                remaining <= until_ms + 1,
                f"{remaining} ms were shown, and {until_ms:.0f} ms later it was over",
            )
        final = await table.view(NORTH)
        clock = final.prompt.clock
        lost = clock.north_bank_ms if loser == table_pb2.SEAT_NORTH else clock.south_bank_ms
        expect(lost == 0, f"the loser's bank has {lost} ms")
        expect((final.balances.north, final.balances.south) == (150, 150), "points moved because of the time")


def _lost_on_time(heard: Heard) -> tuple[table_pb2.Outcome, table_pb2.Seat.ValueType]:
    """How the match ended, and whose turn it was last. Raises BrokenError unless time decided it."""
    expect(heard.over, "the stream ended without the end of the match")
    (end,) = [event for event in heard.events.values() if event.HasField("match_ended")]
    outcome = end.match_ended.outcome
    expect(outcome.cause == table_pb2.CAUSE_TIME, f"the match ended by cause {outcome.cause}, not on time")
    acting = [prompt.to_act for prompt in heard.prompts if prompt.to_act]
    expect(acting, "the stream named nobody who had to act")
    return outcome, acting[-1]


async def a_late_command_loses(bench: Bench) -> None:
    """A command that comes after the deadline changes nothing: MATCH_OVER, or CLOCK_EXPIRED right at it (rule 6.7)."""
    async with (
        await Table.create(bench, start=False, **control(0, 700)) as table,
        Watching.of(table, NORTH) as north,
        Watching.of(table, SOUTH) as south,
    ):
        await table.start()
        heard = {NORTH: await north.to_the_end(), SOUTH: await south.to_the_end()}
        _, loser = _lost_on_time(heard[NORTH])
        seat = NORTH if loser == table_pb2.SEAT_NORTH else SOUTH
        prompt = next(prompt for prompt in reversed(heard[seat].prompts) if prompt.legal.plays)
        request = pb.SubmitRequest(
            match_id=table.match_id,
            request_id=new_id(),
            decision_id=prompt.decision_id,
            command=legal_commands(prompt.legal)[0],
        )
        before = await table.snapshot(seat)
        error = await failure(table.send(request, seat))
        expect(error.reason in {"MATCH_OVER", "CLOCK_EXPIRED"}, f"a command after the deadline: {error}")
        after = await table.snapshot(seat)
        expect(after.sequence == before.sequence, "the late command caused an event")
        expect(after.table.balances == before.table.balances, "the late command moved points")


async def a_command_before_the_deadline_counts(bench: Bench) -> None:
    """A command well before the deadline, and after the delay, is carried out and paid for (rule 6.7)."""
    async with (
        await Table.create(bench, **control(60_000, 50)) as table,
        Watching.of(table, NORTH) as watching,
    ):
        await watching.read()
        turns = await counted(lambda: _thought(table, watching, 0.3), 300)
        expect(turns[-1].charge_ms > 0, "nothing was charged for 300 ms with a delay of 50 ms")
        expect(not (await table.view(NORTH)).HasField("outcome"), "the match is over")


async def no_clock_runs_before_start(bench: Bench) -> None:
    """While Start is awaited no clock runs, and the start limit cancels the match without a winner (rules 6.5, 7.2)."""
    async with (
        await Table.create(bench, start=False, start_limit_ms=700) as table,
        Watching.of(table, NORTH) as watching,
    ):
        await table.do(Start(NORTH))
        heard = await watching.to_the_end()
        expect(
            all(prompt.clock.running == table_pb2.SEAT_UNSPECIFIED for prompt in heard.prompts),
            "a clock ran before both had pressed Start",
        )
        outcome = (await table.view(SOUTH)).outcome
        expect(outcome.cause == table_pb2.CAUSE_CANCELLED, f"it ended by cause {outcome.cause}")
        expect(outcome.winner == table_pb2.SEAT_UNSPECIFIED, "a cancelled match has a winner")
        expect(outcome.detail == "south", f"south did not come, and the outcome says {outcome.detail!r}")


CHECKS: Final = checks_of(
    "clocks",
    the_delay_is_free,
    the_bank_pays_what_exceeds_the_delay,
    a_turn_is_not_charged_for_more_than_it_took,
    a_draw_continues_the_turn,
    a_command_before_the_deadline_counts,
    a_clock_that_runs_out_loses,
    a_late_command_loses,
    no_clock_runs_before_start,
)
