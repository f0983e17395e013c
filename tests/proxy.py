"""A TCP proxy that misbehaves on purpose: it delays, holds, cuts, refuses, swallows, or loses one direction.

`async with Proxy("127.0.0.1", port) as proxy:` listens on `proxy.address`. Faults apply to the connections that are
open and to new ones, until they are changed. What has been swallowed is gone for good, so a connection that lived
through that is of no use any more: `cut` it. An `inspect` sees each piece before it goes on, and may keep it from doing so.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Protocol, Self

_CHUNK = 64 * 1024


class Way(StrEnum):
    """A direction of travel."""

    UP = "up"
    """From the client to the service."""
    DOWN = "down"
    """From the service to the client."""


class Inspector(Protocol):
    """Sees everything of one connection."""

    def passes(self, way: Way, piece: bytes) -> bool:
        """Whether a piece that has come goes on; else it vanishes. Called in the order of each direction."""


@dataclass
class Traffic:
    """What happens to the bytes of one direction."""

    delay_seconds: float = 0.0
    """Added to each piece; the order stays."""
    swallow: bool = False
    """Bytes vanish, and nobody is told."""
    flows: asyncio.Event = field(default_factory=asyncio.Event)
    """Clear while everything is held back; the order stays."""
    carried: int = 0
    """Bytes that came through."""
    lost: int = 0
    """Bytes that vanished."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with each piece carried or lost."""

    def __post_init__(self) -> None:
        self.flows.set()


class _Pipe:
    """One direction of one connection: read, wait, write."""

    def __init__(
        self,
        traffic: Traffic,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        passes: Callable[[bytes], bool],
    ) -> None:
        self._traffic = traffic
        self._passes = passes
        self._reader = reader
        self._writer = writer
        self._pieces: deque[tuple[float, bytes]] = deque()
        self._arrived = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read())
            group.create_task(self._write())

    async def _read(self) -> None:
        clock = asyncio.get_running_loop().time
        traffic = self._traffic
        while True:
            piece = await self._reader.read(_CHUNK)
            if piece and (traffic.swallow or not self._passes(piece)):
                traffic.lost += len(piece)
                traffic.changed.set()
                continue
            self._pieces.append((clock() + traffic.delay_seconds, piece))
            self._arrived.set()
            if not piece:
                return

    async def _write(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            while not self._pieces:
                self._arrived.clear()
                await self._arrived.wait()
            due, piece = self._pieces.popleft()
            await asyncio.sleep(max(0.0, due - clock()))
            await self._traffic.flows.wait()
            if not piece:
                # The end of a direction passes through, unless the network swallows everything.
                if not self._traffic.swallow and self._writer.can_write_eof():
                    self._writer.write_eof()
                return
            self._writer.write(piece)
            await self._writer.drain()
            self._traffic.carried += len(piece)
            self._traffic.changed.set()


class Proxy:
    """Listens on a port of its own and connects each client with one service."""

    def __init__(self, host: str, port: int, *, listen: str = "127.0.0.1", source: str | None = None) -> None:
        """`source` is the address that the service sees its clients come from; all of 127.0.0.0/8 will do."""
        self._listen = listen
        self._source = None if source is None else (source, 0)
        self._targets: tuple[tuple[str, int], ...] = ((host, port),)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.traffic = {way: Traffic() for way in Way}
        self.refusing = False
        """New connections are reset at once."""
        self.inspect: Callable[[], Inspector] | None = None
        """Makes the inspector of each new connection."""
        self.accepted = 0
        """Connections so far."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self._listen, 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None, "entered"
        self._server.close()
        # A connection that was accepted in the last moment reaches its handler a few turns of the loop later.
        for _ in range(5):
            await asyncio.sleep(0)
        self.cut()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def address(self) -> str:
        """host:port for clients."""
        assert self._server is not None, "entered"
        host, port = self._server.sockets[0].getsockname()
        return f"{host}:{port}"

    def aim(self, *targets: tuple[str, int]) -> None:
        """New connections go to the first of these services that takes them; open ones stay where they are."""
        self._targets = targets

    # Faults.

    def delay(self, way: Way, seconds: float) -> None:
        """Everything of a direction takes longer."""
        self.traffic[way].delay_seconds = seconds

    def hold(self, *ways: Way) -> None:
        """Nothing of these directions comes through until `release`; nothing is lost."""
        for way in ways:
            self.traffic[way].flows.clear()

    def release(self, *ways: Way) -> None:
        """What was held goes on, in order."""
        for way in ways:
            self.traffic[way].flows.set()

    def swallow(self, *ways: Way) -> None:
        """Everything of these directions vanishes without a word: both together are a black hole."""
        for way in ways:
            self.traffic[way].swallow = True

    def cut(self) -> None:
        """Resets every open connection."""
        for writer in self._writers:
            _reset(writer)
        for task in self._connections:
            task.cancel()

    def heal(self) -> None:
        """New connections find a good network. Connections that lost something are reset."""
        if any(traffic.swallow for traffic in self.traffic.values()):
            self.cut()
        for traffic in self.traffic.values():
            traffic.swallow, traffic.delay_seconds = False, 0.0
            traffic.flows.set()
        self.refusing = False

    async def lost(self, way: Way) -> None:
        """Waits until something more of this direction has vanished."""
        traffic = self.traffic[way]
        before = traffic.lost
        while traffic.lost == before:
            traffic.changed.clear()
            await traffic.changed.wait()

    # Connections.

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self._writers.add(writer)
        try:
            await self._carry(reader, writer)
        except asyncio.CancelledError:
            # Only `cut` cancels. asyncio would complain about a cancelled handler.
            pass
        finally:
            self._connections.discard(task)
            self._writers.discard(writer)
            _reset(writer)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            return
        for target in self._targets:
            with contextlib.suppress(OSError):
                up_reader, up_writer = await asyncio.open_connection(*target, local_addr=self._source)
                break
        else:
            return
        self._writers.add(up_writer)
        inspector = None if self.inspect is None else self.inspect()

        def pipe(way: Way, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> _Pipe:
            def passes(piece: bytes) -> bool:
                return inspector is None or inspector.passes(way, piece)

            return _Pipe(self.traffic[way], source, sink, passes)

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(pipe(Way.UP, reader, up_writer).run())
                group.create_task(pipe(Way.DOWN, up_reader, writer).run())
        except* OSError:
            pass
        finally:
            self._writers.discard(up_writer)
            _reset(up_writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Closes with RST instead of FIN, as a broken network would."""
    sock = writer.get_extra_info("socket")
    with contextlib.suppress(OSError, AttributeError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
