"""The outage view of a real stack: well, with a process that stands still, and with one that is gone."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

import pytest

from services.ops.outage import Judgement, Verdict, judge
from services.ops.pages import Reader, target_of
from services.ops.status import look_around
from services.ops.statusview import as_json
from tests.pseudoterminal import in_a_terminal
from tests.seats import Table, eventually
from tests.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def where(made: Stack) -> dict[str, str]:
    """What an operator has in the environment."""
    targets = [f"{name}={await made.metrics_address(name)}" for name in made.processes]
    return {
        "SPECTACULAR_BID_DATABASE_URL": made.database_url,
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


async def test_an_outage_is_seen_while_it_lasts(own: Stack) -> None:
    """A match is live; then the game process stands still, and goes on; then the clock is gone."""
    await Table.create(own)
    well, text = await status(own)
    assert well == 0, text
    assert "all is well" in text
    _, found = await seen(own)
    assert {each["role"]: each["state"] for each in found["processes"]} == {
        "clock": "ready",
        "matchmaking": "leads",
        "game": "ready",
    }
    assert sum(found["live_matches"].values()) == 1
    assert [lease["engine_id"] for lease in found["database"]["leases"]] == ["game"]

    watch = ("services.ops", "status", "--watch", "--every", "0.2")
    async with in_a_terminal(*watch, columns=160, rows=40, env=await where(own)) as screen:
        await screen.shows("all is well")
        own.processes["game"].signal(signal.SIGSTOP)
        text = await screen.shows("something is wrong")
        wrong, _ = await status(own)
        own.processes["game"].signal(signal.SIGCONT)
        assert wrong == 1
        assert "game game" in text.partition("what it does")[0]
        assert "does not answer" in text
        await screen.shows("all is well")
        screen.process.send_signal(signal.SIGINT)
        assert await screen.exit_status() == 0

    own.processes["clock"].kill()

    async def noticed() -> bool:
        problems = " ".join((await seen(own))[0].problems)
        return "connection refused" in problems and "has no clock" in problems

    await eventually(noticed)
    await own.start("clock")

    async def well_again() -> bool:
        return (await seen(own))[0].verdict is Verdict.WELL

    await eventually(well_again)
