"""Files that may change while a process runs: looked at again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from services.common.logs import get_logger

LOOK_SECONDS: Final = 2.0
"""How often files are looked at."""


class Watched(Protocol):
    """Something that was read from files."""

    def look(self) -> None:
        """Takes over what has changed, if it makes sense. Called in a thread."""


async def keep_looking(watched: Sequence[Watched]) -> None:
    """Looks at all of them, until cancelled."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        for files in watched:
            try:
                # In a thread: a disk that hangs must not keep the process from hearing its players.
                await asyncio.to_thread(files.look)
            except Exception:  # noqa: BLE001 - a bug about one file must not keep the others from being replaced
                get_logger().exception("look_at_files_failed")
