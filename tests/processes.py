"""Real service processes for tests: started, watched through their log, signalled, and always gone at the end."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

SECONDS_MAX = 30.0
"""How long a wait may take unless it says otherwise: far more than anything needs, even on a busy machine."""

_POLL_SECONDS = 0.01


class ProcessError(AssertionError):
    """A process did not do what the test waits for; the text ends with the end of its log."""


class Process:
    """One `python -m MODULE` with its own log file; use it through `running`, which always ends it."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log_path: Path) -> None:
        self.name = name
        self.log_path = log_path
        self._process = process
        self._read = 0
        self._events: list[dict[str, Any]] = []

    @property
    def pid(self) -> int:
        """The operating system's number of the process."""
        return self._process.pid

    def exit_status(self) -> int | None:
        """None while it runs; minus the signal's number when a signal ended it."""
        return self._process.poll()

    def events(self) -> list[dict[str, Any]]:
        """Every JSON log line so far, oldest first. Lines that are not JSON are only in the file."""
        with self.log_path.open("rb") as file:
            file.seek(self._read)
            lines = file.read().splitlines(keepends=True)
        for line in lines:
            if not line.endswith(b"\n"):
                break
            self._read += len(line)
            with suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict):
                    self._events.append(event)
        return self._events

    async def event(
        self, event: str, *, seconds_max: float = SECONDS_MAX, **values: object
    ) -> dict[str, Any]:
        """The first log line with this event name and these values, waiting for it.

        Raises ProcessError when the process ends before, or the time is up.
        """
        wanted = {"event": event, **values}
        give_up = time.monotonic() + seconds_max
        while True:
            # In this order: what it logged right before its end counts.
            ended = self.exit_status() is not None
            for line in self.events():
                if wanted.items() <= line.items():
                    return line
            if ended or time.monotonic() > give_up:
                raise self._error(f"did not log {wanted}")
            await asyncio.sleep(_POLL_SECONDS)

    async def ready(self, *, seconds_max: float = SECONDS_MAX) -> Process:
        """Wait until the process says that it is ready; return it."""
        await self.event("readiness", seconds_max=seconds_max, ready=True)
        return self

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it is gone already. SIGSTOP freezes it, SIGCONT lets it go on."""
        self._process.send_signal(number)

    async def ended(self, *, seconds_max: float = SECONDS_MAX) -> int:
        """Wait for the end; return the exit status. Raises ProcessError when the time is up."""
        give_up = time.monotonic() + seconds_max
        while (status := self.exit_status()) is None:
            if time.monotonic() > give_up:
                raise self._error("did not end")
            await asyncio.sleep(_POLL_SECONDS)
        return status

    async def terminate(self, *, seconds_max: float = SECONDS_MAX) -> int:
        """Ask it to leave (SIGTERM) and wait for that; return the exit status."""
        self.signal(signal.SIGTERM)
        return await self.ended(seconds_max=seconds_max)

    def kill(self) -> None:
        """End it as a crash would: SIGKILL, nothing is cleaned up."""
        self._process.kill()
        self._process.wait()

    def log_tail(self, lines: int = 30) -> str:
        """The last lines of its log."""
        return "\n".join(self.log_path.read_text("utf-8", "replace").splitlines()[-lines:])

    def _error(self, problem: str) -> ProcessError:
        return ProcessError(f"{self.name} {problem} (exit status {self.exit_status()}):\n{self.log_tail()}")


@asynccontextmanager
async def running(
    module: str,
    *arguments: str,
    env: Mapping[str, str],
    log_dir: Path,
    name: str | None = None,
    prefix: tuple[str, ...] = (),
) -> AsyncIterator[Process]:
    """Start `python -m module`, and end it whatever happens: SIGTERM, then SIGKILL.

    `env` comes on top of our own environment, without our SPECTACULAR_BID_ settings. The log, standard output and
    error together, is `log_dir/NAME.log`; a restart under the same name continues it. `prefix` is a program, with its
    full path, that becomes the process in an environment of its own.
    """
    name = name or module.rpartition(".")[2]
    process = _start(module, *arguments, env=env, log_dir=log_dir, name=name, prefix=prefix)
    try:
        yield process
    finally:
        if process.exit_status() is None:
            process.signal(signal.SIGCONT)
            process.signal(signal.SIGTERM)
            try:
                await process.ended(seconds_max=15)
            except (ProcessError, asyncio.CancelledError):
                process.kill()
                raise


def _start(
    module: str,
    *arguments: str,
    env: Mapping[str, str],
    log_dir: Path,
    name: str,
    prefix: tuple[str, ...] = (),
) -> Process:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("SPECTACULAR_BID_")}
    log_dir.mkdir(parents=True, exist_ok=True)
    log_path = log_dir / f"{name}.log"
    with log_path.open("ab") as log:
        start = log.tell()
        popen = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                __file__,
                str(os.getpid()),
                *prefix,
                sys.executable,
                "-m",
                module,
                *arguments,
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**inherited, "PYTHONUNBUFFERED": "1", **env},
            start_new_session=True,
        )
    process = Process(name, popen, log_path)
    process._read = start
    return process


def free_port() -> int:
    """A TCP port on loopback that was free a moment ago: for what must be told its port. Prefer port 0.

    Below those that systems give to outgoing connections: one of these could take it before its server does, or while
    its server is being started again.
    """
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def _exec_bound_to_parent(parent: int, command: list[str]) -> None:
    """Become `command`, which the kernel kills when the tests are killed: nothing stays behind (on Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() == parent:
        os.execv(command[0], command)


if __name__ == "__main__":
    # `subprocess` above runs this very file between fork and exec.
    _exec_bound_to_parent(int(sys.argv[1]), sys.argv[2:])
