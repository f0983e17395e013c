"""What the pools do: pair, wait, or take nobody; as operators have ordered, and as this process knows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from services.matchmaking.metrics import SeekMetrics
from services.matchmaking.seekers import POOLS
from services.storage.poolorders import PoolOrder
from services.storage.seeks import PoolName


class Mode(StrEnum):
    """What a pool does."""

    OPEN = "open"
    """Takes seeks and pairs them."""
    PAUSED = "paused"
    """Takes seeks and pairs nobody: who waits keeps her place, and the time counts."""
    DRAINING = "draining"
    """Takes no seeks and ends those it has; live matches go on."""


_MODES = {"pause": Mode.PAUSED, "drain": Mode.DRAINING}


@dataclass(frozen=True, slots=True)
class PoolState:
    """One pool now."""

    mode_order: PoolOrder | None = None
    """What it is paused or drained by."""
    announced: PoolOrder | None = None

    @property
    def mode(self) -> Mode:
        """What the pool does."""
        return Mode.OPEN if self.mode_order is None else _MODES[self.mode_order.action]

    @property
    def announcement(self) -> str:
        """What those who wait are shown; empty for nothing."""
        return "" if self.announced is None else self.announced.announcement


class Pools:
    """The state of every pool."""

    def __init__(self, metrics: SeekMetrics) -> None:
        self._states: dict[PoolName, PoolState] = {pool: PoolState() for pool in POOLS}
        for pool in POOLS:
            for mode in (Mode.PAUSED, Mode.DRAINING):
                metrics.closed.labels(pool, mode.value).set_function(partial(self._is, pool, mode))

    def __getitem__(self, pool: PoolName) -> PoolState:
        return self._states[pool]

    def _is(self, pool: PoolName, mode: Mode) -> int:
        return int(self._states[pool].mode is mode)

    def pairs(self, pool: PoolName) -> bool:
        """Whether matches are made in a pool."""
        return self._states[pool].mode is Mode.OPEN

    def drains(self, pool: PoolName) -> bool:
        """Whether a pool takes nobody."""
        return self._states[pool].mode is Mode.DRAINING

    def put(self, in_force: Iterable[PoolOrder]) -> set[PoolName]:
        """These orders are in force and no others; the pools whose state has changed."""
        states = {pool: PoolState() for pool in POOLS}
        for order in in_force:
            old = states[order.pool]
            states[order.pool] = (
                PoolState(old.mode_order, order)
                if order.action == "announce"
                else PoolState(order, old.announced)
            )
        changed = {pool for pool in POOLS if states[pool] != self._states[pool]}
        self._states = states
        return changed
