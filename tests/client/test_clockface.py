"""The clocks on the screen: counted down from the service's figures, never more than there is."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from client.table import Clock, TableState
from client.terminal.clockface import faces
from engine.outcome import Cause, Outcome
from engine.seats import NORTH, SOUTH, BySeat
from services.game.story import Audience
from tests.client.tables import new_story, news, told


def table(delay_left_ms: int, remaining_ms: int, bank_ms: int = 120_000) -> TableState:
    """North's clock runs since 100 s on the monotonic clock."""
    clock = Clock(NORTH, BySeat(bank_ms, 90_999), delay_left_ms, remaining_ms, as_of=100.0)
    first = told(None, news(new_story(), Audience.NORTH, 0))
    return replace(first, prompt=replace(first.prompt, clock=clock))


@pytest.mark.parametrize(
    ("seconds", "delay", "bank"),
    [
        (0.0, "9", "2:00"),  # rounded down from the first moment on
        (1.0, "8", "2:00"),
        (9.9, "0", "2:00"),
        (10.001, "0", "1:59"),
        (111.0, "0", "0:18"),
        (120.5, "0", "9.4"),
        (129.95, "0", "0.0"),
        (130.0, "0", "0.0"),
        (500.0, "0", "0.0"),
    ],
)
def test_delay_and_bank_run_down_one_after_the_other(seconds: float, delay: str, bank: str) -> None:
    face = faces(table(10_000, 130_000), 100.0 + seconds).north
    assert (face.delay, face.bank) == (delay, bank)
    assert face.over == (seconds >= 129.999)


def test_the_other_clock_stands() -> None:
    """A fresh delay comes with the next decision (rule 6.2)."""
    face = faces(table(10_000, 130_000), 150.0).south
    assert (face.delay_ms, face.bank, face.running) == (10_000, "1:30", False)


def test_never_more_than_there_is() -> None:
    rng = random.Random(1)
    for _ in range(2000):
        delay, bank = rng.randrange(10_001), rng.randrange(120_001)
        spent, way = rng.random() * 140, rng.randrange(200)
        # The figure of the bank alone may be that of the beginning of a decision.
        figure = rng.choice((bank, 120_000))
        face = faces(table(delay, delay + bank, figure), 100.0 + spent, way_ms=way).north
        left_ms = max(0.0, delay + bank - spent * 1000 - way)
        assert face.delay_ms + face.bank_ms <= left_ms
        assert face.bank_ms <= bank
        # Not much less either: a player may rely on what is shown.
        assert face.delay_ms + face.bank_ms >= left_ms - 2


def test_a_bank_that_is_nearly_gone_is_marked_as_low() -> None:
    assert not faces(table(0, 20_002, 20_002), 100.0).north.low
    assert faces(table(0, 19_999, 19_999), 100.0).north.low


def test_a_bank_that_ran_out_is_empty_when_the_match_is_over() -> None:
    """No new figures of both clocks come with the end, only what the last turn cost."""
    over = replace(table(10_000, 130_000), outcome=Outcome(SOUTH, Cause.TIME, ""), banks_ms=BySeat(0, 90_999))
    assert [face.bank for face in faces(over, 200.0)] == ["0.0", "1:30"]


def test_no_clock_runs_when_the_match_is_over() -> None:
    over = replace(table(10_000, 130_000), outcome=Outcome(SOUTH, Cause.TIME, ""))
    assert not any(face.running for face in faces(over, 200.0))
