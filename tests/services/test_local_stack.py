"""The local stack as a user starts it: what it shows, and that nothing of it is left, however it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for leftovers in /proc")

SECONDS_MAX = 90.0
SERVING = "Serving until Ctrl-C"
ALONE = ("--no-match", "--no-canary")


@dataclass(frozen=True)
class Seen:
    """A process, told apart from a later one with the same number by when it started."""

    pid: int
    started: str
    command: str


def look() -> dict[Seen, int]:
    """Every process of the machine that has not ended, and its parent."""
    found = {}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        with suppress(OSError):
            state, parent, *rest = (process / "stat").read_text("utf-8").rpartition(")")[2].split()
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if state not in "ZX":
                found[Seen(int(process.name), rest[17], command)] = int(parent)
    return found


def family(pid: int) -> set[Seen]:
    """A process's children, their children, and so on."""
    parents = look()
    members: set[Seen] = set()
    wanted = {pid}
    while new := {seen for seen, parent in parents.items() if parent in wanted} - members:
        members |= new
        wanted |= {seen.pid for seen in new}
    return members


def until(what: str, true: Callable[[], bool]) -> None:
    give_up = time.monotonic() + SECONDS_MAX
    while not true():
        assert time.monotonic() < give_up, f"waited too long until {what}"
        time.sleep(0.02)


class Running:
    """A stack started from the command line, with its output in files elsewhere."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, said: Path) -> None:
        self.process = process
        self.folder = folder
        self._said = said

    def _text(self, name: str) -> str:
        return (self._said / name).read_text("utf-8")

    @property
    def out(self) -> str:
        return self._text("out")

    @property
    def err(self) -> str:
        return self._text("err")

    def wait(self) -> int:
        return self.process.wait(SECONDS_MAX)

    def serving(self) -> None:
        until("it serves", lambda: SERVING in self.out or self.process.poll() is not None)
        assert self.process.poll() is None, self.err


@contextmanager
def stack(tmp_path: Path, *arguments: str, folder: Path | None = None) -> Iterator[Running]:
    folder = folder or tmp_path / "data"
    out: IO[bytes]
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "services.local", *arguments, "--folder", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
    try:
        yield Running(process, folder, tmp_path)
    finally:
        process.kill()
        process.wait()


def gone(members: set[Seen]) -> None:
    """Every one of them ends, and soon."""
    assert members
    until("everything is gone", lambda: not members & set(look()))


def demonstrate(tmp_path: Path, folder: Path) -> list[str]:
    """Run the demonstration to its end; what it said."""
    members: set[Seen] = set()
    with stack(tmp_path, "demo", folder=folder) as running:
        while running.process.poll() is None:
            members |= family(running.process.pid)
            time.sleep(0.3)
        assert running.wait() == 0, running.err
        assert running.err == ""
    gone(members)
    return running.out.splitlines()


def ratings(lines: list[str]) -> dict[str, tuple[str, str]]:
    """Before and after, by name."""
    return {
        name: (before, after)
        for line in lines
        for name, before, after in re.findall(r"^ *(\w+) +(-?\d+) -> +(-?\d+) ", line)
    }


@dataclass(frozen=True)
class Demonstration:
    """One that has been run."""

    place: Path
    """Where its output is."""
    folder: Path
    """Its data."""
    lines: list[str]


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory: pytest.TempPathFactory) -> Demonstration:
    """The only one: a match can be long."""
    place = tmp_path_factory.mktemp("demonstration")
    return Demonstration(place, place / "data", demonstrate(place, place / "data"))


@pytest.fixture
def kept(demonstration: Demonstration) -> Path:
    """A folder for one stack after the other, however the one before ended: only the first makes a database."""
    return demonstration.folder


def test_the_demonstration_plays_a_rated_match_and_leaves_nothing_behind(
    demonstration: Demonstration,
) -> None:
    lines = demonstration.lines
    ready = [line.split()[0] for line in lines if " ready " in line]
    assert ready == ["postgres", "clock", "matchmaking", "game"]
    rounds = [line for line in lines if re.match(r" *\d+ .*\d+:\d+ \d:\d\d \d:\d\d$", line)]
    assert [int(line.split()[0]) for line in rounds] == list(range(1, len(rounds) + 1))
    assert len(rounds) >= 1
    assert any(" wins: " in line for line in lines)
    wide = [line for line in lines if len(line) > 80 and str(demonstration.place) not in line]
    assert wide == [], "fits 80 columns"
    assert not any("\x1b" in line for line in lines), "no colours where nobody watches"
    assert set(ratings(lines)) == {"Amber", "Basil"}


@pytest.mark.long
def test_the_next_demonstration_starts_where_the_last_one_ended(
    tmp_path: Path, demonstration: Demonstration
) -> None:
    """The bots are who they were, and so are their ratings. In `make test`: these stand on the ladder of the next stack."""
    first = ratings(demonstration.lines)
    second = ratings(demonstrate(tmp_path, demonstration.folder))
    assert {name: before for name, (before, _) in second.items()} == {
        name: after for name, (_, after) in first.items()
    }


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM])
def test_a_stack_that_is_asked_to_stop_stops_everything(
    tmp_path: Path, kept: Path, number: signal.Signals
) -> None:
    with stack(tmp_path, "run", *ALONE, folder=kept) as running:
        running.serving()
        members = family(running.process.pid)
        assert len(members) >= 6
        running.process.send_signal(number)
        assert running.wait() == 0, running.err
        assert running.err == ""
        gone(members)


def test_nothing_survives_a_stack_that_is_killed_and_the_next_one_starts(tmp_path: Path, kept: Path) -> None:
    with stack(tmp_path, "run", "--no-match", folder=kept) as running:
        running.serving()
        members = family(running.process.pid)
        assert any("services.canary" in member.command for member in members)
        running.process.kill()
        running.process.wait()
        gone(members)
    with stack(tmp_path, "run", *ALONE, folder=kept) as running:
        running.serving()
        running.process.send_signal(signal.SIGINT)
        assert running.wait() == 0


def test_a_stop_in_the_middle_of_the_start_leaves_nothing_behind(tmp_path: Path) -> None:
    with stack(tmp_path, "run") as running:
        until("something runs", lambda: len(family(running.process.pid)) >= 2)
        members = family(running.process.pid)
        running.process.send_signal(signal.SIGTERM)
        assert running.wait() == 130
        gone(members)


@pytest.mark.parametrize("name", ["game", pytest.param("house-bots", marks=pytest.mark.long), "postgres"])
def test_a_part_that_dies_is_named_with_the_end_of_its_log(tmp_path: Path, kept: Path, name: str) -> None:
    """And the next stack on the same folder starts, whatever had died."""
    signs = {
        "house-bots": "client.bots house",
        "postgres": "bin/postgres -D",
    }
    with stack(tmp_path, "run", *ALONE, folder=kept) as running:
        running.serving()
        members = family(running.process.pid)
        sign = signs.get(name, f"services.local.leash services.{name}")
        victim = next(seen.pid for seen in members if sign in seen.command and "keeper" not in seen.command)
        os.kill(victim, signal.SIGKILL)
        assert running.wait() == 1
        assert f"error: {name} has died" in running.err
        assert str(running.folder) in running.err, "where its log is"
        gone(members)


def test_a_second_stack_on_the_same_folder_is_refused_and_harms_nobody(tmp_path: Path, kept: Path) -> None:
    elsewhere = tmp_path / "second"
    elsewhere.mkdir()
    with stack(tmp_path, "run", *ALONE, folder=kept) as first:
        first.serving()
        with stack(elsewhere, "run", folder=first.folder) as second:
            assert second.process.wait(SECONDS_MAX) == 1
            refusal = (elsewhere / "err").read_text("utf-8")
        assert "already" in refusal
        assert str(first.process.pid) in refusal
        assert first.process.poll() is None
        first.process.send_signal(signal.SIGINT)
        assert first.wait() == 0


@pytest.mark.long
def test_two_stacks_started_at_once_share_the_machine(tmp_path: Path) -> None:
    """Both look for the same ports in the same moment; whoever loses one takes another."""
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    with stack(folders[0], "run", *ALONE) as one, stack(folders[1], "run", *ALONE) as other:
        for running in (one, other):
            running.serving()
            running.process.send_signal(signal.SIGINT)
        assert (one.wait(), other.wait()) == (0, 0)


def act_as_operator(folder: Path) -> str:
    """What an operator called ada is shown who announces something in a shell that was made one of an operator's."""
    python = [sys.executable, "-m"]
    made = subprocess.check_output(
        [*python, "services.local", "operator", "ada", "--folder", str(folder)], text=True
    )
    exported = dict(line.removeprefix("export ").split("=", 1) for line in made.splitlines())
    return subprocess.check_output(
        [*python, "services.ops", "matchmaking", "announce", "hello", "--reason", "a test"],
        env={**os.environ, **exported},
        text=True,
    )


