"""Processes killed at every step of a command, from outside: by what is seen on the way to the clock and to PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import grpc
import pytest

from client.errors import CallError
from engine.clock import SECOND
from engine.command import Draw
from engine.seats import NORTH, SOUTH
from spectacularbid.internal.clock.v1 import clock_service_pb2 as clock_pb
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.engine.tables import play
from tests.integration.conftest import Tapped
from tests.integration.timing import DRAWING, FORCED, one_row, reproduced
from tests.proxy import Way
from tests.seats import Table, eventually, scripted
from tests.stack import time_control

pytestmark = pytest.mark.asyncio(loop_scope="session")

LONG = time_control(60_000, 20_000)
"""Nobody is late here, and nobody's bank pays."""


def arrival_is_lost(tapped: Tapped, _request_id: str, kill: Callable[[], None]) -> None:
    """Read, and the clock never hears of it."""

    def saw(_way: Way, message: object) -> bool:
        if isinstance(message, clock_pb.Arrival):
            kill()
            return False
        return True

    tapped.clock.saw = saw


def verdict_is_lost(tapped: Tapped, _request_id: str, kill: Callable[[], None]) -> None:
    """Judged, and nobody hears the verdict."""

    def saw(_way: Way, message: object) -> bool:
        if isinstance(message, clock_pb.Verdict):
            kill()
            return False
        return True

    tapped.clock.saw = saw


def commit_is_lost(tapped: Tapped, request_id: str, kill: Callable[[], None]) -> None:
    """The verdict is heard, and PostgreSQL never sees the ruling."""

    def asked() -> bool:
        kill()
        return False

    tapped.database.request_id, tapped.database.on_asked = request_id, asked


def acknowledgement_is_lost(tapped: Tapped, request_id: str, kill: Callable[[], None]) -> None:
    """Committed, and the process does not know: nothing is published."""

    def stored() -> bool:
        kill()
        return False

    tapped.database.request_id, tapped.database.on_stored = request_id, stored


def next_decision_is_lost(tapped: Tapped, _request_id: str, kill: Callable[[], None]) -> None:
    """Committed and perhaps published, and the clock never hears of the next decision."""

    def saw(_way: Way, message: object) -> bool:
        if isinstance(message, clock_pb.Open) and message.key.decision_no == 2:
            kill()
            return False
        return True

    tapped.clock.saw = saw


def answer_is_lost(tapped: Tapped, _request_id: str, kill: Callable[[], None]) -> None:
    """Everything is done, and the player does not hear the answer."""

    def saw(_way: Way, message: object) -> bool:
        if isinstance(message, pb.SubmitResponse):
            kill()
            return False
        return True

    tapped.answers.saw = saw


