"""The floor under the whole path: messages that pass as many grpc.aio hops as a move does, and nothing is done with them.

    client - A - B - A - client

A is where the game process is, B where the clock is. `python -m tests.bench.echo b` and `... a` are the two servers,
`... client` is the load. What B gets it sends back. A tells one stream (echo) or both of a pair, as a move is told.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from struct import Struct
from typing import Any, Final, TypeAlias

import grpc
import uvloop

from tests.bench.generator import Figures, Tally, serve
from tests.bench.http2 import Call, connect

FRONT: Final = "/bench.Echo/Front"
BACK: Final = "/bench.Echo/Back"
BACK_BYTES: Final = 64
"""Of a message between A and B, about what a stamp and a verdict take."""
_HEAD: Final = Struct(">L")
"""Number of a stream in a message between A and B."""
METADATA: Final = (("authorization", "Bearer " + "x" * 400),)
OPTIONS: Final = [("grpc.max_concurrent_streams", 1000)]

Context: TypeAlias = Any
"""Of grpc.aio; its published types do not know that EOF can be read."""


def stream_of(method: str, behaviour: Callable[[Any, Context], Awaitable[None]]) -> grpc.GenericRpcHandler:
    """A method whose messages are bytes, both ways."""
    service, _, name = method.strip("/").partition("/")
    handlers: dict[str, Any] = {name: grpc.stream_stream_rpc_method_handler(behaviour)}
    return grpc.method_handlers_generic_handler(service, handlers)


async def listen(handler: grpc.GenericRpcHandler) -> grpc.aio.Server:
    """A server on a port of its own, which it says."""
    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers((handler,))
    print(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}", flush=True)
    await server.start()
    return server


async def back() -> None:
    """B: each message goes back as it is."""

    async def echo(_: object, context: Context) -> None:
        while (message := await context.read()) is not grpc.aio.EOF:
            await context.write(message)

    server = await listen(stream_of(BACK, echo))
    await server.wait_for_termination()


class Stream:
    """One player's stream at A."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._due: list[bytes] = []
        self._some = asyncio.Event()

    def tell(self, text: bytes) -> None:
        """Something to say; nothing waits for it."""
        self._due.append(text)
        self._some.set()

    async def run(self) -> None:
        """Says it."""
        while True:
            await self._some.wait()
            self._some.clear()
            due, self._due = self._due, []
            for text in due:
                await self._context.write(text)


@dataclass
class Front:
    """A: every message of a player goes to B and, when it has come back, to the players who are to hear of it."""

    together: bool
    """Whether the messages of a turn of the loop go to B in one."""
    sizes: tuple[int, int]
    """Of what is said to who sent it, and to the other; 0 is nothing."""
    streams: dict[int, Stream] = field(default_factory=dict)
    _waiting: list[bytes] = field(default_factory=list)
    _some: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._texts = bytes(self.sizes[0]), b"\x01" * self.sizes[1]

    async def front(self, _: object, context: Context) -> None:
        """One player's stream: its first message is its number."""
        first = await context.read()
        (number,) = _HEAD.unpack(first)
        self.streams[number] = stream = Stream(context)
        running = asyncio.create_task(stream.run())
        stream.tell(first)
        message = first + bytes(BACK_BYTES - _HEAD.size)
        while await context.read() is not grpc.aio.EOF:
            self._waiting.append(message)
            self._some.set()
        running.cancel()

    async def run(self, address: str) -> None:
        """Both directions of the one stream to B."""
        async with grpc.aio.insecure_channel(address) as channel:
            call: Any = channel.stream_stream(BACK)()
            await asyncio.gather(self._forth(call), self._back(call))

    async def _forth(self, call: Any) -> None:
        while True:
            await self._some.wait()
            self._some.clear()
            waiting, self._waiting = self._waiting, []
            for message in (b"".join(waiting),) if self.together else waiting:
                await call.write(message)

    async def _back(self, call: Any) -> None:
        to_mover, to_other = self._texts
        while (message := await call.read()) is not grpc.aio.EOF:
            for at in range(0, len(message), BACK_BYTES):
                (number,) = _HEAD.unpack_from(message, at)
                if to_mover:
                    self.streams[number].tell(to_mover)
                if to_other:
                    self.streams[number ^ 1].tell(to_other)


async def serve_front(options: argparse.Namespace) -> None:
    """A's process."""
    front = Front(options.together, (options.mover, options.other))
    server = await listen(stream_of(FRONT, front.front))
    await front.run(options.back)
    await server.stop(0)


