"""Many worlds on all cores."""

from __future__ import annotations

import gc
import multiprocessing
import os
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.simulation.faults import FaultySimulation
from tests.simulation.switches import SWITCHES

CHUNK = 8


class Result(NamedTuple):
    """What came of one world."""

    seed: int
    violations: list[str]
    totals: Counter[str]


def run_seed(seed: int, switch: str | None = None, *, watched: bool = False) -> Result:
    """One world, with one rule taken away if `switch` names it."""
    return run_world(seed, switch, watched=watched)[0]


def run_world(seed: int, switch: str | None = None, *, watched: bool = False) -> tuple[Result, list[str]]:
    """As `run_seed`; its diary, too."""
    switches = None if switch is None else SWITCHES[switch].make()
    simulation = FaultySimulation(seed, switches=switches, watched=watched)
    try:
        world = simulation.run()
    except Exception:  # noqa: BLE001 - what fails in a world is found, not lost
        simulation.world.violations.append(f"error: {traceback.format_exc()}")
        world = simulation.world
    return Result(seed, world.violations, world.totals), world.diary


def _work(job: tuple[range, str | None]) -> list[Result]:
    seeds, switch = job
    return [run_seed(seed, switch) for seed in seeds]


def _prepare() -> None:
    gc.collect()
    gc.freeze()


def run_many(
    first: int, count: int, switch: str | None = None, *, processes: int | None = None
) -> Iterator[Result]:
    """Worlds `first` to `first + count - 1`, in no particular order."""
    end = first + count
    jobs = [(range(at, min(at + CHUNK, end)), switch) for at in range(first, end, CHUNK)]
    # Spawned: a forked worker would inherit threads of gRPC that do not run in it.
    with multiprocessing.get_context("spawn").Pool(processes or os.cpu_count(), _prepare) as pool:
        for results in pool.imap_unordered(_work, jobs):
            yield from results


def first_violations(
    names: Iterable[str], *, first: int = 1, most: int = 400, processes: int | None = None
) -> Iterator[tuple[str, Result | None]]:
    """For each of these rules, taken away alone, the first seed in which that is found out."""
    workers = processes or os.cpu_count() or 1
    end = first + most
    with multiprocessing.get_context("spawn").Pool(workers, _prepare) as pool:
        for name in names:
            found: Result | None = None
            at = first
            while found is None and at < end:
                # Few at a time: most rules are missed at once.
                jobs = [(range(begin, min(begin + 2, end)), name) for begin in range(at, at + 2 * workers, 2)]
                at += 2 * workers
                results = [result for results in pool.map(_work, jobs, 1) for result in results]
                found = min((result for result in results if result.violations), default=None)
            yield name, found
