"""Outages are seen: by the outage view of a real stack, and by the canary, which tidies up and disturbs nobody."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from engine.seats import NORTH, BySeat
from services.canary.__main__ import play
from services.canary.metrics import CanaryMetrics, Step
from services.canary.settings import CanarySettings
from services.ops.outage import Judgement, Verdict, judge
from services.ops.pages import Page, Reader, target_of
from services.ops.status import look_around
from services.ops.statusview import as_json
from services.storage.voids import get_void_facts
from tests.pseudoterminal import in_a_terminal
from tests.roles import url_as
from tests.seats import Table, eventually
from tests.stack import Player, Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def where(made: Stack) -> dict[str, str]:
    """What an operator has in the environment."""
    targets = [f"{name}={await made.metrics_address(name)}" for name in made.processes]
    return {
        "SPECTACULAR_BID_DATABASE_URL": url_as("reader", made.database_url),
        "SPECTACULAR_BID_METRICS_TARGETS": ",".join(targets),
    }


async def status(made: Stack) -> tuple[int, str]:
    """Runs `python -m services.ops status`: its exit status and what it printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.ops", "status"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **await where(made)},
    )
    out, err = await process.communicate()
    assert err == b"", err.decode()
    assert process.returncode is not None
    return process.returncode, out.decode()


async def seen(made: Stack) -> tuple[Judgement, dict[str, Any]]:
    """The same without a process of its own, as programs are told it."""
    targets = [target_of(f"{name}={await made.metrics_address(name)}") for name in made.processes]
    with Reader() as reader:
        look = await look_around(reader, targets, made.database_url)
    judgement = judge(look)
    return judgement, json.loads(json.dumps(as_json(look, judgement), allow_nan=False))


async def test_an_outage_is_seen_while_it_lasts(fresh: Stack) -> None:
    """A match is live; then the game process stands still, and goes on; then the clock is gone.

    On a stack of its own: where others have left live or void matches, all is not well.
    """
    await Table.create(fresh)
    well, text = await status(fresh)
    assert well == 0, text
    assert "all is well" in text
    _, found = await seen(fresh)
    assert {each["role"]: each["state"] for each in found["processes"]} == {
        "clock": "ready",
        "matchmaking": "leads",
        "game": "ready",
    }
    assert sum(found["live_matches"].values()) == 1
    assert [lease["engine_id"] for lease in found["database"]["leases"]] == ["game"]

    def still(text: str) -> bool:
        return bool(re.search(r"^! game game \(.*\): does not answer$", text, re.MULTILINE))

    watch = ("services.ops", "status", "--watch", "--every", "0.2")
    async with in_a_terminal(*watch, columns=160, rows=40, env=await where(fresh)) as screen:
        await screen.shows("all is well")
        fresh.processes["game"].signal(signal.SIGSTOP)
        (wrong, text), _ = await asyncio.gather(status(fresh), screen.until(still))
        fresh.processes["game"].signal(signal.SIGCONT)
        assert wrong == 1
        assert "something is wrong" in text
        await screen.shows("all is well")
        screen.process.send_signal(signal.SIGINT)
        assert await screen.exit_status() == 0

    fresh.processes["clock"].kill()

    async def noticed() -> bool:
        problems = " ".join((await seen(fresh))[0].problems)
        return "connection refused" in problems and "has no clock" in problems

    await eventually(noticed)
    await fresh.start("clock")

    async def well_again() -> bool:
        return (await seen(fresh))[0].verdict is Verdict.WELL

    await eventually(well_again)


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
    # A match that somebody has made with the canary is an invitation: nobody keeps it from playing.
    (stranger,) = await own.players(1)
    both = players(own)
    assert await canary.play()
    await own.create(BySeat(stranger, both[NORTH]), start_limit_ms=1000)
    assert await canary.play()

    async def cancelled() -> bool:
        return await live(own) == 0

    await eventually(cancelled)

    own.processes["game"].signal(signal.SIGSTOP)
    assert not await canary.play()
    own.processes["game"].signal(signal.SIGCONT)
    assert canary.value("failures_total", step="create") == 1
    assert canary.value("failed_in_a_row") == 1
    own.processes["matchmaking"].signal(signal.SIGSTOP)
    assert not await canary.play()
    own.processes["matchmaking"].signal(signal.SIGCONT)
    assert canary.value("failures_total", step="token") == 1
    assert canary.value("runs_total", result="failed") == 2
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
    signed = {seat: own.token(player, roles=["canary"]) for seat, player in tokens.items()}
    file.write_text(json.dumps(signed), "utf-8")
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
