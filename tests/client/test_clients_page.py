"""The bot of docs/clients.md, exactly as it is printed, against a real stack."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from tests.knownmatches import SHORT, deal_all
from tests.processes import SECONDS_MAX
from tests.stack import stack

ROOT = Path(__file__).resolve().parents[2]


def program() -> str:
    """The one block of Python on the page."""
    page = (ROOT / "docs" / "clients.md").read_text("utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    return str(block)


def test_it_has_fewer_than_fifty_lines() -> None:
    assert len(program().splitlines()) < 50


async def test_two_of_them_play_to_the_end(tmp_path: Path, database_url: str) -> None:
    (tmp_path / "bot.py").write_text(program(), "utf-8")
    async with stack(tmp_path, database_url) as made:
        await deal_all(await made.database(), SHORT)
        bots = [
            await asyncio.create_subprocess_exec(
                sys.executable,
                "bot.py",
                made.address("matchmaking"),
                name,
                cwd=tmp_path,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            for name in ("ada", "bob")
        ]
        try:
            async with asyncio.timeout(4 * SECONDS_MAX):
                told = await asyncio.gather(*(bot.communicate() for bot in bots))
        finally:
            for bot in bots:
                if bot.returncode is None:
                    bot.kill()
                    await bot.wait()
        database = await made.database()
        finished = await database.fetch("select winner, cause from match_outcome")
    assert [bot.returncode for bot in bots] == [0, 0], told
    (ada, _), (bob, _) = told
    assert ada.splitlines()[0].startswith(b"ada plays bob as ")
    assert ada.splitlines()[-1] == bob.splitlines()[-1]
    ((winner, cause),) = finished
    assert winner.upper() in ada.decode()
    assert cause == "balance"
