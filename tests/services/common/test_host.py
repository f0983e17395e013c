"""How a service process ends, and that it says whether it is ready for as long as it lives."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from pydantic import SecretStr

from services.clock.settings import ClockSettings
from services.common.auth import write_new_keys
from services.common.host import Host
from services.storage.pool import TRANSIENT, open_pool

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


@pytest.fixture
async def host(database_url: str, tmp_path: Path) -> AsyncIterator[Host]:
    """A process of no service in particular, not running yet."""
    write_new_keys(tmp_path / "key.pem", tmp_path / "jwks.json")
    settings = ClockSettings(
        database_url=SecretStr(database_url),
        internal_secret=SecretStr("a secret of the tests only"),
        jwks_file=tmp_path / "jwks.json",
        internal_listen="127.0.0.1:0",
    )
    pool = await open_pool(database_url, name="test", size=2, wait_seconds=30)
    yield Host("clock", settings, pool)
    await pool.close()


class Failing:
    """A pool of which each query fails."""

    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    async def fetchval(self, _query: str) -> object:
        raise self._error("gone")


@pytest.mark.parametrize("error", [*TRANSIENT, asyncpg.PostgresError], ids=lambda error: error.__name__)
async def test_whatever_the_database_does_readiness_is_looked_at_again(
    host: Host, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """Its connections were killed, for example, which the library calls an error of its own."""
    assert await host._database_answers()
    monkeypatch.setattr(host, "pool", Failing(error))
    assert not await host._database_answers()
    monkeypatch.undo()
    assert await host._database_answers()


async def test_a_process_that_cannot_look_at_its_readiness_any_more_ends(host: Host) -> None:
    """Otherwise it would say for ever what was true once."""

    def bug() -> bool:
        raise ZeroDivisionError

    host.add_readiness("bug", bug)
    with pytest.raises(ZeroDivisionError):
        await host.run()
