"""Many pairs, in as many processes as wanted: a module of its own, which the processes can import by name."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from client.arena.match import Contestant, play_pair
from client.bots.levels import LEVELS
from client.bots.search import deals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from client.arena.match import Played


def played(one: str, other: str, seed: int, looked: int, pair: int) -> tuple[Played, Played]:
    """One pair; what a worker process does."""
    budget = deals(looked)
    return play_pair(
        Contestant(LEVELS[one].choose, budget), Contestant(LEVELS[other].choose, budget), seed=seed, pair=pair
    )


def pairs(
    one: str, other: str, *, seed: int, looked: int, count: int, jobs: int
) -> Iterator[tuple[Played, Played]]:
    """The pairs in order, the same ones whatever the number of processes."""
    work = partial(played, one, other, seed, looked)
    if jobs == 1:
        yield from map(work, range(count))
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as workers:
        yield from workers.map(work, range(count))
