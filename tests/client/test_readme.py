"""The program of the README, exactly as it is printed, against a real stack."""

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
    """The one block of Python in the README."""
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    return str(block)


def test_it_has_ten_lines_at_most_besides_imports_and_the_last() -> None:
    lines = [line for line in program().splitlines() if line.strip()]
    assert len([line for line in lines if not re.match(r"import |from |asyncio\.run", line)]) <= 10


async def test_two_of_them_find_each_other_and_play_to_the_end(tmp_path: Path, database_url: str) -> None:
    (tmp_path / "player.py").write_text(program(), "utf-8")
    async with stack(tmp_path, database_url) as made:
        await deal_all(await made.database(), SHORT)
        players = [
            await asyncio.create_subprocess_exec(
                sys.executable,
                "player.py",
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
                told = await asyncio.gather(*(player.communicate() for player in players))
        finally:
            for player in players:
                if player.returncode is None:
                    player.kill()
                    await player.wait()
        database = await made.database()
        finished = await database.fetch("select winner, cause from match_outcome")
    assert [player.returncode for player in players] == [0, 0], told
    (ada, _), (bob, _) = told
    assert ada == bob
    ((winner, cause),) = finished
    assert winner.upper() in ada.decode()
    assert cause == "balance"
    assert "BALANCE" in ada.decode()
