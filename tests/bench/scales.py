"""A whole stack with a crowd in it, and what its processes weigh and use."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from services.local.postgres import EmbeddedPostgres
from services.storage.migrate import migrate
from tests.bench.crowd import STREAMS_A_CONNECTION, Crowd, crowd
from tests.bench.usage import family, postmaster_of, usage_of
from tests.stack import Stack, stack

SETTLE_SECONDS: Final = 2.0
SERVICES: Final = ("game", "clock", "matchmaking")
SETTINGS: Final = {"game": {"OPEN_CALLS": "100000", "LINGER_SECONDS": "1"}}


def kibibytes(pid: int) -> int:
    """Memory of a process and its children, what they share counted once."""
    total = 0
    for member in family(pid):
        with suppress(OSError):
            lines = Path(f"/proc/{member}/smaps_rollup").read_text("ascii").splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total


class Scales:
    """The processes of a stack, weighed."""

    def __init__(self, made: Stack, folder: Path) -> None:
        self.pids = {name: made.processes[name].pid for name in SERVICES}
        self.pids["postgres"] = postmaster_of(folder)

    def weigh(self) -> Mapping[str, int]:
        """KiB of each."""
        return {name: kibibytes(pid) for name, pid in self.pids.items()}

    async def idle(self, seconds: float) -> list[float]:
        """Microseconds of processor time that each uses in a second."""
        began, before = time.monotonic(), usage_of(self.pids)
        await asyncio.sleep(seconds)
        used = usage_of(self.pids).since(before)
        return [seconds * 1e6 / (time.monotonic() - began) for seconds in used.values()]


@asynccontextmanager
async def weighed_crowd(
    *, durable: bool = True, streams_a_connection: int = STREAMS_A_CONNECTION
) -> AsyncIterator[tuple[Crowd, Scales]]:
    """A stack with a PostgreSQL of its own (with fsync if `durable`), nobody in it yet, and the scales for it."""
    with (
        tempfile.TemporaryDirectory(prefix="spectacular-bid-crowd-") as folder,
        EmbeddedPostgres(Path(folder) / "postgres", durable=durable) as server,
    ):
        migrate(server.url)
        (place := Path(folder) / "stack").mkdir()
        async with (
            stack(place, server.url, SETTINGS) as made,
            crowd(made, streams_a_connection=streams_a_connection) as gathered,
        ):
            yield gathered, Scales(made, Path(folder))
