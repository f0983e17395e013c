"""The deterministic simulation in the suite: a default size with 0 violations, and each rule taken away is found out.

Scenario 49 (random soak over all faults; the same seeds with each rule disabled must fail), scenario 32 (crashes at
every step), and the mutation check of all the others. `make sim SEEDS=20000` runs it at length.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from engine.clock import MILLISECOND, SECOND
from services.game import rooms
from tests.simulation import simulation
from tests.simulation.campaign import run_many, run_seed
from tests.simulation.faults import FaultySimulation
from tests.simulation.matches import new_match
from tests.simulation.simulation import Habits, Simulation, Switches
from tests.simulation.switches import SWITCHES, SlowRoom
from tests.simulation.world import EPOCH

DEFAULT_SEEDS = 40
WALL_SEEDS = (2, 12, 21, 26)
"""Worlds in which matches change hands, are credited, and end in several ways."""

FOUND_BY = {
    **dict.fromkeys(("dedupe", "evidence", "first_verdict", "incidents", "nonsense", "pending"), 1),
    **dict.fromkeys(("pump", "reattach", "still_bank", "told_first", "wall"), 1),
    **dict.fromkeys(("draw", "free_commit", "gaps", "idle_stamp", "mark", "probe_place"), 2),
    **dict.fromkeys(("memory", "timeline"), 38),
    "read_back": 3,
    "reveal": 5,
    "credit": 16,
    "one_client": 17,
    "floor": 25,
    "fence": 54,
    "probe": 58,
    "limit": 76,
    "watermark": 133,
    "attach_no": 192,
    "beat": 281,
    "caps": 961,
    "leaving": 3074,
}
"""For each rule taken away, a seed that finds it out."""

FAILED_ONCE = {
    99: "a process asked itself so often whether it had lived through a deadline that it never came to rest",
    344: "a timeout told again to the next owner could not be explained: its start was on another timeline",
    799: "the simulated kernel clock leapt, and the simulated selector did not look",
    971: "players were heard before their process knew which matches it owns",
    1363: "the simulation took who had opened a turn last for its owner, though another had overtaken it",
    2354: "the simulation took a kernel clock that went back for time in which nobody had listened",
    2470: "a ruling whose commit was repeated credited its incident twice",
    3074: "a process that had lost a match was still taken to listen to its players",
    3705: "a timeout that nobody had stored ended a match that had gone on under another clock",
    7876: "an outage was counted from a proof older than the part of the turn that it ended, and credited twice",
    8522: "a ruling from before a suspension passed for stored, with its credit, because the one after it was",
    9409: "a verdict that nobody had stored, and an owner that a clock did not know of, made a match void there",
    12133: "the simulation took an answer that it made up for the current question for one to an earlier question",
    12730: "a loss on time from before a suspension became the outcome of a match that its log says is void",
    14837: "a turn opened behind a stall was credited with all of the stall, and began only so much later",
    16486: "the simulation took a stall for over while the kernel clock stood still, and counted no gap for it",
}
"""Seeds that showed something, and what."""


@cache
def violations(seed: int) -> list[str]:
    """What a world violates: it is the same whoever asks."""
    return run_seed(seed).violations


@pytest.mark.parametrize("first", [1, pytest.param(1 + DEFAULT_SEEDS, marks=pytest.mark.long)])
def test_no_world_violates_anything(first: int) -> None:
    """Scenario 49, at the size of a test run."""
    bad = [result for result in run_many(first, DEFAULT_SEEDS) if result.violations]
    assert not bad, [(result.seed, result.violations[0]) for result in sorted(bad)]


def test_the_same_seed_is_the_same_world() -> None:
    """A seed that is printed can be run again."""
    assert run_seed(15) == run_seed(15)


@pytest.mark.parametrize("switch", sorted(SWITCHES))
def test_a_rule_taken_away_is_found_out(switch: str) -> None:
    """A simulation that cannot fail proves nothing; the same seed with the rule is well."""
    seed = FOUND_BY[switch]
    assert run_seed(seed, switch).violations
    assert not violations(seed)


@pytest.mark.parametrize("busy", [True, False], ids=["busy", "stopped"])
def test_a_start_that_comes_while_nobody_listens_is_no_no_show(
    busy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 7.2: a limit is time in which the service could hear the players, as a bank is."""

    class Paused(Simulation):
        """Both processes stand still when the limit for Start is reached."""

        def plan(self) -> None:
            self.truth.faultless, self.habits = False, Habits(absent=0.0)
            for game in self.games.values():
                self.world.at(EPOCH + 1500 * MILLISECOND, lambda game=game: game.pause(3 * SECOND, busy=busy))  # type: ignore[misc]

    monkeypatch.setattr(
        simulation,
        "new_match",
        lambda *given, **more: replace(new_match(*given, **more), start_limit_ns=3 * SECOND),
    )
    assert not Paused(1).run().violations


def test_a_slow_line_alone_is_well() -> None:
    """Rule R5: what waits in line is nobody's time as long as probes wait behind it."""
    switches = Switches(patches={rooms: {"Room": SlowRoom}})
    assert not FaultySimulation(FOUND_BY["probe_place"], switches=switches).run().violations


@pytest.mark.parametrize("seed", WALL_SEEDS)
def test_wall_clocks_that_are_set_change_nothing(seed: int) -> None:
    """Invariant I22: the same world with hosts whose wall clocks step by seconds, hours and days, and without."""
    kept = []
    for steps in (True, False):
        faulty = FaultySimulation(seed, wall_steps=steps)
        assert not faulty.run().violations
        tables = faulty.database.tables
        touched = [(key[1], row) for key, row in tables.touched.items()]
        kept.append((tables.log, tables.outcome, tables.evidence, touched))
    assert kept[0] == kept[1]


@pytest.mark.parametrize("seed", sorted(FAILED_ONCE))
def test_a_world_that_failed_once_is_well(seed: int) -> None:
    """What the simulation found stays found."""
    assert not violations(seed), FAILED_ONCE[seed]
