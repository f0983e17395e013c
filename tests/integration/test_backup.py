"""A backup is taken under way, restored, checked, compacted and played on; whatever was damaged in it is found."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

from engine.command import Resign
from engine.seats import NORTH, SEATS, SOUTH
from services.local.postgres import find_binaries
from services.ops.check import look
from services.storage.pool import Connection
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.integration.operators import WHY, explained, ops
from tests.roles import url_as
from tests.seats import Table, eventually, legal_commands
from tests.stack import Stack, time_control

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVERYTHING = 1_000_000
DAMAGES = {
    "a hole": ("delete from match_log where match_id = $1 and revision = 2", "has no holes"),
    "a lost end": (
        """
        delete from match_log l where match_id = $1
            and revision = (select max(revision) from match_log r where r.match_id = l.match_id)
        """,
        "which says that it ended",
    ),
    "a lost log": ("delete from match_log where match_id = $1", "which says that it ended"),
    "another winner": (
        "update match_outcome set winner = case winner when 'north' then 'south' else 'north' end where match_id = $1",
        "the outcome row says",
    ),
    "other points": (
        """
        update match_outcome set north_balance = south_balance + 5, south_balance = north_balance - 5
        where match_id = $1
        """,
        "the outcome has the points",
    ),
    "another charge": (
        "update match_log set charge_ns = charge_ns + 1 where match_id = $1 and charge_ns is not null",
        "worked out",
    ),
    "another rating": (
        "update rating set mu = mu + 1 where player_id in (select north from match where match_id = $1)",
        "the ladder differs: player",
    ),
    "another decision": (
        "update rating_decision set north_mu_after = north_mu_after + 1 where match_id = $1",
        "the ladder differs: match",
    ),
    "a seat that is not free": (
        "insert into live_seat (player_id, match_id) select north, match_id from match where match_id = $1",
        "in a match that is not over",
    ),
    "an owner of a match that is over": (
        "update match_owner set released_at = null where match_id = $1",
        "has an owner until it is over",
    ),
}


async def started(*command: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )


async def said(process: asyncio.subprocess.Process) -> str:
    """What a command that succeeds prints."""
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()


async def postgres(program: str, *arguments: str) -> None:
    await said(await started(str(find_binaries() / program), *arguments))


async def compact(connection: Connection, url: str) -> None:
    """Moves all logs; the first time it is asked to stop when it has just begun."""
    command = (
        sys.executable,
        "-m",
        "services",
        "compact",
        "--days",
        "0",
        "--database-url",
        url_as("archiver", url),
    )
    slow = await started(*command, "--rate", "0.001")

    async def begun() -> bool:
        return bool(await connection.fetchval("select exists (select from match_archive)"))

    await eventually(begun)
    slow.terminate()
    assert "1 matches moved" in await said(slow)
    assert "2 matches moved" in await said(await started(*command))
    assert await connection.fetchval("select count(*) from match_archive") == 3


async def rated(made: Stack) -> Table:
    """A match for the ladder in which somebody has moved."""
    table = await Table.create(made)
    await made.pool.execute(
        "update match set mode = 'rated', rated = true where match_id = $1", table.match_id
    )
    seat = (await made.state(table.match_id)).to_act
    assert seat is not None
    asked = (await table.view(seat)).prompt
    request = table.request(Resign(seat), asked.decision_id)
    request.command.CopyFrom(legal_commands(asked.legal)[0])
    await table.send(seat, request)
    return table


async def waits(made: Stack) -> Table:
    """A match in which nobody has pressed Start, for as long as the test may take."""
    return await Table.create(made, start=False, start_limit_ms=3_600_000)


async def record(table: Table) -> str:
    answer = await table.stub.GetRecord(
        pb.GetRecordRequest(match_id=table.match_id), metadata=table.players[NORTH].metadata
    )
    return str(answer.record)


async def damaged(connection: Connection, statement: str, match_id: str) -> list[str]:
    """The faults that are found when a statement has done its damage, which is then undone."""
    damage = connection.transaction()
    await damage.start()
    try:
        # Damage does not come through constraints.
        await connection.execute("set local session_replication_role = replica")
        assert await connection.execute(statement, match_id) not in ("UPDATE 0", "DELETE 0")
        return (await look(connection, EVERYTHING)).faults
    finally:
        await damage.rollback()


async def test_a_backup_is_restored_checked_compacted_and_played_on(
    fresh: Stack, empty_database_url: str, tmp_path: Path
) -> None:
    """What was committed is all there; live matches go on, or are void with evidence when their turn was away too long."""
    won, voided, waiting = await rated(fresh), await rated(fresh), await waits(fresh)
    playing, late = await Table.create(fresh), await Table.create(fresh, time_control=time_control(0, 100))
    resign = won.request(Resign(SOUTH), (await won.view(SOUTH)).prompt.decision_id)
    answer = await won.send(SOUTH, resign)
    await ops(fresh, "match", "void", voided.match_id, *WHY)
    for table in (late, voided):
        await table.until_over()

    async def all_decided() -> bool:
        return bool(await fresh.pool.fetchval("select count(*) = 3 from rating_decision"))

    await eventually(all_decided)
    told = {table.match_id: await record(table) for table in (won, late)}
    dump = str(tmp_path / "dump")
    await postgres("pg_dump", "--format=custom", "--file", dump, fresh.database_url)
    # Of what comes after the backup the restored database knows nothing.
    await playing.do(Resign(NORTH))
    for process in fresh.processes.values():
        process.kill()

    fresh.database_url = empty_database_url
    await postgres("pg_restore", "--exit-on-error", "--no-owner", "--dbname", empty_database_url, dump)
    assert re.search(r"3 finished and 2 live .* consistent", await ops(fresh, "check"))
    connection = await fresh.database()
    for name, (statement, fault) in DAMAGES.items():
        found = await damaged(connection, statement, won.match_id)
        assert any(fault in each for each in found), (name, found)
    script = "update match set script = '{}' where match_id = $1"
    found = await damaged(connection, script, waiting.match_id)
    assert any(f"match {waiting.match_id}: the stored script makes no sense" in each for each in found)
    await connection.execute("update rating set rated_matches = rated_matches + 1")
    assert "the ladder differs" in await ops(fresh, "check", status=1)
    await connection.execute("update rating set rated_matches = rated_matches - 1")

    await compact(connection, empty_database_url)
    assert "consistent" in await ops(fresh, "check", "--newest", "0")
    swapped = "update match_archive set data = (select data from match_archive where match_id <> $1 limit 1)"
    found = await damaged(connection, f"{swapped} where match_id = $1", won.match_id)
    assert f"match {won.match_id}: the archive is not what was stored: its checksum differs" in found

    # As if the backup had been restored a while after it was taken.
    await connection.execute("update engine_lease set renewed_at = renewed_at - interval '40 seconds'")
    await connection.execute("update match_log set at = at - interval '40 seconds'")
    await fresh.start(*fresh.processes)
    for table in (won, late):
        assert await record(table) == told[table.match_id]
    await explained(fresh, late.match_id)
    assert (await won.view(NORTH)).HasField("outcome")
    # The request still has the answer it had, for the life of the match and after.
    assert await won.send(SOUTH, resign) == answer
    await playing.until_over()
    await waiting.start()
    for seat in SEATS:
        assert not (await waiting.view(seat)).HasField("outcome")
    outcome = await connection.fetchrow(
        "select cause, evidence_id from match_outcome where match_id = $1", playing.match_id
    )
    assert outcome is not None
    assert outcome["cause"] == "void"
    assert outcome["evidence_id"] is not None
    assert re.search(r"4 finished and 1 live .* consistent", await ops(fresh, "check"))
