"""The dispute procedure: a match is worked out again from what is stored, and whatever was altered is found."""

# ruff: noqa: S608 - statements made of the constants below

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from engine.command import Draw
from engine.seats import NORTH, SOUTH
from services.clock.explanation import Explanation, explain
from services.storage.evidence import TimeFacts, get_time_facts, read_time_facts
from services.storage.script import start_of
from tests.engine.tables import deal, play
from tests.seats import Table, scripted
from tests.stack import Stack, time_control

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def disputed(shared: Stack) -> AsyncIterator[Table]:
    """A match with a draw, a pause of the game process that is credited, a bank that pays, and a forfeit."""
    drawing = deal("0|0 0|1 0|2 1|1 1|2 2|2 0|3", "6|6 5|5", "1|3 0|6")
    table = await Table.create(shared, deals=scripted(drawing), time_control=time_control(4000, 400))
    await table.do(play(SOUTH, "6|6"))
    await table.do(Draw(NORTH))
    game = shared.processes["game"]
    game.signal(signal.SIGSTOP)
    await asyncio.sleep(0.4)  # the pause itself
    game.signal(signal.SIGCONT)
    # What comes before the process has looked around is dated to before its pause, and then there is nothing to credit.
    await asyncio.sleep(0.5)
    await table.do(Draw(NORTH))
    await asyncio.sleep(0.6)  # longer than the delay: the bank pays
    await table.do(play(NORTH, "0|6", "6|6 line_a"))
    await table.until_over()
    yield table


def worked_out(facts: TimeFacts | None) -> Explanation:
    """As the command line does it."""
    assert facts is not None
    return explain(
        facts, start_of(facts.script, facts.bank_ns, facts.delay_ns, same_device=facts.same_device)
    )


