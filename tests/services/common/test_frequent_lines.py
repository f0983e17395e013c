"""Lines that there are for every command: among the others in their order, written in one go, and lost at no end."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
import structlog

from services.common import logs

PREPARED = """
import asyncio, os, signal, sys
from services.common import logs
logs.configure("info")
async def main():
    logs.write_frequent("first", '"n": 1')
    logs.get_logger().info("second", n=2)
    logs.write_frequent("third", '"n": 3')
    asyncio.get_running_loop().call_soon(logs.write_frequent, "fourth", '"n": 4')
    END
"""


class Output(StringIO):
    """Counts how often it is written to."""

    writes = 0

    def write(self, text: str) -> int:
        self.writes += 1
        return super().write(text)

    def told(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch) -> Iterator[Output]:
    """That of a process with logs of level info."""
    written = Output()
    monkeypatch.setattr(sys, "stdout", written)
    before, hooks, root = structlog.get_config(), (sys.excepthook, sys.unraisablehook), logging.getLogger()
    handlers, level = list(root.handlers), root.level
    logs.configure("info")
    yield written
    root.handlers[:] = handlers
    root.setLevel(level)
    sys.excepthook, sys.unraisablehook = hooks
    structlog.configure(**before)
    logs._frequent.output = None


async def test_those_of_one_turn_of_the_loop_are_written_together_and_within_the_next(output: Output) -> None:
    for number in range(100):
        logs.write_frequent("command", f'"n": {number}')
    assert output.writes == 0
    await asyncio.sleep(0)
    assert output.writes == 1
    assert [line["n"] for line in output.told()] == list(range(100))
    logs.write_frequent("command", '"n": 100')
    await asyncio.sleep(0)
    assert output.told()[-1]["n"] == 100


async def test_no_line_overtakes_another(output: Output) -> None:
    logs.write_frequent("one", '"n": 1')
    logs.get_logger().info("two")
    logs.write_frequent("three", '"n": 3')
    logging.getLogger("library").warning("four")
    logs.write_frequent("five", '"n": 5')
    logs.flush()
    told = output.told()
    assert [line["event"] for line in told] == ["one", "two", "three", "four", "five"]
    assert {len(line["at"]) for line in told} == {len("2026-11-30T10:58:54.101732Z")}
    assert [line["at"] for line in told] == sorted(line["at"] for line in told)


async def test_below_the_level_there_are_none(output: Output) -> None:
    logs.configure("warning")
    logs.write_frequent("command", '"n": 1')
    logs.flush()
    assert output.getvalue() == ""


KILLED = "await asyncio.sleep(0); await asyncio.sleep(0); os.kill(os.getpid(), signal.SIGKILL)"
SERVICE = "from services.common.host import run_service; run_service(main)"
PLAIN = "asyncio.run(main())"


@pytest.mark.parametrize(
    ("end", "run", "status"), [("return", SERVICE, 0), ("raise ValueError", PLAIN, 1), (KILLED, PLAIN, -9)]
)
def test_however_a_process_ends_its_lines_are_written(end: str, run: str, status: int) -> None:
    """Killed without a word, it has written what was told in the turn of the loop before."""
    code = PREPARED.replace("END", end) + run
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    told = [json.loads(line)["event"] for line in ended.stdout.splitlines()]
    assert ended.returncode == status, ended.stderr
    assert [event for event in told if event != "crashed"] == ["first", "second", "third", "fourth"]
