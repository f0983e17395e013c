"""The proxy of the tests does what it says: the tests of broken networks stand on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.proxy import Proxy, Way


@asynccontextmanager
async def echo() -> AsyncIterator[int]:
    """A service that says everything back."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(1024):
                writer.write(piece)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def through(proxy: Proxy) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection through the proxy."""
    host, port = proxy.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def test_bytes_pass_in_both_directions_and_so_does_the_end() -> None:
    """Without a fault nobody notices the proxy."""
    async with echo() as port, Proxy("127.0.0.1", port) as proxy, through(proxy) as (reader, writer):
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        writer.write_eof()
        assert await reader.read() == b""


async def test_a_delay_keeps_the_order() -> None:
    """What was sent before a delay was set comes first, whatever the delay."""
    async with echo() as port, Proxy("127.0.0.1", port) as proxy, through(proxy) as (reader, writer):
        proxy.delay(Way.UP, 0.2)
        began = asyncio.get_running_loop().time()
        writer.write(b"one")
        await writer.drain()
        assert await reader.readexactly(3) == b"one"
        assert asyncio.get_running_loop().time() - began >= 0.2


async def test_swallowed_bytes_are_gone_and_the_connection_stays() -> None:
    """A black hole resets nothing; one direction can be lost alone."""
    async with echo() as port, Proxy("127.0.0.1", port) as proxy, through(proxy) as (reader, writer):
        proxy.swallow(Way.DOWN)
        lost = asyncio.create_task(proxy.lost(Way.DOWN))
        await asyncio.sleep(0)
        writer.write(b"hello")
        async with asyncio.timeout(30):
            await lost
        assert proxy.traffic[Way.UP].carried == proxy.traffic[Way.DOWN].lost == 5
        assert not reader.at_eof()
        proxy.heal()
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)


async def test_a_cut_resets_and_new_connections_are_taken_or_refused() -> None:
    """Cut, refuse, heal."""
    async with echo() as port, Proxy("127.0.0.1", port) as proxy:
        async with through(proxy) as (reader, writer):
            writer.write(b"hello")
            await reader.readexactly(5)
            proxy.refusing = True
            proxy.cut()
            with pytest.raises(ConnectionResetError):
                await reader.readexactly(1)
        async with through(proxy) as (reader, _):
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
        proxy.heal()
        async with through(proxy) as (reader, writer):
            writer.write(b"again")
            assert await reader.readexactly(5) == b"again"
        assert proxy.accepted == 3


async def test_what_is_held_comes_later_and_in_order() -> None:
    """Nothing is lost and nothing overtakes."""
    async with echo() as port, Proxy("127.0.0.1", port) as proxy, through(proxy) as (reader, writer):
        proxy.hold(Way.UP)
        writer.write(b"one")
        await writer.drain()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readexactly(1), 0.1)
        writer.write(b"two")
        proxy.release(Way.UP)
        assert await reader.readexactly(6) == b"onetwo"


async def test_an_inspector_sees_every_piece_and_may_keep_it() -> None:
    """Both ways, before it goes on."""
    seen: list[tuple[Way, bytes]] = []

    class Keeps:
        def passes(self, way: Way, piece: bytes) -> bool:
            seen.append((way, piece))
            return piece != b"secret"

    async with echo() as port, Proxy("127.0.0.1", port) as proxy:
        proxy.inspect = Keeps
        async with through(proxy) as (reader, writer):
            losing = asyncio.create_task(proxy.lost(Way.UP))
            writer.write(b"secret")
            await writer.drain()
            await losing
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
    assert seen == [(Way.UP, b"secret"), (Way.UP, b"hello"), (Way.DOWN, b"hello")]