def test_a_taken_port_is_replaced_and_said_so(tmp_path: Path, demonstration: Demonstration) -> None:
    kept = demonstration.folder
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):  # somebody else has it: just as good
            taken.bind(("127.0.0.1", 7600))
            taken.listen()
        with stack(tmp_path, "run", "--no-match", folder=kept) as running:
            running.serving()
            found = re.search(r"port 7600 is taken: matchmaking uses (\d+) instead", running.out)
            assert found is not None, running.out
            # Whoever follows the pointers reaches this stack.
            assert f"client ladder --server 127.0.0.1:{found[1]}" in running.out
            assert f"services.local operator --folder {kept})" in running.out
            shown = act_as_operator(running.folder)
            assert re.search(r"rated +open .* hello +ada", shown), shown
            command = [sys.executable, "-m", "client", "ladder", "--server", f"127.0.0.1:{found[1]}"]
            environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
            said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            assert (said.returncode, said.stderr) == (0, "")
            # Who has played there before is who he was, and so is his rating.
            for name, (_, rating) in ratings(demonstration.lines).items():
                assert re.search(rf"\b{name}\b.* {rating}\b", said.stdout), said.stdout
            identities = tmp_path / "spectacular-bid" / "identities.json"
            assert identities.stat().st_mode & 0o777 == 0o600
            assert f"127.0.0.1:{found[1]}" in json.loads(identities.read_text("utf-8"))
            # The canary has played, and all is well.
            until("the canary has played", lambda: "canary_played" in (kept / "logs/canary.log").read_text())
            until("it is written down", lambda: "canary=" in (kept / "serving.json").read_text())
            command = [sys.executable, "-m", "services.ops", "status", "--folder", str(kept)]
            said = subprocess.run(command, capture_output=True, text=True, check=False)
            assert said.returncode == 0, said.stdout
            assert all(role in said.stdout for role in ("matchmaking", "game", "clock", "canary"))
            assert (kept / "serving.json").stat().st_mode & 0o777 == 0o600
            running.process.send_signal(signal.SIGINT)
            assert running.wait() == 0
    assert not (kept / "serving.json").exists()
