"""How a service process ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

SERVICE = """
import threading
from services.common.host import run_service
from services.common.settings import SettingsError

async def main() -> None:
    print("closed")
    {last}

threading.Thread(target=threading.Event().wait, daemon={daemon}).start()
run_service(main)
"""


@pytest.mark.parametrize(
    ("daemon", "last", "status", "said"),
    [
        (False, "pass", 0, ""),
        (True, "raise SettingsError('no address')", 1, "cannot start: no address\n"),
    ],
)
def test_a_service_that_has_closed_everything_is_gone(
    daemon: bool, last: str, status: int, said: str
) -> None:
    """A thread that something left behind keeps no process, and what was said is not lost. Faults have their status."""
    source = SERVICE.format(daemon=daemon, last=last)
    ended = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=False, timeout=30
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (status, "closed\n", said)
