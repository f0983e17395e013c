"""Draining, with every fault around it: no world violates anything, and matches do change hands."""

from __future__ import annotations

from tests.simulation.drains import DrainedSimulation

SEEDS = (2, 5, 7, 16, 21, 24, 27, 35, 39, 76, 113, 123)
"""Worlds in which drained processes hand matches over: between turns, in the middle of one, and in vain."""


def test_a_drain_costs_nobody_anything_whatever_else_goes_wrong() -> None:
    """Nothing severe happens in these worlds: no match may be void, and nobody charged what was not theirs."""
    bad, handed, taken_back = [], 0, 0
    for seed in SEEDS:
        simulation = DrainedSimulation(seed)
        bad += [(seed, str(violation)) for violation in simulation.run().violations]
        incidents = simulation.database.tables.incident.values()
        handed += sum(row["kind"] == "handoff" for row in incidents)
        taken_back += simulation.world.totals["log handover_taken_back"]
    assert bad == []
    assert handed >= len(SEEDS)
    assert taken_back > 0
