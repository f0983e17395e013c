"""Something between two: it hears how a connection begins, and carries all that follows to somebody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

HOST = "127.0.0.1"
Opening: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[tuple[str, int]]]
"""Reads and answers how a connection begins; returns host and port to go on to."""


@asynccontextmanager
async def relay(opening: Opening) -> AsyncIterator[int]:
    """Listens until the end of the context; its port on loopback."""
    open_: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_.add(task)
        up: asyncio.StreamWriter | None = None
        # A connection that breaks is nobody's fault here.
        with suppress(OSError, EOFError, asyncio.CancelledError):
            from_up, up = await asyncio.open_connection(*await opening(reader, writer))
            ways = [asyncio.create_task(_pump(reader, up)), asyncio.create_task(_pump(from_up, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        open_.discard(task)
        for end in filter(None, (writer, up)):
            end.close()

    server = await asyncio.start_server(serve, HOST, 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in list(open_):
            task.cancel()
        await asyncio.gather(*open_, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(64 * 1024):
            writer.write(piece)
            await writer.drain()
