"""Run as a program by test_livetime: ask the server to stall, and send commands meanwhile; or just send them.

`python -m tests.services.clock.burst ADDRESS unary|stream|busy-unary|busy-stream COUNT`
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import grpc

from services.game.livetime import kernel_now

SERVICE = "/test.Burst"


async def send(address: str, way: str, count: int) -> None:
    """One request that stalls the server, then `count` numbered ones while it stands still."""
    async with grpc.aio.insecure_channel(address) as channel:
        unary: Any = channel.unary_unary(f"{SERVICE}/Unary")
        await unary(b"warm up")
        stalling = asyncio.ensure_future(unary(b"stall"))
        await asyncio.sleep(0.1)
        if way == "unary":
            await asyncio.gather(*(unary(b"%d" % number) for number in range(count)))
        else:
            call: Any = channel.stream_stream(f"{SERVICE}/Stream")()
            for number in range(count):
                await call.write(b"%d" % number)
            await call.done_writing()
            while await call.read() is not grpc.aio.EOF:
                pass
        await stalling
        await unary(b"end")


async def send_one_by_one(address: str, way: str, count: int) -> None:
    """Says that the server is to be busy now, then when each of `count` requests is sent; each waits for the one before."""
    async with grpc.aio.insecure_channel(address) as channel:
        unary: Any = channel.unary_unary(f"{SERVICE}/Unary")
        await unary(b"warm up")
        call: Any = channel.stream_stream(f"{SERVICE}/Stream")()
        await call.write(b"warm up")
        await unary(b"busy")
        for _ in range(count):
            if way == "unary":
                await unary(b"%d" % kernel_now())
            else:
                await call.write(b"%d" % kernel_now())
                await unary(b"and on")
        await call.done_writing()
        await unary(b"end")


if __name__ == "__main__":
    _, to, by, number = sys.argv
    if by.startswith("busy-"):
        asyncio.run(send_one_by_one(to, by.removeprefix("busy-"), int(number)))
    else:
        asyncio.run(send(to, by, int(number)))
