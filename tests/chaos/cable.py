"""A real network cable: a process in a network of its own, joined to ours by a pair of virtual Ethernet cards.

Pulled, nothing closes and nothing is refused: packets are gone, and each side finds out by itself, as with a machine that
lost its network.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests import processes

NEAR: Final = "10.99.0.1"
"""Our end."""
FAR: Final = "10.99.0.2"
"""The end of the process behind it."""
_NEAR_CARD, _FAR_CARD = "v-near", "v-far"


async def run(*command: str) -> None:
    """A command that must succeed. Raises OSError with what it said."""
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    _, problem = await process.communicate()
    if process.returncode:
        raise OSError(f"{' '.join(command)}: {problem.decode().strip()}")


@dataclass(frozen=True)
class Cable:
    """Laid, and plugged in at first."""

    holder: int
    """The process whose network the far one is."""

    @property
    def prefix(self) -> tuple[str, ...]:
        """What a command line begins with that runs at the far end."""
        return (shutil.which("nsenter") or "nsenter", f"--net=/proc/{self.holder}/ns/net")

    async def pull(self) -> None:
        """Nothing goes through any more."""
        await run(*self.prefix, "ip", "link", "set", _FAR_CARD, "down")

    async def plug(self) -> None:
        """Everything goes through again."""
        await run(*self.prefix, "ip", "link", "set", _FAR_CARD, "up")


@asynccontextmanager
async def laid() -> AsyncIterator[Cable]:
    """A cable, gone with everything at its far end; only in a network of our own."""
    unshare = shutil.which("unshare") or "unshare"
    command = [sys.executable, "-I", "-S", processes.__file__, str(os.getpid()), unshare]
    holder = await asyncio.create_subprocess_exec(*command, "--net", "sleep", "infinity")
    try:
        async with asyncio.timeout(10):
            while not _sleeps(holder.pid):  # noqa: ASYNC110 - a process we cannot hear
                await asyncio.sleep(0.02)
        cable = Cable(holder.pid)
        peer = ("peer", "name", _FAR_CARD, "netns", str(holder.pid))
        await run("ip", "link", "add", _NEAR_CARD, "type", "veth", *peer)
        await run("ip", "address", "add", f"{NEAR}/24", "dev", _NEAR_CARD)
        await run("ip", "link", "set", _NEAR_CARD, "up")
        await run(*cable.prefix, "ip", "link", "set", "lo", "up")
        await run(*cable.prefix, "ip", "address", "add", f"{FAR}/24", "dev", _FAR_CARD)
        await cable.plug()
        yield cable
    finally:
        holder.kill()
        await holder.wait()


def _sleeps(pid: int) -> bool:
    """Whether it has become what sleeps in a network of its own."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "sleep"
    except OSError:
        return False
