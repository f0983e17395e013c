"""A lock that somebody else holds is not waited for without end: the caller is told when to come again."""

from __future__ import annotations

import uuid

import grpc
import pytest

from client.errors import from_rpc
from engine.seats import BySeat
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.seats import new_id
from tests.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_call_that_meets_a_lock_is_told_to_come_again(shared: Stack) -> None:
    """UNAVAILABLE with RetryInfo as soon as the limit of the role is over, and nothing was made. Afterwards it works."""
    one, two = await shared.players(2)
    request = pb.CreateMatchRequest(request_id=new_id(), player_id=two.player_id)
    other = await shared.database()
    busy = other.transaction()
    await busy.start()
    match_id = uuid.uuid4()
    await other.execute(
        """
        insert into match (match_id, mode, rated, north, south, bank_ns, delay_ns, start_limit_ns, continue_limit_ns)
        values ($1, 'created', false, $2, $3, 1, 1, 1, 1)
        """,
        match_id,
        one.player_id,
        two.player_id,
    )
    # Nobody knows yet whether the player is seated.
    await other.execute(
        "insert into live_seat (player_id, match_id) values ($1, $2)", one.player_id, match_id
    )
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        # Without a limit it would wait for as long as the lock is held.
        await shared.matches().CreateMatch(request, metadata=one.metadata, timeout=60)
    error = from_rpc(refused.value)
    assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "TRY_AGAIN")
    assert error.retry_after_seconds
    told = [line for line in shared.processes["game"].events() if line.get("event") == "call_unavailable"]
    assert told[-1]["error"] == "LockNotAvailableError", "not the limit ended it, but something later"
    await busy.rollback()
    assert await shared.pool.fetchval("select count(*) from match where created_by = $1", one.player_id) == 0
    assert await shared.create(BySeat(one, two))
