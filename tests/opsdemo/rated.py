"""Pairs of players who find each other in the rated pool, play a little, and resign: what the ladder decides about."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Final

from client.bots import greedy
from client.errors import CallError, ClientError, Refused
from client.session import RATED, Client
from client.table import TableState
from engine.command import Command, Resign
from tests.chaos.rig import GAMES, Rig

THINK_SECONDS: Final = 0.3
RESIGNS: Final = 0.04
"""How likely a player resigns at a question."""
AGAIN_SECONDS: Final = 0.5


@dataclass
class Rated:
    """So many players who seek, play and seek again, until `finish`."""

    rig: Rig
    seed: int = 2
    finished: int = 0
    """Matches that players have seen to their end; each is seen by two."""
    again: int = 0
    """How often a player had to begin anew after an error of the service."""
    _finishing: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def begin(self, players: int) -> None:
        """They seek from now on."""
        for number, player in enumerate(await self.rig.stack.players(players)):
            client = self.rig.client(player, GAMES[number % len(GAMES)])
            self._tasks.append(asyncio.create_task(self._seek_and_play(client, number)))

    async def finish(self, seconds_max: float) -> None:
        """Nobody seeks any more; matches under way end soon."""
        self._finishing.set()
        done, pending = await asyncio.wait(self._tasks, timeout=seconds_max)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for task in done:
            task.result()

    async def cancel(self) -> None:
        """Ends everything at once."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _seek_and_play(self, client: Client, number: int) -> None:
        rng = random.Random(f"{self.seed} {number}")
        async with client:
            while not self._finishing.is_set():
                try:
                    await self._one(client, rng)
                except CallError as error:
                    self.again += 1
                    await self._pause(error.retry_after_seconds or AGAIN_SECONDS)
                except ClientError:
                    self.again += 1
                    await self._pause(AGAIN_SECONDS)

    async def _one(self, client: Client, rng: random.Random) -> None:
        seeking = asyncio.create_task(client.seek(RATED))
        finishing = asyncio.create_task(self._finishing.wait())
        try:
            await asyncio.wait({seeking, finishing}, return_when=asyncio.FIRST_COMPLETED)
            if not seeking.done():
                return
            match = seeking.result()
        finally:
            for task in (seeking, finishing):
                task.cancel()
            await asyncio.gather(seeking, finishing, return_exceptions=True)
        async with client.play(match) as stream:
            async for table in stream.questions():
                await self._pause(rng.uniform(0.5, 1.5) * THINK_SECONDS)
                command = self._choose(table, rng)
                if command is None:
                    continue
                try:
                    await stream.submit(command, decision_id=table.prompt.decision_id)
                except Refused:
                    continue
        self.finished += 1

    def _choose(self, table: TableState, rng: random.Random) -> Command | None:
        timed = table.prompt.to_act is not None
        if timed and table.seat is not None and (self._finishing.is_set() or rng.random() < RESIGNS):
            return Resign(table.seat)
        return greedy.choose(table)

    async def _pause(self, seconds: float) -> None:
        if self._finishing.is_set():
            seconds = 0.02
        try:
            await asyncio.wait_for(self._finishing.wait(), seconds)
        except TimeoutError:
            return
        await asyncio.sleep(0.02)
