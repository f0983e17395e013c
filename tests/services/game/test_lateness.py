"""How late losses on time are stored, as a process says it of itself."""

from __future__ import annotations

import asyncio
import urllib.request
from pathlib import Path

import pytest

from engine.seats import NORTH
from services.game.decision import OpenDecision
from services.game.livetime import LiveTime
from services.wire.clock_messages import Key, Open, OpenCause, Proof, Timeout
from tests.engine.tables import deal
from tests.seats import Table, scripted
from tests.stack import stack, time_control

KEY = Key("00000000-0000-0000-0000-000000000001", 2, 1)


@pytest.mark.parametrize(("start_ns", "late_ns"), [(1_000, 250), (77, None)])
def test_a_deadline_of_an_earlier_owner_is_not_compared_with_this_timeline(
    start_ns: int, late_ns: int | None
) -> None:
    """An instant is never compared with one of another timeline: the proof may be of the last owner's part."""
    now = 1_000
    livetime = LiveTime(read=lambda: now)
    opened = Open(KEY, OpenCause.RESUME, NORTH, "turn", 1_000, 1_000, 1_000, 0, bank_ns=0, delay_ns=500)
    now = 1_750
    proven = Timeout(KEY, NORTH, 1_500, Proof.WATERMARK, 1_600, "evidence", start_ns, 0)
    assert OpenDecision(opened).late_ns(proven, livetime) == late_ns


def test_never_more_is_shown_than_a_turn_has() -> None:
    """A start lies a little ahead when time before it turns out not to have been listened to."""
    opened = Open(KEY, OpenCause.RESUME, NORTH, "turn", 1_000, 1_000, 1_000, 0, bank_ns=70, delay_ns=500)
    assert OpenDecision(opened).left(LiveTime(read=lambda: 960)).remaining_ns == 570
    assert OpenDecision(opened).left(LiveTime(read=lambda: 1_020)).remaining_ns == 550


async def test_a_loss_on_time_says_how_late_it_was_stored(tmp_path: Path, database_url: str) -> None:
    """In the log of the match, and in the histogram."""
    async with stack(tmp_path, database_url) as made:
        table = await Table.create(
            made, deals=scripted(deal("6|6 1|2", "0|6 0|1")), time_control=time_control(0, 100)
        )
        await table.until_over()
        over = await made.processes["game"].event("match_over", match_id=table.match_id)
        assert (over["cause"], over["winner"]) == ("time", "south")
        assert over["late_ns"] >= 0
        page = await asyncio.to_thread(_read, f"http://{await made.metrics_address('game')}/metrics")
        assert "spectacular_bid_game_timeout_lateness_seconds_count 1.0" in page
        assert f"spectacular_bid_game_timeout_lateness_seconds_sum {over['late_ns'] / 1e9}" in page


def _read(url: str) -> list[str]:
    with urllib.request.urlopen(url, timeout=30) as page:  # noqa: S310 - of our own
        return str(page.read().decode()).splitlines()
