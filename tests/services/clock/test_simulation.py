"""Random worlds: no wrong forfeit, no wrong accept, nothing undecided, whatever breaks."""

from __future__ import annotations

import pytest

from tests.services.clock.simulation import BANK, Disabled, Faults, Outcome, World

SEEDS = 80
EVERYTHING = Faults(stall=0.5, cut=0.5, crash=0.3)


def broken(outcome: Outcome) -> list[object]:
    """Everything that must not be."""
    return [*outcome.wrong, *outcome.faults]


@pytest.mark.parametrize(
    "faults",
    [Faults(), Faults(stall=0.7), Faults(cut=0.7), Faults(crash=0.6), EVERYTHING],
    ids=["calm", "stalls", "cuts", "crashes", "everything"],
)
def test_no_fault_decides_a_match(faults: Faults) -> None:
    """Invariants I2 to I8, I18, I19, I21, with real timekeeper, link and live time."""
    timeouts = verdicts = 0
    for seed in range(SEEDS):
        outcome = World(seed, faults).run()
        assert broken(outcome) == [], f"seed {seed}"
        assert outcome.ended_at is not None
        timeouts += outcome.timeout is not None
        verdicts += len(outcome.verdicts)
    # The worlds are worth something only if both ends happen.
    assert timeouts > SEEDS // 20
    assert verdicts > 3 * SEEDS


def judged(outcome: Outcome) -> object:
    """What was decided, without when and by whom."""
    charges = [(v.key, v.command_id, v.elapsed_ns, v.charge_ns, v.bank_after_ns) for v in outcome.verdicts]
    lost = outcome.timeout and (outcome.timeout.key, outcome.timeout.seat)
    return charges, lost


@pytest.mark.parametrize("faults", [Faults(cut=0.7), Faults(crash=0.7)], ids=["cuts", "crashes"])
def test_losing_the_clock_changes_no_charge(faults: Faults) -> None:
    """Invariants I10 and I11: amnesia cannot be seen, a lost session costs nobody anything."""
    for seed in range(SEEDS):
        assert judged(World(seed, faults).run()) == judged(World(seed, Faults()).run()), f"seed {seed}"


def test_banks_only_shrink_and_pay_exactly_what_was_charged() -> None:
    """Invariant I1."""
    for seed in range(SEEDS):
        outcome = World(seed, EVERYTHING).run()
        banks = {"north": BANK, "south": BANK}
        for verdict in outcome.verdicts:
            # The seats alternate with the decisions, south first.
            seat = "south" if verdict.key.decision_no % 2 else "north"
            assert verdict.bank_after_ns == banks[seat] - verdict.charge_ns
            assert verdict.charge_ns >= 0
            banks[seat] = verdict.bank_after_ns


@pytest.mark.parametrize(
    "disabled",
    [
        Disabled(probe=True),
        Disabled(idle_stamp=True),
        Disabled(attach_no=True),
        Disabled(free_commit=True),
    ],
    ids=["timer decides", "stamp is now", "older sessions count", "commits are charged"],
)
def test_each_rule_is_needed(disabled: Disabled) -> None:
    """Scenario 49: with any rule taken away the checks above must find something."""
    calm = [judged(World(seed, Faults()).run()) for seed in range(SEEDS)]
    for seed in range(4 * SEEDS):
        outcome = World(seed, EVERYTHING, disabled).run()
        if broken(outcome):
            return
        if disabled.free_commit and seed < SEEDS:
            # Nobody is wronged within a decision; what commits cost shows in the charges.
            world = World(seed, Faults(), disabled)
            if judged(world.run()) != calm[seed]:
                return
    pytest.fail("nothing noticed")
