"""The ladder and histories as a person sees them, in 80 columns."""

from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from client.ladder import LEGEND, history_table, ladder_table
from spectacularbid.ladder.v1 import ladder_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
LONGEST = "Wilhelmina van Oster"
ME, OTHER = (
    table_pb2.Player(player_id="guest-0123456789abcdef0123", name="Ann"),
    table_pb2.Player(player_id="guest-fedcba9876543210fedc", name=LONGEST),
)


def lines(table: Table, width: int = 80) -> list[str]:
    out = StringIO()
    Console(file=out, width=width, highlight=False, soft_wrap=True).print(table)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def standing(
    player: table_pb2.Player, rank: int, mu: float, sigma: float, *, provisional: bool
) -> pb.Standing:
    return pb.Standing(
        player=player,
        rank=rank,
        shown_rating=int(mu - 2 * sigma),
        rating=pb.Rating(mu=mu, sigma=sigma),
        rated_matches=1234,
        wins=1000,
        provisional=provisional,
    )


def finished(cause: str, winner: str = "", detail: str = "", **more: Any) -> pb.FinishedMatch:
    made = pb.FinishedMatch(
        match_id="8b960b0d-2f3b-4df7-a115-79984c2d31f5",
        north=ME,
        south=OTHER,
        outcome=table_pb2.Outcome(
            winner=table_pb2.Seat.Value(f"SEAT_{winner.upper()}" if winner else "SEAT_UNSPECIFIED"),
            cause=table_pb2.Cause.Value(f"CAUSE_{cause.upper()}"),
            detail=detail,
        ),
        balances=table_pb2.Balances(north=120, south=180),
        rounds=9,
        played_ms=723_999,
        **more,
    )
    made.ended_at.FromDatetime(datetime(2026, 11, 3, 4, 1, tzinfo=UTC))
    return made


def rated(mu: float) -> pb.RatingDecision:
    before, after = pb.Rating(mu=1500, sigma=350), pb.Rating(mu=mu, sigma=300)
    south = pb.Rating(mu=1500, sigma=40)
    return pb.RatingDecision(
        rated=True,
        reason="rated",
        north_before=before,
        north_after=after,
        south_before=south,
        south_after=south,
    )


def test_the_ladder_marks_oneself_and_who_is_provisional() -> None:
    table = ladder_table(
        [
            standing(OTHER, 1, 2100.0, 30.0, provisional=False),
            standing(ME, 2, 1700.0, 101.0, provisional=True),
        ],
        own=ME.player_id,
    )
    assert lines(table) == [
        "  rank player               rating   ± played  won id",
        "     1 Wilhelmina van Oster   2040  30   1234 1000 guest-fedcba9876543210fedc",
        ">    2 Ann                   1498? 101   1234 1000 guest-0123456789abcdef0123",
    ]
    assert len(LEGEND) <= 80


def test_a_player_without_a_rated_match_has_no_rank() -> None:
    assert lines(ladder_table([standing(ME, 0, 1500.0, 350.0, provisional=True)]))[1].split()[0] == "-"


@pytest.mark.parametrize(
    ("match", "columns"),
    [
        (
            finished("balance", "north", decision=rated(1550.4)),
            "won, balance|Wilhelmina van…|120:180|+150|12:03|9",
        ),
        (finished("time", "south", decision=rated(1300)), "lost, time|Wilhelmina van…|120:180|-100|12:03|9"),
        (finished("resignation", "south"), "lost, resignation|Wilhelmina van…|120:180|pending|12:03|9"),
        (
            finished("time", "south", decision=pb.RatingDecision(reason="held")),
            "lost, time|Wilhelmina van…|120:180|held|12:03|9",
        ),
        (
            finished("time", "south", decision=pb.RatingDecision(reason="reversed")),
            "lost, time|Wilhelmina van…|120:180|reversed|12:03|9",
        ),
        (
            finished("balance", "north", decision=pb.RatingDecision(reason="unrated_mode")),
            "won, balance|Wilhelmina van…|120:180|unrated|12:03|9",
        ),
        (
            finished("void", detail="clock_unreachable", decision=pb.RatingDecision(reason="void")),
            "void (clock unreachable)|Wilhelmina van…|120:180|-|12:03|9",
        ),
        (
            finished("cancelled", detail="north south", decision=pb.RatingDecision(reason="cancelled")),
            "cancelled (north south)|Wilhelmina van…|120:180|-|12:03|9",
        ),
    ],
)
def test_history_says_how_a_match_ended_for_the_player_and_what_it_did(
    match: pb.FinishedMatch, columns: str
) -> None:
    line = lines(history_table([match], ME.player_id, NOW))[1]
    assert line.split() == ["03", "Nov", "04:01", *columns.replace("|", " ").split()]
    assert len(line) <= 80


def test_both_players_see_a_match_from_their_own_side() -> None:
    match = finished("balance", "north", decision=rated(1550.4))
    assert "won, balance" in lines(history_table([match], ME.player_id, NOW))[1]
    theirs = lines(history_table([match], OTHER.player_id, NOW))[1]
    assert theirs.split()[3:] == ["lost,", "balance", "Ann", "180:120", "+0", "12:03", "9"]


def test_a_match_that_was_never_dealt_has_no_length_and_an_old_one_has_its_year() -> None:
    match = finished("cancelled")
    match.rounds = match.played_ms = 0
    match.ended_at.FromDatetime(datetime(2025, 1, 3, tzinfo=UTC))
    line = lines(history_table([match], ME.player_id, NOW))[1].split()
    assert line[:3] == ["03", "Jan", "2025"]
    assert line[-2:] == ["-", "-"]


def test_ids_are_whole_in_a_wide_table() -> None:
    table = history_table([finished("balance", "north")], ME.player_id, NOW, ids=True)
    line = lines(table, width=130)[1]
    assert line.endswith("8b960b0d-2f3b-4df7-a115-79984c2d31f5")
    assert LONGEST in line


def test_wide_characters_are_cut_by_their_cells() -> None:
    match = finished("balance", "north")
    match.south.name = "李" * 20
    assert "李李李李李李李…" in lines(history_table([match], ME.player_id, NOW))[1]
    assert "李" * 8 not in lines(history_table([match], ME.player_id, NOW))[1]
