"""Draining, with every fault around it: no world violates anything, and matches do change hands."""

from __future__ import annotations

from tests.simulation.drains import DrainedSimulation

SEEDS = range(1, 9)


def test_a_drain_costs_nobody_anything_whatever_else_goes_wrong() -> None:
    """Of all the worlds in which nothing severe happens, none may void a match or charge time that was nobody's."""
    bad, handed = [], 0
    for seed in SEEDS:
        simulation = DrainedSimulation(seed)
        bad += [(seed, str(violation)) for violation in simulation.run().violations]
        incidents = simulation.database.tables.incident.values()
        handed += sum(row["kind"] == "handoff" for row in incidents)
    assert bad == []
    assert handed > 1
