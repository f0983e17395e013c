"""The pump rule (R4): whoever reads a client's stream reads, stamps and passes on, and awaits nothing between two reads."""

from __future__ import annotations

import ast
import asyncio
import inspect
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import pytest

from engine.clock import MILLISECOND
from services.game.livetime import LiveTime
from services.game.rpc import MatchServicer
from tests.services.clock.engines import run_live

COUNT = 5
Reader = Callable[[AsyncIterator[bytes], Callable[[], None]], Awaitable[None]]


async def pumps(requests: AsyncIterator[bytes], stamp: Callable[[], None]) -> None:
    """As the service does it: what a command needs is the business of another task."""
    async for _ in requests:
        stamp()


async def carries_out(requests: AsyncIterator[bytes], stamp: Callable[[], None]) -> None:
    """As it must not be: each command waits for its verdict and its commit before the next one is read."""
    async for _ in requests:
        stamp()
        await asyncio.sleep(0.1)


def stamps_of(reader: Reader) -> tuple[list[int], int]:
    """The stamps of commands that were all sent at once over a real stream, and the gaps meanwhile."""
    live = LiveTime()

    async def main(_: LiveTime) -> tuple[list[int], int]:
        stamps: list[int] = []
        done = asyncio.Event()

        async def play(requests: AsyncIterator[bytes], context: Any) -> None:
            await reader(requests, lambda: stamps.append(live.heard().at_ns))
            done.set()

        server = grpc.aio.server()
        handlers: dict[str, Any] = {"Play": grpc.stream_stream_rpc_method_handler(play)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Pump", handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stream: Any = channel.stream_stream("/test.Pump/Play")
            call = stream()
            for number in range(COUNT):
                await call.write(b"%d" % number)
            await call.done_writing()
            async with asyncio.timeout(20):
                await done.wait()
        await server.stop(0)
        return stamps, live.gap_total_ns

    return run_live(main, live)


def assert_dated_to_their_arrival(stamps: list[int], gaps_ns: int) -> None:
    """Sent together, stamped together: live time leaves out what the process did not listen for."""
    assert len(stamps) == COUNT
    assert stamps[-1] - stamps[0] < 150 * MILLISECOND, f"{stamps[-1] - stamps[0]} ns late, gaps {gaps_ns} ns"


def test_commands_are_stamped_when_they_arrive() -> None:
    """Rule R4."""
    assert_dated_to_their_arrival(*stamps_of(pumps))


def test_a_reader_that_waits_between_reads_is_caught() -> None:
    """Scenario 20: the loop is idle all the time, so no gap excuses it; only the rule prevents it."""
    stamps, gaps_ns = stamps_of(carries_out)
    assert stamps[-1] - stamps[0] > 300 * MILLISECOND > gaps_ns
    with pytest.raises(AssertionError, match="late"):
        assert_dated_to_their_arrival(stamps, gaps_ns)


def test_the_pump_of_the_service_awaits_nothing_between_two_reads() -> None:
    """Scenario 20, in the code itself: the loop over a Play stream has no await, and Submit stamps before its first."""
    source = ast.parse(textwrap.dedent(inspect.getsource(MatchServicer._pump)))
    (loop,) = [node for node in ast.walk(source) if isinstance(node, ast.AsyncFor)]
    waits = (ast.Await, ast.AsyncFor, ast.AsyncWith)
    assert [node for part in loop.body for node in ast.walk(part) if isinstance(node, waits)] == []
    (submit,) = ast.parse(textwrap.dedent(inspect.getsource(MatchServicer.Submit))).body
    assert isinstance(submit, ast.AsyncFunctionDef)
    before = [
        node
        for statement in submit.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Await) or (isinstance(node, ast.Attribute) and node.attr == "heard")
    ]
    assert isinstance(before[0], ast.Attribute), "the stamp comes before the first await"
