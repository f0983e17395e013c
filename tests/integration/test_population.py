"""Many seekers on real processes: each ends in exactly one match, or has cancelled; leaders die meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.population import kills, rush, town


@pytest.mark.long
async def test_of_200_seekers_nobody_is_lost_or_in_two_matches_while_some_cancel_and_the_leader_dies(
    database_url: str, tmp_path: Path
) -> None:
    async with town(tmp_path, database_url) as found:
        report = await rush(found, 200, seed=4, cancel=0.1, kill=True, spread_seconds=1.0)
    assert report.faults == []
    assert report.kills == len(report.recovered) == 1
    assert report.cancelled > 0
    # Who neither cancelled nor was left over without a partner was told a match.
    assert len(report.matched) == len(report.seekers) - report.cancelled


@pytest.mark.parametrize("times", [2, pytest.param(3, marks=pytest.mark.long)])
async def test_fc_40_leaders_killed_while_they_make_matches_leave_nobody_behind(
    database_url: str, tmp_path: Path, times: int
) -> None:
    """Each time the standby, whose own standby is the one that died before, goes on with everybody."""
    async with town(tmp_path, database_url) as found:
        report = await kills(found, times, seed=40, batch=16)
    assert report.faults == []
    assert report.kills == len(report.recovered) == times
    assert len(report.matched) == len(report.seekers) == 16 * times
