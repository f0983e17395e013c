"""What a command and a live match cost each process: processor time and memory, for sizing.

Processor time is counted, not waited for, so other work on the machine changes it little. A clock, a game process,
matchmaking and a PostgreSQL with fsync; bots answer as soon as they are asked. Run with `python -m tests.bench.costs`.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import grpc
from rich.console import Console
from rich.table import Table

from engine.seats import BySeat
from services.local.postgres import EmbeddedPostgres
from services.storage.migrate import migrate
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import match_service_pb2_grpc
from tests.bench.stack import Tally, keep_playing, known_players
from tests.bench.usage import family_seconds, postmaster_of, processor_seconds, resident_megabytes
from tests.stack import Player, Stack, stack

PLAYING = (20, 50)
SECONDS = 10.0
WARMUP_SECONDS = 3.0
LOOKED_AT = 600
"""Matches that live, each with two streams on connections of their own."""
STEP = 200
SERVICES = ("game", "clock", "matchmaking")


def spent(made: Stack, postmaster: int) -> dict[str, float]:
    """Processor time of all processes until now."""
    seconds = {name: processor_seconds(made.processes[name].pid) for name in SERVICES}
    return {**seconds, "postgres": family_seconds(postmaster)}


async def commands(made: Stack, postmaster: int, table: Table) -> None:
    """A row for each number of matches that play as fast as they can."""
    for matches in PLAYING:
        tally = Tally()
        await known_players(made, matches)
        tasks = [asyncio.create_task(keep_playing(made, number, tally)) for number in range(matches)]
        try:
            await asyncio.sleep(WARMUP_SECONDS)
            before, tally.counting = spent(made, postmaster), True
            await asyncio.sleep(SECONDS)
            after, count = spent(made, postmaster), len(tally.latencies)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        costs = [f"{(after[name] - before[name]) / count * 1000:.2f}" for name in before]
        table.add_row(str(matches), f"{count / SECONDS:,.0f}", *costs)


async def watch(made: Stack, player: Player, match_id: str) -> None:
    """One stream on a connection of its own, until cancelled."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(made.address("game"), options=options) as channel:
        stub = match_service_pb2_grpc.MatchServiceStub(channel)
        async for _ in stub.Watch(pb.WatchRequest(match_id=match_id), metadata=player.metadata):
            pass


async def matches(made: Stack, table: Table) -> None:
    """A row for each STEP of live matches."""
    streams: list[asyncio.Task[None]] = []
    try:
        for count in range(0, LOOKED_AT + 1, STEP):
            if count:
                players = await made.players(2 * STEP)
                for north, south in zip(players[::2], players[1::2], strict=True):
                    match_id = await made.create(BySeat(north, south))
                    streams += [asyncio.create_task(watch(made, one, match_id)) for one in (north, south)]
                await asyncio.sleep(1)
            memory = [f"{resident_megabytes(made.processes[name].pid):.0f}" for name in SERVICES]
            table.add_row(str(count), *memory)
    finally:
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)


async def measure(console: Console) -> None:
    """Both tables."""
    costs = Table(title="Processor time a command, ms")
    for column in ("matches", "commands/s", *SERVICES, "postgres"):
        costs.add_column(column, justify="right")
    memory = Table(title="Memory, MB")
    for column in ("live matches", *SERVICES):
        memory.add_column(column, justify="right")
    with (
        tempfile.TemporaryDirectory(prefix="spectacular-bid-costs-") as folder,
        EmbeddedPostgres(Path(folder) / "postgres", durable=True) as server,
    ):
        migrate(server.url)
        for name in ("matches", "commands"):
            place = Path(folder) / name
            place.mkdir()
            async with stack(place, server.url) as made:
                if name == "matches":
                    await matches(made, memory)
                else:
                    await commands(made, postmaster_of(Path(folder)), costs)
    console.print(costs, memory)


if __name__ == "__main__":
    asyncio.run(measure(Console()))
