"""One process of the local stack: on a leash, in a group of its own, with its log in a file."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

_LEASH = "services.local.leash"
_LISTENING = b'"event": "listening"'
_LOG_LINES = 15
_LOG_BYTES = 16 * 1024


class Child:
    """`python -m MODULE`, until `stop`. It never outlives this process."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log_path: Path | None) -> None:
        self.name = name
        self.log_path = log_path
        self._process = process

    @classmethod
    async def start(
        cls,
        name: str,
        module: str,
        *arguments: str,
        env: Mapping[str, str],
        log_path: Path | None = None,
    ) -> Self:
        """Start it with this environment. Without `log_path` it talks to our own output."""
        log: IO[bytes] | None = None if log_path is None else log_path.open("wb")
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", _LEASH, module, *arguments),
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log if log is None else asyncio.subprocess.STDOUT,
                env={**env, "PYTHONUNBUFFERED": "1"},
                # Ctrl-C in the terminal is for us; we stop our children in order.
                start_new_session=True,
            )
        finally:
            if log is not None:
                log.close()
        return cls(name, process, log_path)

    @property
    def pid(self) -> int:
        """The operating system's number of the process."""
        return self._process.pid

    async def ended(self) -> int:
        """Wait for its end; return the exit status, negative when a signal ended it."""
        return await self._process.wait()

    async def stop(self, grace_seconds: float) -> None:
        """Ask it to leave, wait, and in the end make it."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self._process.wait(), grace_seconds)
            except TimeoutError:
                # Its whole group: whatever it has started goes with it.
                os.killpg(self.pid, signal.SIGKILL)
                await self._process.wait()

    def listening_on(self, what: str = "metrics") -> str:
        """The address of one of its ports, as it has logged it; empty before that."""
        if self.log_path is None:
            return ""
        for line in self.log_path.read_bytes().splitlines():
            if _LISTENING in line:
                return str(json.loads(line)[what])
        return ""


def tail(path: Path, lines: int = _LOG_LINES) -> str:
    """The last lines of a file; empty when it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LOG_BYTES))
            return "\n".join(file.read().decode("utf-8", "replace").splitlines()[-lines:])
    except OSError:
        return ""


def how_it_ended(status: int) -> str:
    """An exit status in words."""
    if status >= 0:
        return f"exit status {status}"
    with suppress(ValueError):
        return f"killed by {signal.Signals(-status).name}"
    return f"killed by signal {-status}"
