"""Cases from the field about processes and their surroundings: streams without number, a stop under load, a database
that takes no writes."""

from __future__ import annotations

import asyncio
import signal
from typing import Any, Final

import grpc
import pytest

from client.errors import CallError, from_rpc
from engine.seats import NORTH, SEATS
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.bench.usage import resident_megabytes
from tests.drains import samples
from tests.engine.tables import play
from tests.growth import open_and_cancel, reset_links
from tests.integration.timing import FORCED
from tests.seats import Table, Watching, eventually, new_id, scripted
from tests.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")

TABLES: Final = 13
STREAMS_EACH: Final = 8
"""Of each player: more than 200 in all."""
COPIES: Final = 4
"""Of each command: more than 50 in flight."""
SERVICES: Final = ("game", "matchmaking")
DROPPED, RESETS = 300, 60
"""Streams and links in a round."""
KEPT_KB: Final = 4.0
"""Less than a stream and its call are: one that is open holds some 20 KB."""


async def answered(table: Table, request: pb.SubmitRequest) -> pb.Applied | None:
    """The answer to a command; None when it must be sent again. A refusal fails."""
    try:
        return await table.send(NORTH, request)
    except CallError as error:
        if error.retryable:
            return None
        raise


async def test_fc_79_a_stop_under_load_loses_no_command_and_leads_every_stream_away(own: Stack) -> None:
    """FC-79: SIGTERM with 208 open streams and 52 commands in flight, each of 13 four times. The process ends in order; each
    stream ends with `reconnect`; each command is answered, or asked for again, and then has one effect."""
    deals = scripted(FORCED)
    tables = await asyncio.gather(*(Table.create(own, deals=deals) for _ in range(TABLES)))
    streams = [await table.events(seat) for table in tables for seat in SEATS for _ in range(STREAMS_EACH)]
    await asyncio.gather(*(stream.read() for stream in streams))
    requests = [
        table.request(play(NORTH, "6|6"), (await table.view(NORTH)).prompt.decision_id) for table in tables
    ]
    game = own.processes["game"]
    # What is heard cannot be stored, so that it is in flight however slow or fast this machine is.
    holder = await own.database()
    async with holder.transaction():
        await holder.execute("lock table match_log in exclusive mode")
        sending = [
            asyncio.create_task(answered(table, request))
            for table, request in zip(tables, requests, strict=True)
            for _ in range(COPIES)
        ]

        async def waits() -> bool:
            return bool(
                await own.pool.fetchval(
                    "select exists (select from pg_locks where relation = 'match_log'::regclass and not granted)"
                )
            )

        await eventually(waits)
        assert not any(task.done() for task in sending)
        game.signal(signal.SIGTERM)
    await holder.close()
    told = await asyncio.gather(*sending)

    async def last(stream: Watching) -> bool:
        return (await stream.to_the_end())[-1].HasField("reconnect")

    assert all(await asyncio.gather(*(last(stream) for stream in streams)))
    assert await game.ended() == 0
    assert not [line for line in game.events() if line.get("event") == "drain_cut_short"]
    await own.start("game")
    again: dict[str, pb.Applied] = {}

    async def all_answered() -> bool:
        for table, request in zip(tables, requests, strict=True):
            if request.request_id not in again and (answer := await answered(table, request)) is not None:
                again[request.request_id] = answer
        return len(again) == len(requests)

    await eventually(all_answered)
    for number, request in enumerate(requests):
        before = {
            str(answer) for answer in told[COPIES * number : COPIES * (number + 1)] if answer is not None
        }
        assert before <= {str(again[request.request_id])}
    stored = await own.pool.fetch(
        "select request_id from match_log where match_id = any($1::uuid[]) and request_id = any($2)",
        [table.match_id for table in tables],
        [request.request_id for request in requests],
    )
    assert sorted(row["request_id"] for row in stored) == sorted(request.request_id for request in requests)


async def test_fc_82_a_database_that_takes_no_writes_is_left_and_found_again(own: Stack) -> None:
    """FC-82: new connections lead to where nothing can be written. UNAVAILABLE with a time to come back, and not ready.
    Then the way is right again, which the connections that are open do not know: they are given up, and all is well."""
    stubs: Any = own.matches()
    (player,) = await own.players(1)
    name = await own.pool.fetchval("select current_database()")
    before = {service: len(own.processes[service].events()) for service in SERVICES}

    def ready(service: str) -> bool | None:
        said = [
            line["ready"]
            for line in own.processes[service].events()[before[service] :]
            if line.get("event") == "readiness"
        ]
        return said[-1] if said else None

    async def all_are(wanted: bool) -> bool:
        return all(ready(service) is wanted for service in SERVICES)

    request = pb.CreateMatchRequest(request_id=new_id(), same_device=True)
    async with own.pool.acquire() as connection:
        await connection.execute(f"alter database {name} set default_transaction_read_only = on")
        await connection.execute(
            """
            select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and application_name = any($1)
            """,
            SERVICES,
        )
        try:
            await eventually(lambda: all_are(False))
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stubs.CreateMatch(request, metadata=player.metadata)
            error = from_rpc(refused.value)
            assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "TRY_AGAIN")
            assert error.retry_after_seconds
        finally:
            await connection.execute(f"alter database {name} reset default_transaction_read_only")
    await eventually(lambda: all_are(True))
    assert (await stubs.CreateMatch(request, metadata=player.metadata)).match_id
    await own.pool.expire_connections()


async def test_fc_77_streams_and_links_that_were_dropped_leave_nothing(shared: Stack) -> None:
    """FC-77, in small: rounds of streams that are opened and cancelled, and of links that are reset. What the processes
    have grown by in the later rounds is a fraction of what each stream and link would need to be kept. `make long` has
    the 5,000 streams and 1,000 links that the case asks for."""
    table = await Table.create(shared)
    spectators = [shared.spectator() for _ in range(DROPPED // 5)]

    async def round_of_both() -> dict[str, float]:
        await open_and_cancel(shared, table.match_id, spectators, DROPPED)
        await reset_links(shared, RESETS)
        await eventually(lambda: no_streams(shared, watching))
        return {name: resident_megabytes(shared.processes[name].pid) for name in ("game", "clock")}

    watching = await streams(shared)
    first, _, last = [await round_of_both() for _ in range(3)]
    grown = {name: (last[name] - first[name]) * 1024 for name in first}
    print(grown)
    assert grown["game"] < 2 * DROPPED * KEPT_KB
    assert grown["clock"] < 2 * RESETS * KEPT_KB


async def streams(made: Stack) -> float:
    """Watch streams that are open on the game process."""
    return sum(
        value
        for name, labels, value in await samples(made, "game")
        if name == "spectacular_bid_streams" and labels["grpc_method"] == "Watch"
    )


async def no_streams(made: Stack, before: float) -> bool:
    """Whether there are no more than before."""
    return await streams(made) <= before
