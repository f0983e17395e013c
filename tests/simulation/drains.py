"""Operators who take game processes out of service and put them back, in worlds with all the faults.

`python -m tests.simulation.drains FIRST LAST` runs the seeds between.
"""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Sequence
from typing import Any, Final
from uuid import UUID

from engine.clock import MILLISECOND, SECOND
from services.game.handover import Handover
from services.storage.processorders import Standing
from tests.simulation.database import Backend, Row, Tables, live, says
from tests.simulation.faults import FIRST_NS, TROUBLE_NS, FaultySimulation
from tests.simulation.game import DRAIN_SECONDS, GameProcess
from tests.simulation.owners import lease_holds, own
from tests.simulation.simulation import ENGINES
from tests.simulation.world import EPOCH

CAPACITIES: Final = (1, 3, 100)
PATIENCES_NS: Final = (0, SECOND, 10 * SECOND)


def _ready(backend: Backend, tables: Tables, engine_id: str) -> list[tuple[str, Row]]:
    return [
        (name, lease)
        for name, lease in sorted(tables.lease.items())
        if name != engine_id and lease["standing"] == "ready" and lease_holds(backend, tables, name)
    ]


@says("select coalesce(sum(greatest(0, l.capacity")
def room_elsewhere(backend: Backend, tables: Tables, engine_id: str) -> list[Row]:
    """What the others would take."""
    owned = [owner["engine_id"] for _, owner in live(tables)]
    others = _ready(backend, tables, engine_id)
    return [{"room": sum(max(0, lease["capacity"] - owned.count(name)) for name, lease in others)}]


@says("select address from engine_lease")
def ready_elsewhere(backend: Backend, tables: Tables, engine_id: str) -> list[Row]:
    """One of them."""
    return [{"address": lease["address"]} for _, lease in _ready(backend, tables, engine_id)][:1]


@says("with offered as ( select o.match_id")
def take_back(
    backend: Backend, tables: Tables, engine_id: str, match_ids: Sequence[UUID], fences: Sequence[int]
) -> list[Row]:
    """What nobody has taken up."""
    rows, wall = [], backend.database.wall_ns()
    for match_id, fence in zip(map(str, match_ids), fences, strict=True):
        owner = tables.owner[match_id]
        backend.lock("owner", match_id)
        handed = owner["handed_over_at"]
        if (owner["engine_id"], owner["fence"], owner["released_at"]) == (engine_id, fence, None) and handed:
            at = backend.database.wall()
            rows.append({"match_id": UUID(match_id), "fence": fence + 1, "at": at, "gap": wall - handed})
            own(backend, owner, engine_id)
    return rows


class DrainedProcess(GameProcess):
    """As services.game.__main__, with what obeys operators."""

    drained: set[str]
    patience_ns: int
    handover: Handover

    def obey(self, drained: set[str], capacity: int, patience_ns: int) -> None:
        """What others order, what it says to others, and how long it waits for the end of a turn."""
        self.drained = drained
        self.patience_ns = patience_ns
        self.lease.capacity = capacity
        self.lease.standing = self._standing

    def _standing(self) -> Standing:
        if self._stopping.is_set():
            return "leaving"
        return "drained" if self.engine_id in self.drained else "ready"

    async def leave(self) -> None:
        """One match after another as long as there is time, then the rest at once."""
        await self.lease.say_standing()
        await self.handover.hurry(DRAIN_SECONDS / 2)
        await super().leave()

    def duties(self) -> list[Coroutine[Any, Any, None]]:
        """Handing over while that is wanted."""
        self.handover = Handover(
            self.pool, self.rooms, self.engine_id, self._wanted, patience_ns=self.patience_ns
        )
        return [self.handover.run()]

    def _wanted(self) -> bool:
        self.rooms.in_service = self.engine_id not in self.drained
        return not self.rooms.in_service


class DrainedSimulation(FaultySimulation):
    """Faults, and orders beside them."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.drained: set[str] = set()
        self.orders = self.world.dice("orders")

    def make_game(self, *given: Any) -> GameProcess:
        """A process that obeys."""
        made = DrainedProcess(*given)
        made.obey(self.drained, self.orders.choice(CAPACITIES), self.orders.choice(PATIENCES_NS))
        return made

    def plan(self) -> None:
        """One process or the other is drained and comes back, several times."""
        super().plan()
        self.truth.faultless = False
        dice, at = self.orders, EPOCH + FIRST_NS
        for _ in range(dice.randrange(1, 6)):
            at += dice.randrange(6 * SECOND)
            self.world.at(at, lambda: self._order(dice.choice(ENGINES)))

    def _order(self, engine: str) -> None:
        if self._over():
            return
        self._trouble(TROUBLE_NS)
        if engine in self.drained:
            self.drained.discard(engine)
            self.world.count("fault resume")
        elif not self.drained:
            self.drained.add(engine)
            self.world.count("fault drain")
            again_ns = self.orders.randrange(100, 20_000) * MILLISECOND
            self.world.after(again_ns, lambda: self.drained.discard(engine))


def main(first: int, last: int) -> int:
    """Many such worlds; status 1 when anything is violated."""
    bad = 0
    for seed in range(first, last + 1):
        violations = DrainedSimulation(seed).run().violations
        bad += bool(violations)
        for violation in violations[:1]:
            sys.stdout.write(f"seed {seed}: {violation}\n")
    sys.stdout.write(f"{last - first + 1} worlds with drains: {bad} with violations\n")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
