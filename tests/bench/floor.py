"""The floor: grpc.aio alone through as many hops as a move, A and B on one core, the client on the other.

`python -m tests.bench.floor [--matches N ...] [--seconds S]`; `path` runs it too, with the sizes it has met.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from tests.bench.generator import Figures, Generator, generator
from tests.bench.report import Report
from tests.bench.usage import pinned, usage_of

MATCHES: Final = (100, 500)
SECONDS: Final = 5.0
WARMUP_SECONDS: Final = 1.0
STREAMS: Final = 20
SERVICE_CORES: Final = {0}
LOAD_CORES: Final = {1}
ONE_THREAD: Final = "-event_engine_listener,-event_engine_client"
"""GRPC_EXPERIMENTS as `services` sets it, whatever the revision that is measured does."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Mean bytes of a message, without what gRPC and HTTP/2 put around it."""

    sent: int = 52
    """A command."""
    mover: int = 175
    """What its player is told."""
    other: int = 156
    """What the other player is told."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to pass messages on."""

    name: str
    together: bool
    """Whether A sends the messages of a turn of its loop to B in one."""
    fans_out: bool = False
    """Whether both players of a pair are told, as of a move."""
    uvloop: bool = False
    one_thread: bool = False
    """Whether gRPC does without the threads of its event engine, as it does in the services, and not as it comes."""
    aio: bool = False
    """Whether the client is grpc.aio too, on one channel, and not the generator that costs little."""


TOGETHER: Final = Variant("together", together=True)
ONE_BY_ONE: Final = Variant("one by one", together=False)
BOTH_TOLD: Final = Variant("together, both told", together=True, fans_out=True)
VARIANTS: Final = (
    Variant("together, client grpc.aio", together=True, aio=True),
    Variant("one by one, client grpc.aio", together=False, aio=True),
    TOGETHER,
    ONE_BY_ONE,
    BOTH_TOLD,
    Variant("together, both told, uvloop", together=True, fans_out=True, uvloop=True),
    Variant("together, both told, one thread", together=True, fans_out=True, one_thread=True),
)


@dataclass(frozen=True, slots=True)
class Found:
    """What one variant does."""

    variant: Variant
    pairs: int
    figures: Figures
    cost_us: float
    """Processor time of A and B together for a message that has arrived."""

    @property
    def rate(self) -> float:
        """Messages a second that arrived where they were to."""
        return float(self.figures["rate"])


@asynccontextmanager
async def server(*arguments: str, cores: Collection[int], one_thread: bool) -> AsyncIterator[tuple[int, str]]:
    """One of the two servers: its process and its address."""
    with pinned(cores):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.bench.echo", *arguments),
            stdout=asyncio.subprocess.PIPE,
            # The services set it for themselves, and for whatever imports them.
            env={**os.environ, "GRPC_EXPERIMENTS": ONE_THREAD if one_thread else ""},
        )
    try:
        assert process.stdout is not None
        address = (await process.stdout.readline()).decode().strip()
        if not address:
            raise RuntimeError("a server of the floor did not start")
        yield process.pid, address
    finally:
        process.kill()
        await process.wait()


async def measure(
    variant: Variant, pairs: int, sizes: Sizes, *, seconds: float, streams: int, rounds: int = 1
) -> Found:
    """One variant, the best of several rounds."""
    loop = ("--uvloop",) if variant.uvloop else ()
    mover = sizes.mover if variant.fans_out else (sizes.mover + sizes.other) // 2
    arguments = [
        *("a", *loop, "--mover", f"{mover}"),
        *(("--other", f"{sizes.other}") if variant.fans_out else ()),
        *(("--together",) if variant.together else ()),
    ]
    started = partial(server, cores=SERVICE_CORES, one_thread=variant.one_thread)
    async with AsyncExitStack() as exits:
        b, back = await exits.enter_async_context(started("b", *loop))
        a, front = await exits.enter_async_context(started(*arguments, "--back", back))
        spec = {
            "address": front,
            "pairs": pairs,
            "streams": streams,
            "in": sizes.sent,
            "fans_out": variant.fans_out,
            "aio": variant.aio,
        }
        load = await exits.enter_async_context(generator("tests.bench.echo", spec, LOAD_CORES))
        await load.go(None, WARMUP_SECONDS)
        found = [await _round(variant, pairs, load, {"a": a, "b": b}, seconds) for _ in range(rounds)]
    return min(found, key=lambda one: one.cost_us)


async def _round(
    variant: Variant, pairs: int, load: Generator, pids: Mapping[str, int], seconds: float
) -> Found:
    before = usage_of(pids)
    await load.count(seconds)
    spent = usage_of(pids).since(before)
    figures = await load.counted()
    return Found(variant, pairs, figures, sum(spent.values()) / figures["moves"] * 1e6)


def tell(report: Report, floors: Collection[Found], sizes: Sizes, streams: int) -> None:
    """The table."""
    report.table(
        "Floor: grpc.aio client - A - B - A - client, messages that arrived a second, milliseconds",
        ("pairs", "A to B", "messages/s", "p50", "p95", "p99", "µs of A and B", "load"),
        [
            (
                floor.pairs,
                floor.variant.name,
                floor.rate,
                *(floor.figures[name] for name in ("p50", "p95", "p99")),
                floor.cost_us,
                f"{floor.figures['busy']:.0%}",
            )
            for floor in floors
        ],
    )
    report.note(
        f"bytes of a message: {sizes.sent} in, {sizes.mover} to who sent it, {sizes.other} to the other "
        f"(one stream alone: their mean); {streams} streams a connection"
    )


async def measure_all(report: Report, options: argparse.Namespace) -> list[Found]:
    """Each variant at each number of pairs."""
    floors = []
    for pairs in options.matches:
        for variant in VARIANTS:
            report.progress(f"{pairs} pairs, {variant.name}")
            floors.append(
                await measure(variant, pairs, Sizes(), seconds=options.seconds, streams=options.streams)
            )
    return floors


def main() -> None:
    """Measures and tells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--matches", type=int, nargs="+", default=list(MATCHES), help="pairs of players")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--streams", type=int, default=STREAMS, help="on one connection")
    options = parser.parse_args()
    os.sched_setaffinity(0, LOAD_CORES)
    report = Report("floor")
    tell(report, asyncio.run(measure_all(report, options)), Sizes(), options.streams)
    report.finish()


if __name__ == "__main__":
    main()