async def command(table: Table, match_id: str | None = None, url: str | None = None) -> tuple[int, str]:
    """`python -m services.clock explain`: its status and what it printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.clock", "explain", match_id or table.match_id),
        *("--database-url", url or table.stack.database_url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=os.environ,
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


async def test_a_match_is_explained(disputed: Table) -> None:
    """Invariant I23: every verdict, the credit with its incident, and the forfeit with its proof."""
    connection = await disputed.stack.database()
    made = worked_out(await get_time_facts(connection, disputed.match_id))
    assert made.faults == []
    assert len(made.lines) == 4
    assert max(line.charge_ns for line in made.lines) > 0
    assert sum(line.credited_ns for line in made.lines) > 300_000_000
    status, shown = await command(disputed)
    assert status == 0
    shown = " ".join(shown.split())
    for wanted in ("reproduced: 4 verdicts", "incident: stall", "north by time", "proven by watermark"):
        assert wanted in shown


async def test_what_cannot_be_read_is_said_in_one_line(disputed: Table) -> None:
    """Status 2: no such match, no database."""
    status, shown = await command(disputed, "00000000-0000-4000-8000-000000000000")
    assert (status, shown.count("\n")) == (2, 1)
    status, shown = await command(disputed, url="postgresql://nobody@127.0.0.1:1/none")
    assert (status, shown.count("\n")) == (2, 1)


PLAYED = "match_id = $1 and start_ns is not null"
LAST = f"revision = (select max(revision) from match_log where {PLAYED}) and {PLAYED}"
EVIDENCE = "match_id = $1 and kind = 'timeout'"


def evidence(name: str, change: str) -> str:
    """Alters one number of the evidence."""
    return (
        f"update clock_evidence set detail = jsonb_set(detail, '{{{name}}}',"
        f" to_jsonb((detail ->> '{name}')::bigint {change})) where {EVIDENCE}"
    )


TAMPERINGS = {
    "a charge": f"update match_log set charge_ns = charge_ns + 1 where {LAST}",
    "a bank": f"update match_log set bank_after_ns = bank_after_ns - 1 where {LAST}",
    "an arrival": f"update match_log set arrive_ns = arrive_ns + 1 where {LAST}",
    "a start": f"update match_log set start_ns = start_ns - 1 where {LAST}",
    "an arrival after the deadline": f"update match_log set arrive_ns = start_ns + 4400000000 where {LAST}",
    "time used": f"update match_log set elapsed_ns = elapsed_ns - 1 where {LAST}",
    "time carried on": f"update match_log set carried_ns = carried_ns + 1 where {LAST}",
    "time carried over": f"update match_log set consumed_ns = consumed_ns + 1 where {LAST}",
    "a credit": f"update match_log set credited_ns = credited_ns + 1 where {LAST}",
    "stamps that are gone": f"update match_log set start_ns = null where {LAST}",
    "a stamp that is gone": f"update match_log set arrive_ns = null where {LAST}",
    "what was told": (
        f"update match_log set events = jsonb_set(events, '{{0,charge_ns}}', '1') where {LAST}"
    ),
    "the policy": f"update match_log set policy_version = 'v0' where {LAST}",
    "a fence that goes down": "update match_log set fence = 7 where match_id = $1 and revision = 3",
    "a ruling that is gone": "delete from match_log where match_id = $1 and revision = 4",
    "the last ruling": (
        "delete from match_log where match_id = $1 and revision ="
        " (select max(revision) from match_log where match_id = $1)"
    ),
    "a ruling that was never made": (
        "update match_log set events = first.events,"
        " last_sequence = first_sequence + jsonb_array_length(first.events) - 1"
        " from (select events from match_log where match_id = $1 and revision = 1) first"
        f" where {LAST}"
    ),
    "an incident's credit": "update incident_match set credited_ns = 0 where match_id = $1",
    "an incident's effect": "update incident_match set effect = 'continued' where match_id = $1",
    "an incident that is gone": "delete from incident_match where match_id = $1",
    "the winner": (
        "update match_outcome set winner = case winner when 'north' then 'south' else 'north' end"
        " where match_id = $1"
    ),
    "the cause": "update match_outcome set cause = 'resignation' where match_id = $1",
    "a void out of nothing": (
        "update match_outcome set cause = 'void', winner = null, detail = 'operator' where match_id = $1"
    ),
    "the proof": evidence("proof_ns", "- 10000000000"),
    "the deadline": evidence("deadline_ns", "- 1"),
    "the start of the lost turn": evidence("start_ns", "- 1"),
    "the bank of the lost turn": evidence("bank_ns", "- 1"),
    "time used of the lost turn": evidence("consumed_ns", "+ 1"),
    "the credit of the lost turn": evidence("credited_ns", "+ 1"),
    "who lost": (
        "update clock_evidence set detail = jsonb_set(detail, '{seat}',"
        f" case detail ->> 'seat' when 'north' then '\"south\"'::jsonb else '\"north\"'::jsonb end) where {EVIDENCE}"
    ),
    "a fact that is gone": f"update clock_evidence set detail = detail - 'proof_ns' where {EVIDENCE}",
}


@pytest.mark.parametrize("statement", TAMPERINGS.values(), ids=TAMPERINGS.keys())
async def test_what_was_altered_is_found(disputed: Table, statement: str) -> None:
    """Invariant I23: it fails loudly when it cannot reproduce something."""
    connection = await disputed.stack.database()
    transaction = connection.transaction()
    await transaction.start()
    try:
        # What comes past triggers and privileges.
        await connection.execute("set local session_replication_role = replica")
        done = await connection.execute(statement, disputed.match_id)
        assert not done.endswith(" 0"), "nothing was altered"
        facts = await read_time_facts(connection, disputed.match_id)
    finally:
        await transaction.rollback()
        await connection.close()
    assert worked_out(facts).faults != []


async def test_the_command_fails_loudly(disputed: Table) -> None:
    """Status 1, and the fault in words."""
    pool = disputed.stack.pool
    await pool.execute(f"update match_log set charge_ns = charge_ns + 1 where {LAST}", disputed.match_id)
    try:
        status, shown = await command(disputed)
    finally:
        await pool.execute(f"update match_log set charge_ns = charge_ns - 1 where {LAST}", disputed.match_id)
    assert status == 1
    assert "NOT REPRODUCED" in shown
    assert "reproduced: " not in shown
