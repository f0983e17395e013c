"""Whoever is about to lose tries everything that a client can do: the clock runs on, and the result counts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import grpc
import pytest

from client.session import RATED
from engine.seats import NORTH, SEATS, SOUTH, BySeat
from services.storage.script import Script
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import match_service_pb2_grpc as pb_grpc
from tests.drains import samples
from tests.integration.timing import FORCED, is_over, reproduced
from tests.seats import Table, eventually, new_id
from tests.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")

METHOD: Final = "/spectacularbid.match.v1.MatchService/"
BANK_MS, DELAY_MS = 700, 900
PATIENCE_SECONDS: Final = 0.5
"""How long a call waits: a refusal because of a limit is told later than that."""
OWN_CHANNEL: Final = [("grpc.use_local_subchannel_pool", 1)]


@asynccontextmanager
async def hastened(made: Stack) -> AsyncIterator[None]:
    """Rated matches in which north has five points left and must open, and nobody has much time.

    Rated ones are all alike, which the database holds; what has been made this way stays.
    """
    script = Script(balances=(5, 295), deals=(FORCED,)).dump()
    rule = await made.pool.fetchval(
        "select pg_get_constraintdef(oid) from pg_constraint where conname = 'match_rated_conditions'"
    )
    await made.pool.execute(
        f"""
        alter table match drop constraint match_rated_conditions;
        create function hasten() returns trigger language plpgsql as $$
        begin
            new.bank_ns := {BANK_MS} * 1000000; new.delay_ns := {DELAY_MS} * 1000000; new.script := '{script}';
            return new;
        end $$;
        create trigger hasten before insert on match for each row execute function hasten()
        """
    )
    try:
        yield
    finally:
        await made.pool.execute(
            f"drop function hasten cascade; alter table match add constraint match_rated_conditions {rule} not valid"
        )


Channel = grpc.aio.Channel
Abuse = Callable[[Table, Channel], Awaitable[int]]
"""Goes on until the match is over, on a connection of its own; how often it did it."""


async def vanish(table: Table, channel: Channel) -> int:
    """The plug is pulled."""
    call = await joined(table, channel)
    await call.read()
    await channel.close()
    return 1


async def reset(table: Table, channel: Channel) -> int:
    """Streams and calls are cancelled as soon as they are made."""
    stub: Any = pb_grpc.MatchServiceStub(channel)
    metadata = table.players[NORTH].metadata
    count = 0
    while not await is_over(table):
        for call in (
            stub.Watch(pb.WatchRequest(match_id=table.match_id), metadata=metadata),
            stub.Play(metadata=metadata),
            stub.GetMatch(pb.GetMatchRequest(match_id=table.match_id), metadata=metadata),
        ):
            call.cancel()
            count += 1
    return count


async def half_close(table: Table, channel: Channel) -> int:
    """Nothing more will come on this stream, which is read to its end."""
    call = await joined(table, channel)
    await call.done_writing()
    while await call.read() is not grpc.aio.EOF:
        pass
    return 1


async def garbage(table: Table, channel: Channel) -> int:
    """Bytes that are no message, as a call, on a stream, and in place of HTTP/2."""
    metadata = table.players[NORTH].metadata
    host, _, port = table.stack.address("game").rpartition(":")
    count = 0
    while not await is_over(table):
        call: Any = channel.stream_stream(f"{METHOD}Play")(metadata=metadata, timeout=PATIENCE_SECONDS)
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await call.write(b"\xff" * 100)
            await call.read()
        call.cancel()
        ask: Any = channel.unary_unary(f"{METHOD}Submit")
        await refused(ask(b"\x0a\xff\xff\xff\xff\xff", metadata=metadata, timeout=PATIENCE_SECONDS))
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"\x00\xff" * 1000)
        writer.close()
        count += 3
    return count


async def oversize(table: Table, channel: Channel) -> int:
    """Messages and headers that are far too large."""
    metadata = table.players[NORTH].metadata
    ask: Any = channel.unary_unary(f"{METHOD}Submit")
    get: Any = channel.unary_unary(f"{METHOD}GetMatch")
    count = 0
    while not await is_over(table):
        await refused(
            ask(b"\x12\xff\xff\x3f" + b"x" * (1 << 20), metadata=metadata, timeout=PATIENCE_SECONDS)
        )
        more = (*metadata, ("x-more", "x" * 30_000))
        await refused(get(b"", metadata=more, timeout=PATIENCE_SECONDS))
        count += 2
    return count


async def reconnect(table: Table, channel: Channel) -> int:
    """Connections, each for one look at the match."""
    count = 0
    while not await is_over(table):
        async with grpc.aio.insecure_channel(table.stack.address("game"), options=OWN_CHANNEL) as own:
            with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                await (await joined(table, own, timeout=PATIENCE_SECONDS)).read()
        count += 1
    return count


async def impersonate(table: Table, channel: Channel) -> int:
    """Tokens that are wrong, for the own seat and for the other one."""
    stub: Any = pb_grpc.MatchServiceStub(channel)
    count = 0
    while not await is_over(table):
        for player in table.players:
            for token in (player.token[:-8] + "AAAAAAAA", "", table.stack.token("somebody")):
                request = pb.SubmitRequest(
                    match_id=table.match_id, request_id=new_id(), command=pb.Command(resign=pb.Resign())
                )
                metadata = (("authorization", f"Bearer {token}"),)
                await refused(stub.Submit(request, metadata=metadata, timeout=PATIENCE_SECONDS))
                count += 1
    return count


async def joined(table: Table, channel: Channel, timeout: float | None = None) -> Any:  # noqa: ASYNC109 - as grpc
    """A Play stream of north."""
    call = pb_grpc.MatchServiceStub(channel).Play(metadata=table.players[NORTH].metadata, timeout=timeout)
    await call.write(pb.PlayRequest(join=pb.WatchRequest(match_id=table.match_id)))
    return call


async def refused(call: Any) -> None:
    """Whatever is said to it, it is not carried out."""
    with pytest.raises(grpc.aio.AioRpcError):
        await call


ABUSES: Final[Sequence[Abuse]] = (vanish, reset, half_close, garbage, oversize, reconnect, impersonate)


async def called(made: Stack, count: int) -> list[Table]:
    """So many rated matches."""
    players = await made.players(2 * count)
    clients = [await made.client(player) for player in players]
    seated: dict[str, dict[Any, Any]] = {}
    for handle, player in zip(
        await asyncio.gather(*(client.seek(RATED) for client in clients)), players, strict=True
    ):
        seated.setdefault(handle.match_id, {})[handle.seat] = player
    return [
        Table(made, match_id, BySeat(*(seats[seat] for seat in SEATS))) for match_id, seats in seated.items()
    ]


async def voids(made: Stack) -> float:
    """How many matches the game process has made void."""
    return sum(
        value for name, _, value in await samples(made, "game") if name == "spectacular_bid_voids_total"
    )


async def test_fc_21_nothing_that_a_client_does_saves_it_from_losing(shared: Stack) -> None:
    """FC-21: A (balance 5) must play and does everything else: vanishes, resets, half-closes, sends garbage and what is too
    large, reconnects, uses wrong tokens. The clock runs on, A loses on time in each rated match, and each is rated. No match
    is void, and nothing is credited that a client has caused."""
    before = await voids(shared)
    async with hastened(shared):
        tables = await called(shared, len(ABUSES))

    async def abused(table: Table, abuse: Abuse) -> int:
        await table.start()
        watching = await table.events(SOUTH)
        await watching.read()
        async with grpc.aio.insecure_channel(shared.address("game"), options=OWN_CHANNEL) as channel:
            count = await abuse(table, channel)
        await watching.to_the_end()
        return count

    counts = await asyncio.gather(*(abused(*pair) for pair in zip(tables, ABUSES, strict=True)))
    print(json.dumps({abuse.__name__: count for abuse, count in zip(ABUSES, counts, strict=True)}))
    for table in tables:
        outcome = await shared.outcome(table.match_id)
        assert outcome is not None
        assert (outcome["winner"], outcome["cause"]) == ("south", "time")
        evidence = (await shared.evidence(table.match_id))["detail"]
        assert evidence["deadline_ns"] - evidence["start_ns"] == (BANK_MS + DELAY_MS) * 1_000_000
        await reproduced(table)
    ids = [table.match_id for table in tables]
    kinds = await shared.pool.fetch(
        "select i.kind from incident_match m join incident i using (incident_id) where m.match_id = any($1::uuid[])",
        ids,
    )
    assert {row["kind"] for row in kinds} <= {"stall", "commit_stalled"}  # of a busy machine

    async def all_rated() -> bool:
        reasons = await shared.pool.fetch(
            "select reason from rating_decision where match_id = any($1::uuid[])", ids
        )
        return [row["reason"] for row in reasons] == ["rated"] * len(ids)

    await eventually(all_rated)
    assert await voids(shared) == before
