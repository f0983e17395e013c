"""The load generator: its HTTP/2 is what a real server understands, and no wait is left out of what a move took."""

from __future__ import annotations

import asyncio
import time
from typing import Any, cast

import grpc
import pytest

from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.bench.echo import stream_of
from tests.bench.http2 import Call, ProtocolError, connect, header_block
from tests.bench.load import Matches, Player

METHOD = "/test.Echo/Both"
LONG = "x" * 700
TIMES = 5
COMMAND = pb.Command(draw=pb.Draw())


class Moves:
    """In place of a player: remembers when its moves were due."""

    def __init__(self) -> None:
        self.due: list[float] = []
        self.call: object = None

    def move(self, decision_id: int, command: pb.Command, due: float) -> None:
        self.due.append(due)


def load_at(pace: float) -> Matches:
    """A load without a service, under way."""
    load = Matches({})
    load._pace = pace
    return load


def turn(load: Matches, moves: Moves) -> None:
    load.turn(cast(Player, moves), 1, COMMAND)


async def test_a_real_server_understands_it_and_it_understands_the_server() -> None:
    met: list[tuple[str, bytes]] = []

    async def echo(_: object, context: Any) -> None:
        (long,) = (value for name, value in context.invocation_metadata() if name == "long")
        while (message := await context.read()) is not grpc.aio.EOF:
            met.append((long, message))
            await context.write(message * TIMES)

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((stream_of(METHOD, echo),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    connection = await connect(f"127.0.0.1:{port}")
    heard: asyncio.Queue[bytes | None] = asyncio.Queue()
    try:
        call = connection.call(METHOD, (("long", LONG),), heard.put_nowait, lambda: heard.put_nowait(None))
        # An empty one, one that comes back in many frames, one of several in a turn of the loop.
        messages = [b"", b"a" * 10_000, b"b", b"c"]
        for message in messages:
            call.send(message, last=message is messages[-1])
        async with asyncio.timeout(30):
            assert [await heard.get() for _ in range(5)] == [*(message * TIMES for message in messages), None]
        assert met == [(LONG, message) for message in messages]
        assert connection.calls == {}
    finally:
        connection.close()
        await server.stop(0)


async def test_it_never_sends_more_than_it_may() -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    connection = await connect(f"127.0.0.1:{port}")
    try:
        call: Call = connection.call(METHOD, (), lambda _: None, lambda: None)
        with pytest.raises(ProtocolError, match="more was sent"):
            call.send(bytes(connection._window))
    finally:
        connection.close()
        await server.stop(0)


def test_a_long_value_has_its_length_in_several_bytes() -> None:
    assert b"\x00\x04long\x7f\xbd\x04" + LONG.encode() in header_block("/a/b", "here", (("long", LONG),))


async def test_a_move_that_finds_no_turn_open_was_due_when_it_was_due() -> None:
    load, moves = load_at(100.0), Moves()
    began = time.monotonic() - 1.0
    load._due(began)
    for _ in range(3):
        turn(load, moves)
    load.go(0.0)
    first, second, third = moves.due
    assert first == began
    assert began < second < third < began + 1.0


async def test_the_turn_that_is_open_longest_is_given_the_next_move() -> None:
    load, early, late = load_at(1e-9), Moves(), Moves()
    turn(load, early)
    turn(load, late)
    load._due(began := time.monotonic())
    load.go(0.0)
    assert (early.due, late.due) == ([began], [])


async def test_a_turn_of_a_match_that_has_ended_is_given_nothing() -> None:
    load, over, open_ = load_at(1e-9), Moves(), Moves()
    turn(load, over)
    turn(load, open_)
    over.call = object()
    load._due(began := time.monotonic())
    load.go(0.0)
    assert (over.due, open_.due) == ([], [began])


async def test_what_was_due_in_time_and_never_arrived_is_counted_with_what_it_has_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.bench.load.STRAGGLING_SECONDS", 0.0)
    load = load_at(1.0)
    load.count()
    load._dues.append(time.monotonic())
    load.stop()
    load._dues.append(time.monotonic() + 1e-9)
    found = await load.counted()
    assert (found["moves"], found["unfinished"]) == (0, 1)
    assert found["p99"] > 0
