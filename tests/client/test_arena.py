"""The arena: the same seed plays the same matches, on the same deals with the seats changed, in any number of processes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from client.arena.__main__ import app
from client.arena.match import Contestant, Effort, Played, deal, play_pair
from client.arena.pairs import pairs
from client.arena.tally import Tally
from client.bots.levels import LEVELS
from client.bots.search import deals
from engine.seats import NORTH, SOUTH, BySeat, Seat


def results(one: str, other: str, *, seed: int, jobs: int) -> list[tuple[Seat, int]]:
    played = pairs(one, other, seed=seed, looked=16, count=2, jobs=jobs)
    return [(match.winner, match.rounds) for pair in played for match in pair]


def test_a_seed_plays_the_same_matches_in_any_number_of_processes() -> None:
    alone = results("strong", "easy", seed=3, jobs=1)
    assert alone == results("strong", "easy", seed=3, jobs=2)
    assert alone != results("strong", "easy", seed=4, jobs=1)


def test_a_pair_has_the_same_deals_with_the_seats_changed() -> None:
    """A bot without luck of its own plays itself: whoever sits north has the same match twice."""
    itself = Contestant(LEVELS["greedy"].choose, deals(16))
    for pair in range(5):
        first, second = play_pair(itself, itself, seed=1, pair=pair)
        assert (first.winner, first.rounds) == (second.winner, second.rounds)
    assert deal(1, 0, 1) == deal(1, 0, 1)
    assert len({str(deal(*key)) for key in ((1, 0, 1), (1, 0, 2), (1, 1, 1), (2, 0, 1))}) == 4


def played(winner: Seat, rounds: int = 10) -> Played:
    return Played(winner, rounds, BySeat(Effort(5, 1.0, 0.5), Effort(10, 4.0, 3.0)))


def test_pairs_are_the_units_of_the_interval() -> None:
    """Two pairs are won, two shared, one lost: scores 1, 1, ½, ½, 0; with the four that are added their mean is
    5/9 and its standard error 0.1547."""
    tally = Tally()
    for pair in ((NORTH, SOUTH), (NORTH, SOUTH), (NORTH, NORTH), (SOUTH, SOUTH), (SOUTH, NORTH)):
        tally.add((played(pair[0]), played(pair[1], 20)))
    assert (tally.wins, tally.matches, tally.rate) == (6, 10, 0.6)
    assert tally.interval == pytest.approx((5 / 9 - 1.96 * 0.1547, 5 / 9 + 1.96 * 0.1547), abs=1e-3)
    assert tally.rounds_a_match == 15
    assert tally.points_a_round == pytest.approx(150 * 2 / 150)
    assert [effort.moves for effort in tally.one] == [5, 10] * 5, "north first, then south"


def test_many_wins_are_no_certainty() -> None:
    tally = Tally()
    for _ in range(20):
        tally.add((played(NORTH), played(SOUTH)))
    low, high = tally.interval
    assert 0.8 < low < 0.9
    assert high == 1.0


@pytest.mark.long
def test_the_command_tells_wins_interval_and_what_was_run() -> None:
    """No claim about strength: that is for `make arena`."""
    options = ["--matches", "6", "--seed", "9", "--deals", "16", "--jobs", "2"]
    command = [sys.executable, "-m", "client.arena", "strong", "easy", *options]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "6 matches" in ran.stdout
    assert "seed 9, 16 deals" in ran.stdout
    assert "3 pairs as units" in ran.stdout
    unknown = CliRunner().invoke(app, ["genius", "easy"])
    assert unknown.exit_code == 2
