"""What a player reads of a fault of the service: each pause once, and a reason for each void."""

from __future__ import annotations

from dataclasses import replace

import pytest

from client.bots.account import verdict
from client.match import News
from client.table import TableState
from client.wire import table_from_pb
from client.words import PAUSE_SHOWN_MS, VOID, Pauses, short_reason, why_nobody_won
from engine.outcome import Cause, Outcome
from engine.seats import NORTH
from services.game.story import Audience
from spectacularbid.match.v1 import event_pb2, table_pb2
from tests.client.tables import new_story
from tests.test_docs import TIME, name
from tests.test_docs import table as table_of
from tests.told import snapshot_of


def shown(**more: object) -> TableState:
    """A table at the beginning of a match."""
    return replace(table_from_pb(snapshot_of(new_story(), Audience.NORTH), 0.0), **more)  # type: ignore[arg-type]


def asks(turn: int, credited_ms: int) -> News:
    """The question of a turn of which so much is credited."""
    prompt = shown().prompt
    clock = replace(prompt.clock, credited_ms=credited_ms)
    return News(shown(prompt=replace(prompt, turn=turn, to_act=NORTH, clock=clock)), (), snapshot=False)


def judged(turn: int, credited_ms: int, then: News) -> News:
    """A command of the turn was judged, and the next question comes with it."""
    timed = event_pb2.TurnTimed(seat=table_pb2.SEAT_NORTH, turn=turn, credited_ms=credited_ms)
    return replace(then, events=(event_pb2.MatchEvent(sequence=9, turn_timed=timed),))


def told(*all_news: News) -> list[list[str]]:
    pauses = Pauses()
    return [pauses.lines(news) for news in all_news]


def pause(seconds: str) -> list[str]:
    return [f"The service paused for {seconds} s. Nobody's clock ran meanwhile."]


def test_a_pause_is_told_once_while_the_decision_runs() -> None:
    """The verdict says it again for good, and the prompt may be told anew."""
    assert told(asks(3, 0), asks(3, 2_034), asks(3, 2_034), judged(3, 2_034, asks(4, 0)), asks(4, 0)) == [
        *([], pause("2.0"), [], [], []),
    ]


def test_a_pause_that_only_the_verdict_knows_of_is_told_then() -> None:
    assert told(asks(3, 0), judged(3, 31_000, asks(4, 0))) == [[], pause("31.0")]


def test_what_is_added_is_told_and_what_nobody_notices_is_not() -> None:
    assert told(asks(3, PAUSE_SHOWN_MS - 1), asks(3, 700), asks(3, 900), asks(3, 1_900)) == [
        *([], pause("0.7"), [], pause("1.2")),
    ]


def test_after_a_draw_the_same_turn_counts_anew() -> None:
    assert told(
        asks(3, 2_000), judged(3, 2_000, asks(3, 0)), asks(3, 1_000), judged(3, 1_000, asks(4, 0))
    ) == [
        *(pause("2.0"), [], pause("1.0"), []),
    ]


def test_the_prompt_of_the_service_brings_the_pause_to_the_table() -> None:
    snapshot = snapshot_of(new_story(), Audience.NORTH)
    snapshot.table.prompt.clock.credited_ms = 1_200
    assert table_from_pb(snapshot, 0.0).prompt.clock.credited_ms == 1_200


def test_every_void_has_words_and_a_newer_one_has_its_own() -> None:
    assert list(VOID) == [name(reason) for reason, _ in table_of(TIME, "For client writers")]
    assert why_nobody_won(Outcome(None, Cause.VOID, "moon_fell_down")) == "moon fell down"


@pytest.mark.parametrize(
    ("outcome", "sentence", "column"),
    [
        (
            Outcome(None, Cause.VOID, "operator"),
            "The match is void: the operators declared an incident. Nobody wins, nothing is rated.",
            "void (operator)",
        ),
        (
            Outcome(None, Cause.CANCELLED, "north south"),
            "The match is cancelled: north and south did not press Start. Nobody wins, nothing is rated.",
            "cancelled (north south)",
        ),
        (
            Outcome(None, Cause.VOID, ""),
            "The match is void. Nobody wins, nothing is rated.",
            "void",
        ),
    ],
)
def test_a_match_without_a_winner_says_why(outcome: Outcome, sentence: str, column: str) -> None:
    assert verdict(shown(outcome=outcome)) == sentence
    assert short_reason(outcome) == column