@pytest.mark.parametrize(
    ("crash", "stored"),
    [
        (arrival_is_lost, 0),
        (verdict_is_lost, 0),
        (commit_is_lost, 0),
        (acknowledgement_is_lost, 1),
        (next_decision_is_lost, 1),
        (answer_is_lost, 1),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value),
)
async def test_a_crash_at_any_step_of_a_command(
    tapped: Tapped, crash: Callable[[Tapped, str, Callable[[], None]], None], stored: int
) -> None:
    """Scenario 32, faults 9, 12 and 16: SIGKILL of the game process between reading and Arrival, Arrival and Verdict, Verdict
    and commit, commit and publishing, publishing and Open, and before the answer. Either the ruling is there and counts,
    or nobody has heard of it; the same request sent again has its one effect, and nobody pays."""
    made = tapped.stack
    game = made.processes["game"]
    table = await Table.create(made, deals=scripted(FORCED), time_control=LONG)
    watching = await table.events(SOUTH)
    await watching.read()
    before = watching.sequence
    request = table.request(play(NORTH, "6|6"), (await table.view(NORTH)).prompt.decision_id)

    async def listen() -> None:
        with suppress(grpc.aio.AioRpcError):
            await watching.to_the_end()

    listening = asyncio.create_task(listen())
    crash(tapped, request.request_id, game.kill)
    heard = None
    with suppress(CallError):
        heard = await Table(made, table.match_id, table.players, game="answers").send(NORTH, request)
    assert await game.ended() == -9
    await listening
    tapped.clear()
    row = "select count(*) from match_log where match_id = $1 and request_id = $2"
    found = await made.pool.fetchval(row, table.match_id, request.request_id)
    assert found == stored
    # The last message to the clock and the news leave in the same moment: only then may the answer have been quicker.
    assert heard is None or crash is next_decision_is_lost
    last = await one_row(
        made, "select max(last_sequence) as no from match_log where match_id = $1", table.match_id
    )
    # What was heard was stored, and nothing of it was taken back.
    assert before <= watching.sequence <= last["no"]
    await made.start("game")

    applied = pb.Applied()

    async def answered() -> bool:
        nonlocal applied
        try:
            applied = await table.send(NORTH, request)
        except CallError as error:
            if error.reason != "TRY_AGAIN":
                raise
            return False
        return True

    await eventually(answered)
    assert heard in (None, applied)
    entry = await one_row(
        made,
        "select first_sequence, last_sequence, charge_ns, fence from match_log where match_id = $1 and seat = 'north'"
        " and turn is not null",
        table.match_id,
    )
    assert (applied.first_sequence, applied.last_sequence) == (
        entry["first_sequence"],
        entry["last_sequence"],
    )
    assert (entry["charge_ns"], entry["fence"]) == (0, 2 - stored)
    assert await made.pool.fetchval(row, table.match_id, request.request_id) == 1
    await table.do(play(SOUTH, "0|6", "6|6 line_a"))
    again = await table.events(SOUTH, resume_after=watching.sequence)
    await again.until(lambda _: len((again.responses[-1]).events) > 0 and again.sequence > last["no"])
    state = await made.state(table.match_id)
    assert len(state.layout.placements) == 2
    assert tuple(state.banks) == (60 * SECOND, 60 * SECOND)
    await reproduced(table)


async def test_the_game_and_the_clock_die_at_once(tapped: Tapped) -> None:
    """Scenario 38, rule R22, fault 10, below the cap: both are killed in the same moment, in the middle of a turn in which a
    tile was drawn. The database knows what that draw had used and how long nobody was there: the first is carried, the
    second is credited whole."""
    made = tapped.stack
    table = await Table.create(made, deals=scripted(DRAWING), time_control=time_control(500, 20_000))
    await table.do(play(SOUTH, "6|6"))
    await table.do(Draw(NORTH))
    drawn = await one_row(
        made,
        "select consumed_ns from match_log where match_id = $1 and consumed_ns is not null order by revision desc",
        table.match_id,
    )
    for name in ("game", "clock"):
        made.processes[name].kill()
    began = asyncio.get_running_loop().time()
    await asyncio.sleep(2.5)  # past the lease
    dead_ns = int((asyncio.get_running_loop().time() - began) * SECOND)
    await made.start("clock", "game")

    async def seen() -> bool:
        return bool((await table.view(NORTH)).prompt.legal.draw)

    await eventually(seen)
    await table.do(Draw(NORTH))
    row = await one_row(
        made,
        "select carried_ns, credited_ns, fence from match_log where match_id = $1 order by revision desc",
        table.match_id,
    )
    assert (row["carried_ns"], row["fence"]) == (drawn["consumed_ns"], 2)
    assert row["credited_ns"] >= dead_ns
    incident = await one_row(
        made,
        """
        select (i.detail ->> 'gap_ns')::bigint as gap_ns from incident i join incident_match m on m.incident_id = i.incident_id
        where i.kind = 'takeover' and m.match_id = $1
        """,
        table.match_id,
    )
    assert incident["gap_ns"] >= dead_ns
    await reproduced(table)
