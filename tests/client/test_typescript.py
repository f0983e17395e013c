"""The bot in TypeScript, built as its page says, against a real stack over a connection that breaks."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from client import CASUAL, Client, News, TableState
from client.bots import greedy
from client.bots.player import play
from engine.command import Command, Resign
from engine.outcome import Outcome
from tests.knownmatches import SHORT, deal_all
from tests.processes import SECONDS_MAX
from tests.proxy import Proxy
from tests.stack import HOST, Stack, stack

EXAMPLE = Path(__file__).resolve().parents[2] / "client" / "examples" / "typescript"
NODE_OLDEST = 20
ROUNDS_MAX = 8


async def run(*command: str) -> tuple[int, str]:
    """A command in the folder of the example: its exit status and what it said."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=EXAMPLE,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(4 * SECONDS_MAX):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, said.decode()


async def built() -> None:
    """The example is built; skips where it cannot be."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node is not installed")
    _, version = await run("node", "--version")
    if int(version.removeprefix("v").partition(".")[0]) < NODE_OLDEST:
        pytest.skip(f"Node {version.strip()} is older than {NODE_OLDEST}")
    kept = EXAMPLE / "node_modules" / ".package-lock.json"
    if not kept.exists() or kept.stat().st_mtime < (EXAMPLE / "package-lock.json").stat().st_mtime:
        status, said = await run(
            "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"
        )
        if status != 0 and not any(code in said for code in ("EUSAGE", "EINTEGRITY", "EBADENGINE")):
            pytest.skip(f"npm cannot fetch the packages: {said.strip()[-300:]}")
        assert status == 0, said
    status, said = await run("npm", "run", "build")
    assert status == 0, said


async def test_it_plays_a_match_to_its_end_although_its_connection_breaks(
    tmp_path: Path, database_url: str
) -> None:
    await built()
    async with Proxy(HOST, 0) as proxy:
        # Players reach the game process through the proxy.
        extra = {"game": {"PUBLIC_ADDRESS": proxy.address}}
        async with stack(tmp_path, database_url, extra) as made:
            await deal_all(await made.database(), SHORT)
            proxy.aim((HOST, made.ports["game"]))
            server = made.address("matchmaking")
            bot = asyncio.create_task(run("node", "dist/src/main.js", server, "grace"))
            try:
                outcome = await opponent(made, proxy)
                status, said = await bot
            finally:
                bot.cancel()
    assert status == 0, said
    told = json.loads(said.splitlines()[-1])
    assert told["attachments"] >= 2
    assert told["winner"] == f"SEAT_{str(outcome.winner).upper()}"
    assert told["cause"] == f"CAUSE_{str(outcome.cause).upper()}"


async def opponent(made: Stack, proxy: Proxy) -> Outcome:
    """Somebody for the bot to play with, who cuts the connections of both when the second round begins.

    A match can have a hundred rounds: whoever has seen eight has seen them all, and resigns.
    """
    cut = False

    def hear(news: News) -> None:
        nonlocal cut
        if news.table.round_no == 2 and not cut:
            cut = True
            proxy.cut()

    def choose(table: TableState) -> Command | None:
        if table.round_no > ROUNDS_MAX and table.seat is not None:
            return Resign(table.seat)
        return greedy.choose(table)

    async with await Client.guest(made.address("matchmaking"), "ada") as ada:
        table = await play(ada.play(await ada.seek(CASUAL)), choose, hear)
    assert cut
    assert table.outcome is not None
    return table.outcome
