"""When the next wave comes."""

from __future__ import annotations

from services.matchmaking.wave import CROWD, rest_seconds


def test_few_are_looked_at_as_soon_as_they_come() -> None:
    assert rest_seconds(CROWD - 1, took_seconds=0.5, period_seconds=0.2) == 0


def test_a_crowd_gathers_for_a_period_or_as_long_as_its_wave_took() -> None:
    assert rest_seconds(CROWD, took_seconds=0.01, period_seconds=0.2) == 0.2
    assert rest_seconds(10_000, took_seconds=0.5, period_seconds=0.2) == 0.5
