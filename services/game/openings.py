"""Matches that are opened in the same moment are read together."""

from __future__ import annotations

import asyncio

from services.game import shuffle
from services.storage.openings import Opening, read_openings
from services.storage.pool import Pool


class Openings:
    """Reads what matches are opened with. Not more than a few dozen should be asked for in one turn of the loop."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._asked: dict[str, asyncio.Future[Opening | None]] = {}
        self._reading: set[asyncio.Task[None]] = set()

    async def of(self, match_id: str) -> Opening | None:
        """A match as it is stored from now on; None when there is no such match."""
        if not self._asked:
            # Behind all that ask in this turn of the loop.
            task = asyncio.create_task(self._read(), name="read openings")
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)
        if match_id not in self._asked:
            self._asked[match_id] = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._asked[match_id])

    async def _read(self) -> None:
        asked, self._asked = self._asked, {}
        try:
            found = await read_openings(self._pool, list(asked), shuffle.secret)
        except Exception as error:  # noqa: BLE001 - whoever has asked must learn of it
            for answer in asked.values():
                answer.set_exception(error)
                answer.exception()  # nobody needs to be left who would ask for it
            return
        for match_id, answer in asked.items():
            answer.set_result(found.get(match_id))
            # A turn of the loop for each: to replay all of them in one would be a stall for those who play.
            await asyncio.sleep(0)
