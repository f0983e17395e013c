"""The matches on this process that players have made themselves: how many there are, and whose."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PLAYER_SHARE: Final = 10
PLAYER_MIN: Final = 4
"""Of those that there is room for, one in so many may be one player's, and so many in any case."""


class Created:
    """Counts them, so that making one does not take the longer the more matches there are."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._player_most = max(PLAYER_MIN, most // PLAYER_SHARE)
        self._by_player: Counter[str | None] = Counter()
        self._all = 0
        self._under_way = 0

    @contextmanager
    def making(self, player_id: str, free: int) -> Iterator[bool]:
        """A match is made for a player who asks for it; whether there is room for it, where `free` is how many more this
        process plays.

        Those that are over count for as long as they stay: else nothing would keep anybody from making any number.
        """
        room = (
            self._all + self._under_way < self._most
            and self._by_player[player_id] < self._player_most
            and self._under_way < free
        )
        self._under_way += 1
        try:
            yield room
        finally:
            self._under_way -= 1

    def count(self, player_id: str | None, playing: asyncio.Task[None]) -> None:
        """A match that this player has made is here, until the task that plays it is over."""
        self._by_player[player_id] += 1
        self._all += 1
        playing.add_done_callback(lambda _: self._gone(player_id))

    def _gone(self, player_id: str | None) -> None:
        self._all -= 1
        self._by_player[player_id] -= 1
        if not self._by_player[player_id]:
            # Nobody is remembered for what he had once.
            del self._by_player[player_id]
