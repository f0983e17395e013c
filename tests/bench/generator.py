"""A load generator is a process of its own on a core of its own; it takes orders line by line and answers with figures.

Two orders make a phase: a pace with a warm-up that is not counted, then the seconds that are. The pace is None for a
closed loop (whoever may act acts at once), a number for that many moves a second (due at random times fixed ahead), 0
for rest.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import selectors
import signal
import sys
import time
import traceback
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tests.bench.usage import pinned

READY, WARM, OVER, COUNTED = "ready", "warm", "over", "counted"
SELECTED_MAX: Final = 900
"""Connections that `select` can wait for; it wakes to the microsecond, everything else to the millisecond."""
SECONDS_MAX: Final = 300.0
"""How long a step of the generator may take beyond what was ordered."""

Figures = dict[str, Any]


class Load(Protocol):
    """What a generator does."""

    async def set_up(self) -> None:
        """Connects and prepares; at rest afterwards."""

    def go(self, pace: float | None) -> None:
        """From now on at this pace."""

    def count(self) -> None:
        """From now on it counts."""

    def stop(self) -> None:
        """It goes on, and counts no more."""

    async def counted(self) -> Figures:
        """What was counted, when what was under way has arrived."""


def quantile(ordered: Sequence[float], share: float) -> float:
    """Of sorted values: the smallest that at least this share does not exceed; nan where there are none."""
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)] if ordered else math.nan


@dataclass
class Tally:
    """What any load counts: moves and how long they took."""

    latencies: list[float] = field(default_factory=list)
    began: float = 0.0
    cpu_began: float = 0.0
    seconds: float = 0.0
    busy: float = 0.0

    def begin(self) -> None:
        """From now on."""
        self.latencies.clear()
        self.began, self.cpu_began = time.monotonic(), time.process_time()

    def end(self) -> None:
        """Up to now."""
        self.seconds = time.monotonic() - self.began
        self.busy = (time.process_time() - self.cpu_began) / self.seconds

    def figures(self, moves: int) -> Figures:
        """Moves a second, milliseconds they took, and the share of its core that this process used."""
        took = sorted(self.latencies)
        at = {f"p{share:g}": quantile(took, share / 100) * 1000 for share in (50, 95, 99)}
        return {
            "moves": moves,
            "rate": moves / self.seconds,
            "seconds": self.seconds,
            "busy": self.busy,
            **at,
        }


def serve(load: Load, connections: int) -> None:
    """The generator's process: carries orders out until its input ends. A fault of the load ends it at once."""
    selector = selectors.SelectSelector() if connections < SELECTED_MAX else selectors.DefaultSelector()
    loop = asyncio.SelectorEventLoop(selector)
    loop.set_exception_handler(_fail)
    loop.run_until_complete(_serve(load))


def _fail(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    sys.stderr.write(f"the load generator failed: {context['message']}\n")
    traceback.print_exception(context.get("exception"))
    sys.stderr.flush()
    os._exit(1)


async def _serve(load: Load) -> None:
    await load.set_up()
    _say({"step": READY})
    while order := await asyncio.to_thread(sys.stdin.readline):
        match json.loads(order):
            case {"pace": pace, "warmup": warmup}:
                load.go(pace)
                await asyncio.sleep(warmup)
                _say({"step": WARM})
            case {"seconds": seconds}:
                load.count()
                await asyncio.sleep(seconds)
                load.stop()
                _say({"step": OVER})
                _say({"step": COUNTED, **await load.counted()})


def _say(what: Figures) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class Generator:
    """The other end: gives the orders."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    async def go(self, pace: float | None, warmup: float) -> None:
        """A new pace; returns after the warm-up."""
        await self._order({"pace": pace, "warmup": warmup})
        await self.hear(WARM, warmup)

    async def count(self, seconds: float) -> None:
        """Counts for so long, from now on."""
        await self._order({"seconds": seconds})
        await self.hear(OVER, seconds)

    async def counted(self) -> Figures:
        """What was counted."""
        return await self.hear(COUNTED, 0.0)

    async def _order(self, order: Figures) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write((json.dumps(order) + "\n").encode())
        await self._process.stdin.drain()

    async def hear(self, step: str, seconds: float) -> Figures:
        """The next line, which must be this step. Raises RuntimeError when it failed or says nothing."""
        assert self._process.stdout is not None
        async with asyncio.timeout(seconds + SECONDS_MAX):
            line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError("the load generator ended")
        found: Figures = json.loads(line)
        if found["step"] != step:
            raise RuntimeError(f"{step} was awaited, not {found}")
        return found


@asynccontextmanager
async def generator(module: str, spec: Figures, cores: Collection[int]) -> AsyncIterator[Generator]:
    """Starts `python -m module` on these cores, hands it the specification, waits until it is set up; ends it."""
    with pinned(cores):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", module),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
    try:
        assert process.stdin is not None
        process.stdin.write((json.dumps(spec) + "\n").encode())
        await process.stdin.drain()
        made = Generator(process)
        await made.hear(READY, 0.0)
        yield made
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()
