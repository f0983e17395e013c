"""A house bot: it finds the matches it was put into and plays them all at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from client.bots.player import play
from client.bots.sitting import Sitting
from client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable

    from client.bots.levels import Level
    from client.bots.sitting import Thinker
    from client.session import Client

_LOOK_SECONDS: Final = 0.5


class House:
    """One bot identity at any number of tables."""

    def __init__(self, client: Client, level: Level, thinker: Thinker, report: Callable[[str], None]) -> None:
        self._client = client
        self._level = level
        self._thinker = thinker
        self._report = report
        self._tables: set[str] = set()

    async def run(self) -> None:
        """Play until cancelled. A service that is away, or a match that goes wrong, ends nothing else."""
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    async for summary in self._client.my_matches(live_only=True):
                        if summary.match_id not in self._tables:
                            self._tables.add(summary.match_id)
                            group.create_task(self._play(summary.match_id, summary.address))
                except ClientError as error:
                    self._report(f"{self._level.name} cannot list matches: {error}")
                await asyncio.sleep(_LOOK_SECONDS)

    async def _play(self, match_id: str, address: str) -> None:
        self._report(f"{match_id} {self._level.name} sits down")
        sitting = Sitting(self._level, self._thinker, self._report)
        try:
            match = self._client.play(match_id, address or None, house_bot=True)
            table = await play(match, sitting.choose, sitting.hear)
        except ClientError as error:
            # It is looked for again: what went wrong may be over by then.
            self._report(f"{match_id} {self._level.name} gives up for now: {error}")
        else:
            self._report(f"{match_id} is over: {table.outcome}")
        finally:
            self._tables.discard(match_id)
