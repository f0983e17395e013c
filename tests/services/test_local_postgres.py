"""The local PostgreSQL: it starts for anyone, keeps its data, and never outlives its owner."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from services.local import postgres
from services.local.postgres import EmbeddedPostgres, PostgresError
from services.local.postgres_keeper import NOBODY

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")

OWNER = """
import signal, sys
from services.local.postgres import EmbeddedPostgres
server = EmbeddedPostgres(sys.argv[1], durable=False)
print(server.start(), flush=True)
signal.pause()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A data folder below one that is closed to other users, as root's home is."""
    with tempfile.TemporaryDirectory() as closed:
        yield Path(closed) / "data"


def query(url: str, *statements: str) -> object:
    """Run the statements; return the first value of the last."""

    async def run() -> object:
        connection = await asyncpg.connect(url)
        try:
            for statement in statements[:-1]:
                await connection.execute(statement)
            return await connection.fetchval(statements[-1])
        finally:
            await connection.close()

    return asyncio.run(run())


def refuses(url: str) -> bool:
    """Whether nothing listens at the port of `url`."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    with socket.socket() as probe:
        return probe.connect_ex((parts.hostname, parts.port)) != 0


def eventually(condition: Callable[[], bool], seconds_max: float = 30) -> bool:
    give_up = time.monotonic() + seconds_max
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.01)
    return True


def test_data_stays_between_runs_and_nothing_listens_in_between(folder: Path) -> None:
    with EmbeddedPostgres(folder) as server:
        first = server.url
        query(first, "CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (7)", "SELECT 1")
        assert query(first, "SHOW fsync") == "on"
    assert refuses(first)
    with EmbeddedPostgres(folder) as server:
        assert query(server.url, "SELECT n FROM kept") == 7


def test_a_start_inside_a_running_loop_works(folder: Path) -> None:
    async def run() -> object:
        with EmbeddedPostgres(folder, durable=False) as server:
            return await asyncio.to_thread(query, server.url, "SHOW fsync")

    assert asyncio.run(run()) == "off"


def test_only_the_password_opens_it_and_only_its_owner_reads_that(folder: Path) -> None:
    with EmbeddedPostgres(folder, durable=False) as server:
        assert (folder / "password").stat().st_mode & 0o777 == 0o600
        password = (folder / "password").read_text("ascii")
        with pytest.raises(asyncpg.InvalidPasswordError):
            query(server.url.replace(password, "guess"), "SELECT 1")
        assert password not in server.log_tail(1000)


def test_a_killed_owner_takes_the_server_along_and_the_next_start_finds_the_data(folder: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout is not None
        url = owner.stdout.readline().strip()
        query(url, "CREATE TABLE kept AS SELECT 7 AS n", "SELECT 1")
    finally:
        owner.kill()
        owner.communicate()
    assert eventually(lambda: refuses(url)), "the server outlived its owner"
    with EmbeddedPostgres(folder, durable=False) as server:
        assert query(server.url, "SELECT n FROM kept") == 7
        # It was a shutdown, not a crash.
        assert "was not properly shut down" not in server.log_tail(1000)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent died")
def test_a_killed_keeper_takes_the_server_along(folder: Path) -> None:
    server = EmbeddedPostgres(folder, durable=False)
    try:
        url = server.start()
        assert server._keeper is not None
        server._keeper.kill()
        assert eventually(lambda: refuses(url)), "the server outlived its keeper"
        assert eventually(lambda: server.exit_status() == -signal.SIGKILL)
    finally:
        server.stop()


def test_data_in_use_is_refused_and_the_owner_named(folder: Path) -> None:
    with EmbeddedPostgres(folder, durable=False) as server:
        with pytest.raises(PostgresError, match=f"in use by process {os.getpid()}"):
            EmbeddedPostgres(folder, durable=False).start()
        assert query(server.url, "SELECT 1") == 1


def test_a_pid_file_left_by_a_crash_does_not_stop_a_start(folder: Path) -> None:
    with EmbeddedPostgres(folder, durable=False):
        left = (folder / "cluster" / "postmaster.pid").read_text("ascii").splitlines()
    # Its number belongs to a living process by now: the worst case, usual in containers.
    (folder / "cluster" / "postmaster.pid").write_text(
        "\n".join([str(os.getppid()), *left[1:]]) + "\n", "ascii"
    )
    with EmbeddedPostgres(folder, durable=False) as server:
        assert query(server.url, "SELECT 1") == 1


def test_an_interrupted_first_start_is_made_anew(folder: Path) -> None:
    (folder / "cluster.new").mkdir(parents=True)
    (folder / "cluster.new" / "PG_VERSION").write_text("18\n", "ascii")
    (folder / "password").write_text("half", "ascii")
    with EmbeddedPostgres(folder, durable=False) as server:
        assert query(server.url, "SELECT 1") == 1


def test_a_taken_port_is_said_and_nothing_stays_locked(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(PostgresError, match="cannot be used"):
            EmbeddedPostgres(folder, port=taken.getsockname()[1], durable=False).start()
    with EmbeddedPostgres(folder, durable=False) as server:
        assert query(server.url, "SELECT 1") == 1


def test_a_server_that_dies_by_itself_is_noticed(folder: Path) -> None:
    with EmbeddedPostgres(folder, durable=False) as server:
        assert server.exit_status() is None
        postmaster = int((folder / "cluster" / "postmaster.pid").read_text("ascii").split()[0])
        os.kill(postmaster, signal.SIGKILL)
        assert eventually(lambda: server.exit_status() is not None)


def test_pgbin_without_postgres_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGBIN", str(folder))
    with pytest.raises(PostgresError, match="holds no postgres"):
        postgres.find_binaries()


class AsNobody(EmbeddedPostgres):
    """As it runs where user namespaces are forbidden."""

    def _choose_mode(self, binaries: Path) -> str:
        return f"user:{NOBODY}"


@as_root
def test_root_without_user_namespaces_starts_it_as_another_user_even_in_a_closed_folder(folder: Path) -> None:
    with AsNobody(folder, durable=False) as server:
        assert (folder / "cluster").stat().st_uid == NOBODY
        query(server.url, "CREATE TABLE kept AS SELECT 7 AS n", "SELECT 1")
    # Data of another user stays that user's, also where namespaces are allowed.
    with EmbeddedPostgres(folder, durable=False) as server:
        assert (folder / "cluster").stat().st_uid == NOBODY
        assert query(server.url, "SELECT n FROM kept") == 7


@as_root
def test_root_gives_its_data_to_the_other_user_where_namespaces_are_forbidden_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedPostgres(folder, durable=False) as server:
        query(server.url, "CREATE TABLE kept AS SELECT 7 AS n", "SELECT 1")
        made_in_namespace = (folder / "cluster").stat().st_uid == 0
    if not made_in_namespace:
        pytest.skip("user namespaces are forbidden here already")
    forbidding = folder.parent / "keeper.py"
    original = Path(postgres.__file__).with_name("postgres_keeper.py")
    shutil.copy(original, forbidding)
    forbidding.write_text(original.read_text("utf-8").replace('"unshare"', '"forbidden_unshare"'), "utf-8")
    monkeypatch.setattr(postgres, "_KEEPER", forbidding)
    with EmbeddedPostgres(folder, durable=False) as server:
        assert (folder / "cluster").stat().st_uid == NOBODY
        assert query(server.url, "SELECT n FROM kept") == 7
