"""The process helper of the tests: what it reports is what happened, and nothing stays behind."""

import os
import signal
from pathlib import Path

import pytest

from tests.processes import ProcessError, running

SERVICE = """
import json, signal, sys
# Blocked and then waited for: a handler could run just before a sleep that nothing ends.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print("not json", flush=True)
print(json.dumps({"event": "readiness", "ready": False}), flush=True)
print(json.dumps({"event": "readiness", "ready": True}), flush=True)
signal.sigwait({signal.SIGTERM})
print(json.dumps({"event": "stopped"}), flush=True)
sys.exit(3)
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "sample_service.py").write_text(SERVICE, "utf-8")
    return {"PYTHONPATH": str(tmp_path)}


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_it_waits_for_readiness_and_stops_politely(env: dict[str, str], tmp_path: Path) -> None:
    async with running("sample_service", env=env, log_dir=tmp_path) as process:
        await process.ready()
        assert [event.get("ready") for event in process.events()] == [False, True]
        assert await process.terminate() == 3
        await process.event("stopped")


async def test_a_crash_is_reported_with_the_end_of_the_log(tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match="No module named no_such_service"):
        async with running("no_such_service", env={}, log_dir=tmp_path) as process:
            await process.ready()


async def test_it_is_gone_after_the_block_even_when_frozen(env: dict[str, str], tmp_path: Path) -> None:
    async with running("sample_service", env=env, log_dir=tmp_path) as process:
        await process.ready()
        process.signal(signal.SIGSTOP)
    assert not alive(process.pid)


async def test_a_restart_under_the_same_name_reads_only_its_own_lines(
    env: dict[str, str], tmp_path: Path
) -> None:
    async with running("sample_service", env=env, log_dir=tmp_path) as process:
        await process.ready()
        process.kill()
        assert process.exit_status() == -signal.SIGKILL
    async with running("sample_service", env=env, log_dir=tmp_path) as process:
        await process.ready()
        assert len(process.events()) == 2
