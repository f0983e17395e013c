"""Run as a program by test_livetime: ask the server to stall, and send commands meanwhile.

`python -m tests.services.clock.burst ADDRESS unary|stream COUNT`
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import grpc

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


if __name__ == "__main__":
    asyncio.run(send(sys.argv[1], sys.argv[2], int(sys.argv[3])))
