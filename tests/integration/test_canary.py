"""The canary against a real stack: it plays, it notices, it tidies up, and it disturbs nobody."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from engine.seats import NORTH, BySeat
from services.canary.__main__ import play
from services.canary.metrics import CanaryMetrics, Step
from services.canary.settings import CanarySettings
from services.ops.pages import Page, Reader, target_of
from services.storage.voids import get_void_facts
from tests.seats import Table, eventually
from tests.stack import Player, Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Canary:
    """One in this process, with a page of its own."""

    def __init__(self, made: Stack, tokens: Path | None = None, step_seconds: float = 10.0) -> None:
        self.registry = CollectorRegistry()
        self.metrics = CanaryMetrics(self.registry)
        self.settings = CanarySettings(
            canary_server=made.address("matchmaking"),
            canary_game=made.address("game"),
            canary_tokens_file=tokens or made.canary_tokens(),
            canary_step_seconds=step_seconds,
        )

    async def play(self) -> bool:
        return await play(self.settings, self.metrics)

    def value(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"spectacular_bid_canary_{name}", labels) or 0.0


def players(made: Stack) -> BySeat[Player]:
    tokens = json.loads(made.canary_tokens().read_text("utf-8"))
    return BySeat(*(Player(f"canary-{seat}", tokens[seat]) for seat in ("north", "south")))


async def live(made: Stack) -> int:
    return int(
        await made.pool.fetchval("select count(*) from live_seat where starts_with(player_id, 'canary-')")
    )


async def test_a_visit_is_timed_step_by_step_and_leaves_nothing_behind(own: Stack) -> None:
    """The match is unrated, ends by resignation, and is in no report about players."""
    canary = Canary(own)
    assert await canary.play()
    assert canary.value("runs_total", result="ok") == 1
    assert {step: canary.value("step_seconds_count", step=step) for step in Step} == {
        Step.TOKEN: 1,
        Step.CREATE: 1,
        Step.ATTACH: 1,
        Step.COMMAND: 6,
        Step.FINISH: 1,
    }
    assert canary.value("last_success_timestamp_seconds") > 0
    rows = await own.pool.fetch(
        """
        select m.rated, o.cause, m.created_at,
               (select count(*) from match_log l where l.match_id = m.match_id) as log from match m join match_outcome o using (match_id)
        where starts_with(m.north, 'canary-')
        """
    )
    assert [(row["rated"], row["cause"], row["log"]) for row in rows] == [(False, "resignation", 7)]
    assert await live(own) == 0
    assert not await own.pool.fetchval(
        "select exists (select from rating where starts_with(player_id, 'canary-') and rated_matches > 0)"
    )
    async with own.pool.acquire() as connection:
        facts = await get_void_facts(connection, rows[0]["created_at"])
    assert not [player for player in facts.players if player.player_id.startswith("canary-")]


@pytest.mark.parametrize("started", [False, True])
async def test_what_an_earlier_visit_left_behind_is_ended_first(own: Stack, started: bool) -> None:
    """Whether Start was pressed or not: a player has one live match, so no other could be created."""
    canary = Canary(own)
    both = players(own)
    assert await canary.play()
    left = Table(own, await own.create(both), both)
    if started:
        await left.start()
    assert await canary.play()
    outcome = await own.outcome(left.match_id)
    assert outcome is not None
    assert outcome["cause"] == "resignation"
    assert await live(own) == 0


async def test_a_failure_is_counted_by_the_step_a_player_would_be_stuck_at(own: Stack) -> None:
    canary = Canary(own, step_seconds=0.5)
    # A match that somebody has made with the canary waits for its other player, and cannot be ended by us.
    (stranger,) = await own.players(1)
    both = players(own)
    assert await canary.play()
    await own.create(BySeat(stranger, both[NORTH]), start_limit_ms=1000)
    assert not await canary.play()
    assert canary.value("failures_total", step="create") == 1

    async def cancelled() -> bool:
        return await live(own) == 0

    await eventually(cancelled)

    own.processes["game"].signal(signal.SIGSTOP)
    assert not await canary.play()
    own.processes["game"].signal(signal.SIGCONT)
    assert canary.value("failures_total", step="create") == 2
    assert canary.value("failed_in_a_row") == 2
    own.processes["matchmaking"].signal(signal.SIGSTOP)
    assert not await canary.play()
    own.processes["matchmaking"].signal(signal.SIGCONT)
    assert canary.value("failures_total", step="token") == 1
    assert canary.value("runs_total", result="failed") == 3
    patient = Canary(own)

    async def plays() -> bool:
        return await patient.play()

    await eventually(plays)
    assert await live(own) == 0


@pytest.mark.parametrize(
    ("tokens", "why"),
    [
        ({"north": "canary-north", "south": "canary-north"}, "both tokens are of one player"),
        ({"north": "ann", "south": "canary-south"}, "the token of north is no canary's"),
        ({"north": "canary-north"}, "is no JSON object"),
    ],
)
async def test_only_its_own_two_players_play(
    own: Stack, tmp_path: Path, tokens: Mapping[str, str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody else's matches are created, ended or left out of reports by mistake."""
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({seat: own.token(player) for seat, player in tokens.items()}), "utf-8")
    canary = Canary(own, file)
    assert not await canary.play()
    assert canary.value("failures_total", step="token") == 1
    said = capsys.readouterr().out
    assert why in said
    assert "eyJ" not in said


async def test_the_process_plays_again_and_again_and_leaves_in_order(own: Stack) -> None:
    await own.launch("canary")
    canary = own.processes["canary"]
    first = await canary.event("canary_played")
    assert set(first) >= {"match_id", "token_seconds", "command_seconds"}
    with Reader() as reader:
        (seen,) = await reader.read([target_of(await own.metrics_address("canary"))])
    assert isinstance(seen.page, Page)
    assert seen.role == "canary"
    assert seen.page.value("spectacular_bid_ready") == 1
    assert await canary.terminate() == 0
    assert await live(own) == 0
