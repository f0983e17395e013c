"""Outages that last as long as the policy's limits, in real time on real processes; `make test` leaves them out.

What is beyond a limit and what is below it run side by side, each on a stack of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from client.errors import CallError
from engine.clock import SECOND
from engine.command import Command, Draw
from engine.seats import NORTH, SOUTH
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.engine.tables import play
from tests.integration.timing import DRAWING, FORCED, is_over, one_row, reproduced
from tests.proxy import Proxy
from tests.seats import Table, eventually, prompt_of, scripted
from tests.stack import HOST, Stack, stack, time_control

pytestmark = [pytest.mark.asyncio, pytest.mark.long]


def folder(path: Path, seconds: float) -> Path:
    """Where a stack of its own lives."""
    made = path / f"{seconds:g}"
    made.mkdir()
    return made


PATIENT = {"ANSWER_WAIT_SECONDS": "60", "HEARTBEAT_SECONDS": "0.5"}


def clock() -> float:
    """The loop's time, seconds."""
    return asyncio.get_running_loop().time()


async def until_outcome(table: Table) -> asyncpg.Record:
    """The stored outcome, waiting for it."""
    await eventually(lambda: is_over(table))
    outcome = await table.stack.outcome(table.match_id)
    assert outcome is not None
    return outcome


async def insist(table: Table, request: pb.SubmitRequest) -> str:
    """Sends a command of north until it has an answer: nothing when it is carried out, else the reason."""
    async with asyncio.timeout(180):
        while True:
            try:
                await table.send(NORTH, request)
            except CallError as error:
                if error.reason not in ("", "TRY_AGAIN", "MATCH_HELD", "UNAVAILABLE"):
                    return error.reason
                await asyncio.sleep(0.2)
            else:
                return ""


async def asked(table: Table, command: Command) -> asyncio.Task[str]:
    """`insist`, begun."""
    request = table.request(command, (await table.view(NORTH)).prompt.decision_id)
    return asyncio.create_task(insist(table, request))


def running(message: pb.WatchResponse) -> int:
    """What the running decision has left, as this message says; 0 when it says nothing of that. Milliseconds."""
    prompt = prompt_of(message)
    return 0 if prompt is None else prompt.clock.remaining_ms


async def void_as(table: Table, *details: str) -> None:
    """The match is void for one of these reasons, with its evidence, and every figure of it follows from the rows."""
    outcome = await until_outcome(table)
    assert outcome["cause"] == "void"
    assert outcome["detail"] in details
    evidence = await table.stack.evidence(table.match_id)
    assert evidence["kind"] == "void"
    print(f"{table.match_id}: void, {outcome['detail']}: {evidence['detail'].get('summary', '')}")
    await reproduced(table)


async def credited(table: Table) -> float:
    """What the last timed ruling credits, seconds."""
    row = await one_row(
        table.stack,
        "select credited_ns from match_log where match_id = $1 and turn is not null order by revision desc",
        table.match_id,
    )
    return float(row["credited_ns"]) / SECOND


@asynccontextmanager
async def linked(path: Path, url: str) -> AsyncIterator[tuple[Stack, Proxy]]:
    """A stack whose game process reaches its clock through a proxy."""
    async with Proxy(HOST, 0) as link, stack(path, url, names=()) as made:
        made.extra["game"] = {**PATIENT, "CLOCK_ADDRESS": link.address}
        made.address("clock")
        link.aim((HOST, made.ports["clock"]))
        await made.start("clock", "matchmaking", "game")
        yield made, link


@asynccontextmanager
async def behind(path: Path, url: str) -> AsyncIterator[tuple[Stack, Proxy]]:
    """A stack whose services reach PostgreSQL through a proxy."""
    parts = urlsplit(url)
    async with Proxy(str(parts.hostname), parts.port or 5432) as link:
        login = parts.netloc.rpartition("@")[0]
        through = parts._replace(netloc=f"{login}@{link.address}").geturl()
        names = ("clock", "matchmaking", "game")
        extra = {name: {"DATABASE_URL": through} for name in names}
        extra["game"] |= PATIENT
        async with stack(path, url, extra, names=names) as made:
            yield made, link


async def test_a_process_stands_still_for_29_and_for_31_seconds(
    new_database: Callable[[], str], tmp_path: Path
) -> None:
    """Scenario 16, rule R23: across the deadline, with a command that came in the pause. 29 s are credited, and the command
    is in time; 31 s void the match."""

    async def stand(seconds: float) -> None:
        url = await asyncio.to_thread(new_database)
        async with stack(folder(tmp_path, seconds), url, {"game": PATIENT}) as made:
            table = await Table.create(made, deals=scripted(FORCED), time_control=time_control(1_000, 9_000))
            game = made.processes["game"]
            request = table.request(play(NORTH, "6|6"), (await table.view(NORTH)).prompt.decision_id)
            game.signal(signal.SIGSTOP)
            began = clock()
            playing = asyncio.create_task(insist(table, request))
            await asyncio.sleep(seconds)
            game.signal(signal.SIGCONT)
            paused = clock() - began
            print(f"stood still for {paused:.3f} s")
            reason = await playing
            if seconds > 30:
                assert reason == "MATCH_OVER"
                await void_as(table, "gap_too_long")
            else:
                assert reason == ""
                assert await made.outcome(table.match_id) is None
                print(f"credited {await credited(table):.3f} s")
                await reproduced(table)

    await asyncio.gather(stand(29.0), stand(31.0))


