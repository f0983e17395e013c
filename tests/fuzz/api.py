"""A fuzzer of the whole API: real processes, many callers at once, and a model that says what each answer had to be.

`python -m tests.fuzz.api --seconds 60 --seed 1` runs it alone. Every choice follows from the seed; in which order the
answers of different callers come does not, so what is found says what was sent last.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from services.local.postgres import EmbeddedPostgres
from services.storage.migrate import migrate
from tests.fuzz.apiafter import Before
from tests.fuzz.apifleeting import fleeting
from tests.fuzz.apiqueue import seekers
from tests.fuzz.apitable import table
from tests.fuzz.apivisits import Visits
from tests.fuzz.apiworld import World
from tests.stack import Stack, stack

PROCESSES: Final = ("clock", "matchmaking", "game", "game-1")
TABLES: Final = 6
"""Matches at once."""
QUEUES: Final = 2
"""Crowds of seekers at once."""
VISITORS: Final = 3
"""People who call everything else."""


@dataclass
class Summary:
    """What a run came to."""

    seed: int
    seconds: float
    calls: int
    matches: int
    commands: int
    findings: list[str]
    """Everything that must not be, each with the last calls before it. Empty when all is well."""
    answers: Counter[str] = field(default_factory=Counter)
    """How often each rpc said what."""
    outcomes: Counter[str] = field(default_factory=Counter)

    def text(self) -> str:
        """For people."""
        lines = [f"{name:<48} {count:>8,}" for name, count in sorted(self.answers.items())]
        lines.append(f"outcomes: {dict(self.outcomes)}")
        lines.append(
            f"seed {self.seed}: {self.calls:,} calls, {self.commands:,} commands in {self.matches} matches,"
            f" {len(self.answers)} kinds of answers, {len(self.findings)} findings in {self.seconds:.0f} s"
        )
        return "\n".join([*self.findings, *lines])


async def tables(world: World, seed: str) -> None:
    """One created match after the other."""
    rng = random.Random(seed)
    while world.open:
        device = rng.random() < 0.2
        players = await world.players(1 if device else 2)
        ledger = await world.create(rng, players[0], None if device else players[1])
        if ledger is not None:
            await table(world, ledger, rng)


async def queues(world: World, seed: str) -> None:
    """One crowd of seekers after the other."""
    rng = random.Random(seed)
    while world.open:
        await seekers(world, rng)


async def visits(world: World, seed: str) -> None:
    """One call after the other by people who have no business here."""
    rng = random.Random(seed)
    while world.open:
        visitor = Visits(world, random.Random(rng.random()))
        for _ in range(rng.randrange(1, 60)):
            await visitor.one()


async def onlookers(world: World, seed: str) -> None:
    """One token after the other that ends while its holder looks on."""
    rng = random.Random(seed)
    while world.open:
        await asyncio.sleep(0.1)  # until there is something to look at
        await fleeting(world, rng)


async def run(made: Stack, seconds: float, seed: int, *, calls_max: int = 10**9) -> Summary:
    """Fuzzes a running stack for so long, or so many calls; what is open by then is still ended and judged."""
    began = time.monotonic()
    world, before = World.on(made, seed, seconds, calls_max), await Before.of(made)
    async with asyncio.TaskGroup() as group:
        for number in range(TABLES):
            group.create_task(tables(world, f"{seed}/table/{number}"))
        for number in range(QUEUES):
            group.create_task(queues(world, f"{seed}/queue/{number}"))
        group.create_task(onlookers(world, f"{seed}/onlooker"))
        for number in range(VISITORS):
            group.create_task(visits(world, f"{seed}/visitor/{number}"))
    for fault in await before.faults(world.salts, world.ever):
        world.find(fault)
    return Summary(
        seed,
        time.monotonic() - began,
        world.caller.calls,
        world.judged,
        world.commands,
        world.findings,
        world.caller.said,
        world.outcomes,
    )


async def main(seconds: float, seed: int) -> Summary:
    """Fuzzes a stack of its own for so long."""
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="spectacular-bid-fuzz-")))
        server = held.enter_context(EmbeddedPostgres(folder / "postgres", durable=False))
        await asyncio.to_thread(migrate, server.url)
        async with stack(folder, server.url, names=PROCESSES) as made:
            return await run(made, seconds, seed)


def _command_line() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    summary = asyncio.run(main(options.seconds, options.seed))
    print(summary.text())
    return 1 if summary.findings else 0


if __name__ == "__main__":
    sys.exit(_command_line())
