"""The report on arranged matches: it marks what nobody brings about by playing, and leaves rivals alone."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from matchmaker.chance import at_least_of
from matchmaker.rating import NEW, Rating, expected
from services.ops.__main__ import app
from services.ops.collusion import MATCHES_MIN, QUICK_TURNS, find
from services.storage.pairs import RatedMatch, get_rated_matches
from tests.services.storage.results import decide_all, put_result

AGES = datetime(2000, 1, 1, tzinfo=UTC)


@given(st.lists(st.floats(0, 1), max_size=8), st.integers(-1, 9))
def test_the_chance_of_so_many_is_the_sum_over_all_ways(chances: list[float], wanted: int) -> None:
    ways = itertools.product((True, False), repeat=len(chances))
    summed = math.fsum(
        math.prod(c if hit else 1 - c for hit, c in zip(way, chances, strict=True))
        for way in ways
        if sum(way) >= wanted
    )
    assert at_least_of(wanted, chances) == pytest.approx(summed, abs=1e-12)


def test_the_expected_score_of_two_players_is_one() -> None:
    assert expected(NEW, NEW) == 0.5
    strong, weak = Rating(1900, 80), Rating(1400, 120)
    assert expected(strong, weak) + expected(weak, strong) == pytest.approx(1)
    assert expected(strong, weak) > 0.9


def match(
    winner: str, loser: str, *, chance: float = 0.5, cause: str = "balance", turns: int = 90
) -> RatedMatch:
    return RatedMatch(uuid4(), winner, loser, chance, cause, turns)


def honest(seed: int, players: int = 30, matches: int = 1200) -> Iterator[RatedMatch]:
    """A league where the ratings are right and nearly equals meet often; some resign early."""
    dice = random.Random(seed)
    for _ in range(matches):
        one = dice.randrange(players)
        two = (one + dice.choice((1, 1, 1, 2, 3))) % players
        chance = expected(Rating(1000 + 40 * one, 60), Rating(1000 + 40 * two, 60))
        turns = dice.choice((3, 60, 90, 120, 150, 200))
        cause = dice.choice(("balance", "time", "resignation"))
        if dice.random() < chance:
            yield match(f"p{one}", f"p{two}", chance=chance, cause=cause, turns=turns)
        else:
            yield match(f"p{two}", f"p{one}", chance=1 - chance, cause=cause, turns=turns)


def test_a_league_that_plays_to_win_is_not_marked() -> None:
    """Though its neighbours meet ten times as often as by chance."""
    marked = 0
    for seed in range(10):
        pairs = find(list(honest(seed)))
        assert len(pairs) > 50
        assert max(pair.matches / pair.expected_matches for pair in pairs) > 5
        marked += any(pair.marks for pair in pairs)
    # Twenty leagues in a hundred may not be marked; the bound is one in twenty.
    assert marked <= 2


@pytest.mark.parametrize(
    ("arranged", "mark"),
    [
        ([match("cheat", "friend") for _ in range(14)], "one-sided"),
        # The weaker one wins, again and again.
        ([match("cheat", "friend", chance=0.1) for _ in range(6)], "one-sided"),
        ([match("friend", "cheat", cause="resignation", turns=2) for _ in range(9)], "given away"),
    ],
)
def test_a_pair_that_arranges_its_matches_is_marked_alone(arranged: list[RatedMatch], mark: str) -> None:
    pairs = find([*honest(3), *arranged])
    (found,) = [pair for pair in pairs if pair.marks]
    assert {found.player, found.opponent} == {"cheat", "friend"}
    assert found == pairs[0]
    assert mark in found.marks
    assert found.player == arranged[0].winner
    assert (found.matches, found.wins) == (len(arranged), len(arranged))


def test_a_strong_player_who_beats_a_weak_one_is_not_marked() -> None:
    rivals = [match("strong", "weak", chance=0.97) for _ in range(40)]
    assert not any(pair.marks for pair in find([*honest(5), *rivals]) if pair.player == "strong")


def test_few_matches_and_late_resignations_say_nothing() -> None:
    few = [match("a", "b", chance=0.001) for _ in range(MATCHES_MIN - 1)]
    late = [match("c", f"d{n % 2}", cause="resignation", turns=QUICK_TURNS) for n in range(8)]
    found = {(pair.player, pair.opponent): pair for pair in find([*few, *late])}
    assert ("a", "b") not in found
    assert all(pair.given == 0 for pair in found.values())
    assert find([]) == []


async def put_and_read(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await put_result(connection, "ann", "ben", "south")
        await put_result(connection, "ann", "ben", rated=False)
        await put_result(connection, "ann", "ben", None, "void")
        last = await put_result(connection, "ben", "ann")
        await decide_all(connection)
        found = await get_rated_matches(connection, AGES)
        assert [(each.winner, each.loser) for each in found] == [("ben", "ann"), ("ben", "ann")]
        assert found[0].chance == 0.5
        assert found[1].chance > 0.7
        assert (found[1].match_id, found[1].cause, found[1].turns) == (last.match_id, "resignation", 0)
        assert await get_rated_matches(connection, datetime.now(UTC) + timedelta(days=1)) == []
        # They bring up a third until it is strong, and then it loses to them, and again, and again.
        for loser, times in (("dan", 12), ("cas", 6)):
            for n in range(times):
                winner = "cas" if loser == "dan" else "ann"
                await put_result(connection, winner, f"{loser}-{n}" if loser == "dan" else loser)
                await decide_all(connection)
    finally:
        await connection.close()


def test_what_is_read_are_matches_that_changed_ratings_and_the_report_says_who(database_url: str) -> None:
    asyncio.run(put_and_read(database_url))
    ran = CliRunner().invoke(app, ["collusion", "--database-url", database_url])
    assert ran.exit_code == 0, ran.output
    head, _, row = ran.output.splitlines()
    assert head.endswith("20 rated matches, 1 pairs with 4 or more, 1 marked")
    assert row.split()[:4] == ["!", "ann", "cas", "6"]
    assert row.rstrip().endswith("one-sided")
