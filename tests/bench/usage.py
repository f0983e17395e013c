"""Processor time and memory of processes, and the cores they run on: what sizing rests on.

Processor time is counted by the kernel, not waited for, so other work on the machine changes it little.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    """Of a process until now, all its threads, in user and in kernel mode; to 10 ms on most systems."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def thread_seconds(pid: int) -> dict[str, float]:
    """The same in parts: of the thread that runs the event loop, by mode, and of all others (gRPC's, mostly)."""
    parts = {"loop, user": 0.0, "loop, kernel": 0.0, "other threads": 0.0}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            fields = (task / "stat").read_text("ascii").rpartition(") ")[2].split()
            user, kernel = int(fields[11]) / _TICK, int(fields[12]) / _TICK
            if int(task.name) == pid:
                parts["loop, user"], parts["loop, kernel"] = user, kernel
            else:
                parts["other threads"] += user + kernel
    return parts


def resident_megabytes(pid: int) -> float:
    """Memory of a process now."""
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def postmaster_of(folder: Path) -> int:
    """The first process of the PostgreSQL somewhere in a folder."""
    (file,) = folder.rglob("postmaster.pid")
    return int(file.read_text("ascii").split()[0])


def family(pid: int) -> list[int]:
    """A process and its children, and theirs."""
    found = [pid]
    for parent in found:
        with suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                found += map(int, (task / "children").read_text("ascii").split())
    return found


def family_seconds(pid: int) -> float:
    """Processor time of a process and its living children until now."""
    seconds = 0.0
    for member in family(pid):
        with suppress(OSError):
            seconds += processor_seconds(member)
    return seconds


@dataclass(frozen=True, slots=True)
class Usage:
    """Processor seconds until an instant, by name of a process (with its children)."""

    seconds: Mapping[str, float]

    def since(self, earlier: Usage) -> dict[str, float]:
        """What was used in between."""
        return {name: seconds - earlier.seconds[name] for name, seconds in self.seconds.items()}


def usage_of(pids: Mapping[str, int]) -> Usage:
    """Of named processes, now."""
    return Usage({name: family_seconds(pid) for name, pid in pids.items()})


def core_seconds() -> list[float]:
    """Seconds that each core was not idle, until now, whoever used it."""
    lines = Path("/proc/stat").read_text("ascii").splitlines()
    cores = (line.split()[1:] for line in lines if line.startswith("cpu") and line[3].isdigit())
    # user, nice, system, idle, waiting for disks, interrupts, soft interrupts, stolen
    return [sum(int(core[at]) for at in (0, 1, 2, 5, 6, 7)) / _TICK for core in cores]


@contextmanager
def pinned(cores: Collection[int]) -> Iterator[None]:
    """This thread, and every process and thread it starts in the block, on these cores only; theirs for good."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def pin_all(pids: Iterable[int], cores: Collection[int]) -> None:
    """Running processes with all their threads and children on these cores."""
    for first in pids:
        for pid in family(first):
            with suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    os.sched_setaffinity(int(task.name), cores)
