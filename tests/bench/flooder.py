"""`python -m tests.bench.flooder ORDER`: one client that carries out one attack of `tests.bench.attacks` at full speed.

ORDER is a file (JSON): which attack, where, with which tokens, for how long. It logs `flooding` when it begins and
`flooded` with its figures at the end. Calls carry the address that a gateway would give them.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc

from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import match_service_pb2_grpc as pb_grpc
from spectacularbid.match.v1 import table_pb2
from tests.bench.attacks import As, Attack, Kind, Scene, attacks

CONNECTIONS: Final = 4
CALLS: Final = 50
"""At once on each connection."""
SOURCE: Final = "127.0.0.66"
"""Where connections without a word come from."""
CONNECTIONS_MAX: Final = 2000
BATCH: Final = 20
"""Calls that are made before they are cancelled."""
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
"""With empty settings."""
LEAVING_SECONDS: Final = 3.0
OPTIONS: Final = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 200)]

FAULTS: Final = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.CANCELLED)

Metadata = tuple[tuple[str, str], ...]


def say(event: str, **figures: object) -> None:
    """One log line."""
    print(json.dumps({"event": event, **figures}), flush=True)


@dataclass
class Flood:
    """One attack that is going on."""

    attack: Attack
    address: str
    tokens: list[str]
    forwarded_for: str
    scene: Scene
    seconds: float
    asked: int = 0
    held: int = 0
    """Streams or connections open at the same time, at most."""
    codes: Counter[str] = field(default_factory=Counter)
    end: float = 0.0

    @property
    def on(self) -> bool:
        """Whether there is time left."""
        return time.monotonic() < self.end

    def metadata(self, number: int = 0) -> Metadata:
        """What goes with each call."""
        made: Metadata = (("x-forwarded-for", self.forwarded_for),)
        token = self.tokens[number % len(self.tokens)]
        if self.attack.caller is As.FORGER:
            token = f"{token[:-8]}AAAAAAAA"
        if self.attack.caller is not As.NOBODY:
            made += (("authorization", f"Bearer {token}"),)
        return made

    def note(self, error: BaseException) -> None:
        """Counts how a call failed."""
        if isinstance(error, grpc.aio.AioRpcError):
            self.codes[_named(error.code(), error.details())] += 1
        else:
            self.codes[type(error).__name__] += 1

    async def ended(self, call: Any) -> None:
        """Counts how a call that is over ended."""
        self.codes[_named(await call.code(), await call.details())] += 1

    async def run(self, channels: list[grpc.aio.Channel]) -> None:
        """Until the time is up."""
        if self.attack.takes_part:
            await self._take_part(channels[0])
        workers = {
            Kind.SPIN: (self._spin, 1),
            Kind.CALL: (self._call, CALLS),
            Kind.STREAM: (self._stream, CALLS),
            Kind.COMMANDS: (self._commands, 4),
            Kind.RESET: (self._reset, 4),
            Kind.HOLD: (self._hold, CALLS),
            Kind.SILENT: (self._silent, CALLS),
            Kind.CONNECT: (self._connect, 1),
            Kind.LEAVE: (self._leave, 1),
        }
        work, workers_each = workers[self.attack.kind]
        if self.attack.kind in (Kind.SPIN, Kind.CONNECT, Kind.LEAVE):
            channels = channels[:1]
        say("flooding")
        began = time.monotonic()
        self.end = began + self.seconds
        async with asyncio.TaskGroup() as group:
            for number, channel in enumerate(channels):
                for each in range(workers_each):
                    group.create_task(work(channel, number * workers_each + each))
        say(
            "flooded",
            asked=self.asked,
            held=self.held,
            codes=dict(self.codes),
            seconds=time.monotonic() - began,
        )

    async def _take_part(self, channel: grpc.aio.Channel) -> None:
        request = pb.CreateMatchRequest(request_id=str(uuid.uuid4()), same_device=True)
        made = await pb_grpc.MatchServiceStub(channel).CreateMatch(request, metadata=self.metadata())
        self.scene = Scene(self.scene.match_id, made.match_id, self.scene.victim)

    async def _spin(self, _channel: grpc.aio.Channel, _number: int) -> None:
        while self.on:
            for _ in range(10_000):
                self.asked += 1

    def _message(self) -> bytes:
        return self.attack.ask(self.scene).SerializeToString()

    async def _call(self, channel: grpc.aio.Channel, number: int) -> None:
        ask: Any = channel.unary_unary(self.attack.method)
        metadata, message = self.metadata(number), self._message()
        while self.on:
            self.asked += 1
            try:
                await ask(self._message() if self.attack.fresh else message, metadata=metadata, timeout=10)
            except grpc.aio.AioRpcError as error:
                self.note(error)
            else:
                self.codes["OK"] += 1

    async def _stream(self, channel: grpc.aio.Channel, number: int) -> None:
        ask: Any = channel.stream_stream(self.attack.method)
        metadata = self.metadata(number)
        while self.on:
            self.asked += 1
            call = ask(metadata=metadata, timeout=10)
            try:
                await call.write(self._message())
                if await call.read() is grpc.aio.EOF:
                    await self.ended(call)
                else:
                    self.codes["OK"] += 1
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
                self.note(error)
            finally:
                call.cancel()

    async def _commands(self, channel: grpc.aio.Channel, number: int) -> None:
        ask: Any = channel.stream_stream(self.attack.method)
        join = pb.PlayRequest(join=pb.WatchRequest(match_id=self.scene.own_match_id)).SerializeToString()
        submit = pb.SubmitRequest(
            request_id=str(uuid.uuid4()),
            decision_id=1,
            seat=table_pb2.SEAT_NORTH,
            command=pb.Command(draw=pb.Draw()),
        )
        command = pb.PlayRequest(submit=submit).SerializeToString()

        async def read(call: Any) -> None:
            with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                while (raw := await call.read()) is not grpc.aio.EOF:
                    self.codes["refused by the rules"] += len(pb.PlayResponse.FromString(raw).answers)

        while self.on:
            call = ask(metadata=self.metadata(number), timeout=self.seconds + 5)
            reading = asyncio.create_task(read(call))
            try:
                await call.write(join)
                while self.on:
                    self.asked += 1
                    await call.write(command)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                with suppress(asyncio.CancelledError):
                    await self.ended(call)
            finally:
                call.cancel()
                reading.cancel()

    async def _reset(self, channel: grpc.aio.Channel, number: int) -> None:
        ask: Any = channel.unary_stream(self.attack.method)
        message, metadata = self._message(), self.metadata(number)
        while self.on:
            calls = [ask(message, metadata=metadata) for _ in range(BATCH)]
            await asyncio.sleep(0)
            for call in calls:
                call.cancel()
            self.asked += BATCH
            # Nothing of a call may be kept here, or this process would grow itself.
            await asyncio.sleep(0.001)

    async def _hold(self, channel: grpc.aio.Channel, number: int) -> None:
        ask: Any = channel.stream_stream(self.attack.method)
        calls: list[Any] = []
        readings: list[asyncio.Task[Any]] = []
        while self.on and len(calls) < 20:
            self.asked += 1
            call = ask(metadata=self.metadata(number))
            calls.append(call)
            with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                await call.write(self._message())
            # What says nothing is open all the same, and a read that is given up would end it.
            reading = asyncio.create_task(call.read())
            readings.append(reading)
            await asyncio.wait({reading}, timeout=0.2)
        await self._wait()
        for call in calls:
            if call.done():
                await self.ended(call)
            else:
                self.held += 1
                call.cancel()
        await asyncio.gather(*readings, return_exceptions=True)

    async def _silent(self, channel: grpc.aio.Channel, number: int) -> None:
        ask: Any = channel.stream_unary(self.attack.method)
        calls = [ask(metadata=self.metadata(number)) for _ in range(20)]
        self.asked += len(calls)
        await self._wait()
        for call in calls:
            if call.done():
                await self.ended(call)
            else:
                self.held += 1
                call.cancel()

    async def _wait(self) -> None:
        await asyncio.sleep(max(0.0, self.end - time.monotonic()))

    async def _connect(self, _channel: grpc.aio.Channel, _number: int) -> None:
        host, _, port = self.address.rpartition(":")
        made: list[asyncio.StreamWriter] = []
        reading: list[asyncio.Task[None]] = []

        async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                while await reader.read(4096):
                    pass
            self.codes["closed by the service"] += 1
            writer.close()

        while self.on:
            if len(reading) - self.codes["closed by the service"] >= CONNECTIONS_MAX:
                await asyncio.sleep(0.05)
                continue
            self.asked += 1
            try:
                async with asyncio.timeout(1):
                    reader, writer = await asyncio.open_connection(host, int(port), local_addr=(SOURCE, 0))
            except OSError as error:
                self.note(error)
                await asyncio.sleep(0.01)
                continue
            if self.asked % 2:
                writer.write(PREFACE)
            made.append(writer)
            reading.append(asyncio.create_task(read(reader, writer)))
            self.held = max(self.held, len(reading) - self.codes["closed by the service"])
        for task in reading:
            task.cancel()
        for writer in made:
            writer.transport.abort()

    async def _leave(self, channel: grpc.aio.Channel, _number: int) -> None:
        stub: Any = pb_grpc.MatchServiceStub(channel)
        matches = []
        for number in range(len(self.tokens)):
            request = pb.CreateMatchRequest(request_id=str(uuid.uuid4()), same_device=True)
            try:
                made = await stub.CreateMatch(request, metadata=self.metadata(number), timeout=10)
            except grpc.aio.AioRpcError as error:
                self.note(error)
            else:
                matches.append((number, made.match_id))
        while self.on:
            streams = [
                stub.Watch(pb.WatchRequest(match_id=match_id), metadata=self.metadata(number))
                for number, match_id in matches
            ]
            for stream in streams:
                self.asked += 1
                with suppress(grpc.aio.AioRpcError):
                    await stream.read()
            for stream in streams:
                stream.cancel()
            await asyncio.sleep(min(LEAVING_SECONDS, max(0.0, self.end - time.monotonic())))


def _named(code: grpc.StatusCode, details: str | None) -> str:
    # What must not be is worth its words.
    return f"{code.name} {(details or '')[:60]}" if code in FAULTS else code.name


def yield_to_others(niceness: int) -> None:
    """Clients have machines of their own: what this costs here must not be taken from the services."""
    os.nice(niceness)
    # A session of its own shares the processor with others as a group, however nice its processes are.
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(niceness), "ascii")


async def main(order: dict[str, Any]) -> None:
    """Carries out an order."""
    yield_to_others(order["nice"])
    attack = attacks()[order["attack"]]
    flood = Flood(
        attack,
        order["address"],
        order["tokens"],
        order["forwarded_for"],
        Scene(match_id=order["match_id"], victim=order["victim"]),
        order["seconds"],
    )
    channels = [grpc.aio.insecure_channel(flood.address, options=OPTIONS) for _ in range(CONNECTIONS)]
    try:
        await flood.run(channels)
    finally:
        for channel in channels:
            await channel.close()


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text("utf-8"))))
