"""The short version of `make chaos`: a few of its faults under a few matches, everything checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.clock import SECOND
from engine.seats import BySeat
from tests.chaos import checks
from tests.chaos.campaign import campaign, describe
from tests.chaos.injections import short
from tests.chaos.players import Book, Pace, Said
from tests.stack import stack

MATCHES = 4
pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.long
async def test_everything_holds_through_faults_of_every_kind(tmp_path: Path) -> None:
    """Processes killed and paused, links cut and half-open, PostgreSQL killed: one outcome a match, nothing acknowledged
    lost, nobody forfeits or is charged for our faults, no void, every match reproduced. Leases are shorter than by
    default, to save time."""
    pace = Pace(think=0.4, delay=0.4)
    done = await campaign(
        tmp_path, short(), MATCHES, pace, print, quick={"LEASE_SECONDS": "2"}, calm_seconds=0.5
    )
    assert not done.faults
    assert not done.findings.faults
    assert done.findings.turns > 100
    assert set(done.findings.outcomes) <= {"balance", "resignation"}
    for seen in done.seen:
        assert seen.went_on == seen.matches >= 1, describe(seen)
        assert (seen.voids, seen.forfeits) == (0, 0), describe(seen)
    assert done.findings.incidents["takeover"]


def said(match_id: str, *, sent: float, answered: float) -> Said:
    """An acknowledged command of a turn that was asked for at 10 s."""
    return Said(
        match_id, "north", "r1", 1, 1, timed=True, earliest=9.9, heard=10, sent=sent, answered=answered
    )


async def test_the_checks_find_what_must_not_be(database_url: str, tmp_path: Path) -> None:
    """A match that never ends, a command that was acknowledged and is nowhere, a player who gave up."""
    async with stack(tmp_path, database_url) as made:
        players = BySeat(*await made.players(2))
        match_id = await made.create(players)
    book = Book(said=[said(match_id, sent=11, answered=11)], gave_up=["unreachable"])
    found = await checks.check(database_url, book)
    assert [fault.partition(":")[0] for fault in found.faults] == [
        f"match {match_id} has no outcome",
        "acknowledged and lost",
        "a player gave up",
    ]


@pytest.mark.parametrize(
    ("charge", "credited", "outside"),
    [(1.0, 0.0, 0.0), (1.2, 0.0, 0.088), (0.9, 0.0, -0.038), (0.5, 0.5, 0.0), (0.0, 0.5, -0.438)],
)
async def test_a_charge_is_held_against_the_own_times_of_the_player(
    charge: float, credited: float, outside: float
) -> None:
    """Three seconds of thought with a delay of two; the answer came at once, the question 0.1 s after the last move."""
    own = [said("m", sent=13, answered=13)]
    parts = [{"charge_ns": round(charge * SECOND), "elapsed_ns": 3 * SECOND}]
    assert checks._compare(own, parts, credited, 2.0, checks.Findings()) == pytest.approx(outside)