async def test_the_clock_is_unreachable_for_59_and_for_61_seconds(
    new_database: Callable[[], str], tmp_path: Path
) -> None:
    """Scenario 31, rule R23, fault 6: a command waits for its verdict. After 59 s it is judged by its stamp, as if nothing
    had been; at 60 s the match is void. A player who says nothing is not timed out by a clock that cannot ask."""

    async def away(seconds: float) -> None:
        url = await asyncio.to_thread(new_database)
        async with linked(folder(tmp_path, seconds), url) as (made, link):
            control = time_control(1_000, 4_000)
            table = await Table.create(made, deals=scripted(FORCED), time_control=control)
            silent = await Table.create(made, deals=scripted(FORCED), time_control=control)
            link.refusing = True
            link.cut()
            playing = await asked(table, play(NORTH, "6|6"))
            began = clock()
            await asyncio.sleep(seconds)
            assert await made.outcome(silent.match_id) is None
            link.heal()
            reason = await playing
            print(
                f"without a clock for {seconds} s: answered after {clock() - began:.3f} s, {reason or 'in time'}"
            )
            if seconds > 60:
                assert reason == "MATCH_OVER"
                await void_as(table, "clock_unreachable", "hold_too_long")
            else:
                assert reason == ""
                row = await one_row(
                    made,
                    "select elapsed_ns, charge_ns, credited_ns from match_log where match_id = $1 and turn is not null",
                    table.match_id,
                )
                assert row["elapsed_ns"] < 4 * SECOND
                assert (row["charge_ns"], row["credited_ns"]) == (0, 0)
                await reproduced(table)
            # Silence up to the deadline, which is 5 s after the start: proven only when the clock can ask again.
            assert (await until_outcome(silent))["cause"] == "time"
            await reproduced(silent)

    await asyncio.gather(away(59.0), away(61.0))


async def test_the_database_is_away_for_90_seconds(new_database: Callable[[], str], tmp_path: Path) -> None:
    """Scenario 41, faults 11, 13 and 27: a command is judged and cannot be stored. The match is held, and void as soon as
    that can be written, its evidence with it; a match in which nobody is to move loses nothing."""
    url = await asyncio.to_thread(new_database)
    async with behind(tmp_path, url) as (made, link):
        idle = await Table.create(made, start=False, start_limit_ms=600_000)
        table = await Table.create(made, deals=scripted(FORCED), time_control=time_control(60_000, 20_000))
        request = table.request(play(NORTH, "6|6"), (await table.view(NORTH)).prompt.decision_id)
        link.refusing = True
        link.cut()
        playing = asyncio.create_task(insist(table, request))
        await asyncio.sleep(90)
        # Asked directly, without the proxy: nothing was written, neither the command nor an end.
        assert await made.outcome(table.match_id) is None
        link.heal()
        healed = clock()
        await void_as(table, "hold_too_long", "gap_too_long")
        print(f"void {clock() - healed:.3f} s after the database was back")
        assert await playing == "MATCH_OVER"
        assert await made.outcome(idle.match_id) is None
        await idle.start()
        assert (await idle.view(NORTH)).prompt.decision_id > 0


async def test_five_crashes_in_one_decision(new_database: Callable[[], str], tmp_path: Path) -> None:
    """Scenario 35, rules R20 and R23: what was used is carried from each process to the next, so there is less left every
    time; and when all outages together are longer than 60 s, the match is void: no endless renewal."""
    url = await asyncio.to_thread(new_database)
    async with stack(tmp_path, url, {"game": {**PATIENT, "LEASE_SECONDS": "2"}}) as made:
        table = await Table.create(made, deals=scripted(FORCED), time_control=time_control(60_000, 20_000))
        left, starting = [], 1.5
        for number in range(1, 6):
            await asyncio.sleep(2)  # of thought
            assert await made.outcome(table.match_id) is None
            left.append((await table.view(NORTH)).prompt.clock.remaining_ms)
            made.processes["game"].kill()
            # Four outages are less than 60 s together and five are more, however long this machine takes to start it.
            await asyncio.sleep(13 - starting)
            began = clock()
            await made.start("game")
            starting = clock() - began
            back = await table.events(NORTH)
            if number < 5:
                await back.until(lambda message: running(message) > 0)
        print(f"left before each crash: {left} ms")
        # Beats come four times a second: at least so much of each thought was proven.
        assert all(later < earlier - 500 for earlier, later in itertools.pairwise(left))
        await void_as(table, "credit_spent")


async def test_game_and_clock_are_gone_for_25_and_for_31_seconds(
    new_database: Callable[[], str], tmp_path: Path
) -> None:
    """Scenario 38, rules R22 and R23, fault 10: both are killed in the same moment and nobody remembers; the database knows
    when the game process last renewed its lease. 25 s are credited whole, what a draw had used is carried; 31 s void."""

    async def die(seconds: float) -> None:
        url = await asyncio.to_thread(new_database)
        async with stack(folder(tmp_path, seconds), url, {"game": {**PATIENT, "LEASE_SECONDS": "2"}}) as made:
            table = await Table.create(
                made, deals=scripted(DRAWING), time_control=time_control(1_000, 30_000)
            )
            await table.do(play(SOUTH, "6|6"))
            await table.do(Draw(NORTH))
            for name in ("game", "clock"):
                made.processes[name].kill()
            began = clock()
            await asyncio.sleep(seconds)
            dead = clock() - began
            await made.start("clock", "game")
            if seconds > 30:
                await void_as(table, "gap_too_long")
                return
            assert await (await asked(table, Draw(NORTH))) == ""
            print(f"dead for {dead:.3f} s, credited {await credited(table):.3f} s")
            assert await credited(table) >= dead
            await reproduced(table)

    await asyncio.gather(die(25.0), die(31.0))