@dataclass(slots=True, eq=False, repr=False)
class Echo:
    """Two streams of a pair; with fan-out both hear of each message, and take turns, else one is alone."""

    load: Echoes
    calls: list[Call] = field(default_factory=list)
    known: int = 0
    """Streams that A knows."""
    mover: int = 0
    sent: float = 0.0

    def go(self) -> None:
        """The next message."""
        self.sent = time.monotonic()
        self.calls[self.mover].send(self.load.message)

    def hear(self, seat: int, message: bytes) -> None:
        """A message has arrived; it counts at the other of a pair. The first of a stream is that A knows it."""
        if self.known < len(self.calls):
            self.known += 1
            return
        if self.load.fans_out:
            if not message[0]:
                return
            self.mover = seat
        self.load.delivered(time.monotonic() - self.sent)
        self.go()


class Echoes:
    """All pairs."""

    def __init__(self, spec: Figures) -> None:
        self._spec = spec
        self._counter = Tally()
        self._counting = False
        self._pairs: list[Echo] = []
        self.message = bytes(spec["in"])
        self.fans_out = bool(spec["fans_out"])

    async def set_up(self) -> None:
        """Connects, and says who is who."""
        pairs, seats = self._spec["pairs"], 2 if self.fans_out else 1
        count = -(-pairs * seats // self._spec["streams"])
        connections = [await connect(self._spec["address"]) for _ in range(count)]
        self._pairs = [Echo(self) for _ in range(pairs)]
        for at in range(pairs * seats):
            pair, seat = self._pairs[at // seats], at % seats
            call = connections[at % count].call(FRONT, METADATA, partial(pair.hear, seat), self._ended)
            pair.calls.append(call)
            call.send(_HEAD.pack(2 * (at // seats) + seat))
        while not all(pair.known == seats for pair in self._pairs):  # noqa: ASYNC110 - a bench may look
            await asyncio.sleep(0.05)

    @staticmethod
    def _ended() -> None:
        raise RuntimeError("a stream ended")

    def go(self, pace: float | None) -> None:
        """A closed loop, and nothing else."""
        if pace is None:
            for pair in self._pairs:
                pair.go()

    def delivered(self, seconds: float) -> None:
        """A message took so long."""
        if self._counting:
            self._counter.latencies.append(seconds)

    def count(self) -> None:
        """From now on."""
        self._counting = True
        self._counter.begin()

    def stop(self) -> None:
        """Up to now."""
        self._counting = False
        self._counter.end()

    async def counted(self) -> Figures:
        """What was counted."""
        return self._counter.figures(len(self._counter.latencies))


class AioEchoes(Echoes):
    """The same pairs, one stream each, through grpc.aio on one channel: what a client written with it can do."""

    async def set_up(self) -> None:
        """Connects, and says who is who."""
        self._began = asyncio.Event()
        self._channel = grpc.aio.insecure_channel(self._spec["address"])
        calls: list[Any] = [
            self._channel.stream_stream(FRONT)(metadata=METADATA) for _ in range(self._spec["pairs"])
        ]
        await asyncio.gather(*(self._join(number, call) for number, call in enumerate(calls)))
        self._playing = [asyncio.create_task(self._play(call)) for call in calls]

    async def _join(self, number: int, call: Any) -> None:
        await call.write(_HEAD.pack(2 * number))
        await call.read()

    async def _play(self, call: Any) -> None:
        await self._began.wait()
        while True:
            sent = time.monotonic()
            await call.write(self.message)
            if await call.read() is grpc.aio.EOF:
                self._ended()
            self.delivered(time.monotonic() - sent)

    def go(self, pace: float | None) -> None:
        """A closed loop, and nothing else."""
        if pace is None:
            self._began.set()


def main() -> None:
    """One of the three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=("a", "b", "client"), nargs="?", default="client")
    parser.add_argument("--back", help="address of B")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--mover", type=int, default=0, help="bytes to who sent a message")
    parser.add_argument("--other", type=int, default=0, help="bytes to the other of the pair")
    parser.add_argument("--uvloop", action="store_true")
    options = parser.parse_args()
    if options.role == "client":
        # The specification: address, pairs, streams (on a connection), in (bytes), fans_out, aio.
        spec = json.loads(sys.stdin.readline())
        serve((AioEchoes if spec["aio"] else Echoes)(spec), 2 * spec["pairs"] // spec["streams"] + 1)
        return
    factory = uvloop.new_event_loop if options.uvloop else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(back() if options.role == "b" else serve_front(options))


if __name__ == "__main__":
    main()
