"""What a part of the benchmark found: tables on the screen, and build/bench/PART.json with where it was measured.

    report = Report("path")
    report.progress("100 matches …")
    report.table("Saturated", ("matches", "moves/s"), [(100, 2345.6)])
    report.ratio("moves over messages of the floor, 100 matches", 0.53, better="higher")
    report.note("PostgreSQL with fsync")
    report.finish()

`python -m tests.bench.report FILE ...` shows such files as Markdown, for docs/performance.md.

Noise is a fixed piece of pure Python, timed at the beginning, at each table and at the end: how much the machine itself
changed meanwhile. Ratios are what `make bench-check` compares.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from rich.console import Console
from rich.table import Table

from services.local.postgres import PostgresError, find_binaries

Cell: TypeAlias = str | int | float | None
Better: TypeAlias = Literal["higher", "lower"]

ROOT: Final = Path(__file__).parents[2]
FOLDER_VARIABLE: Final = "BENCH_FOLDER"
FOLDER: Final = Path(os.environ.get(FOLDER_VARIABLE) or ROOT / "build" / "bench")
PACKAGES: Final = ("grpcio", "protobuf", "asyncpg", "uvloop")
SPIN_ROUNDS: Final = 5


class Report:
    """The results of one part."""

    def __init__(self, part: str, *, folder: Path = FOLDER, console: Console | None = None) -> None:
        self.part = part
        self._path = folder / f"{part}.json"
        # A file or a pipe has no width of its own.
        self._console = console or Console(width=None if os.isatty(1) else 150)
        self._began = datetime.now(UTC)
        self._load = os.getloadavg()[0]
        self._spins = [spin()]
        self._tables: list[dict[str, Any]] = []
        self._ratios: dict[str, dict[str, float | str]] = {}
        self._notes: list[str] = []

    @property
    def spin_us(self) -> float:
        """Processor time of the fixed piece of Python, the least so far: a unit for ratios that have no floor."""
        return min(cpu for _, cpu in self._spins) * 1e6

    def progress(self, text: str) -> None:
        """What is being done now; on the screen only."""
        self._console.print(f"  {text}", markup=False, highlight=False)

    def note(self, text: str) -> None:
        """A sentence that belongs to the results."""
        self._notes.append(text)
        self._console.print(text, markup=False, highlight=False)

    def table(self, name: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
        """A table; each row has a cell for each column, None where there is no figure."""
        kept = [list(row) for row in rows]
        for row in kept:
            if len(row) != len(columns):
                raise ValueError(f"{name}: {row} does not have the columns {list(columns)}")
        self._spins.append(spin())
        self._tables.append({"name": name, "columns": list(columns), "rows": kept})
        shown = Table(title=name, title_justify="left")
        for column in columns:
            shown.add_column(column, justify="right")
        for row in kept:
            shown.add_row(*map(cell_text, row))
        self._console.print(shown)

    def ratio(self, name: str, value: float, *, better: Better) -> None:
        """A figure that hardly depends on the machine, for `make bench-check`; the name stays the same for good."""
        name = f"{self.part}: {name}"
        self._ratios[name] = {"value": value, "better": better}
        self._console.print(f"{name}: {value:.3g}", markup=False, highlight=False)

    def finish(self) -> Path:
        """Say how noisy it was and write the file; its path comes back."""
        self._spins.append(spin())
        noise = noise_of(self._spins)
        found = {
            "part": self.part,
            "began": self._began.isoformat(timespec="seconds"),
            "ended": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "load_before": self._load,
            "versions": versions(),
            "noise": noise,
            "notes": self._notes,
            "ratios": self._ratios,
            "tables": self._tables,
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
        self.progress(
            f"noise: the same work took up to {noise['wall_spread_percent']:.0f} % longer by the wall clock, "
            f"{noise['cpu_spread_percent']:.0f} % by processor time; load before {self._load:.1f}; {self._path}"
        )
        return self._path


def spin() -> tuple[float, float]:
    """Wall and processor seconds of a fixed piece of pure Python (some 5 ms): the median of a few rounds, each alone."""
    rounds = []
    for _ in range(SPIN_ROUNDS):
        wall, cpu = time.perf_counter(), time.process_time()
        total = 0
        for number in range(100_000):
            total += number * number % 7
        rounds.append((time.perf_counter() - wall, time.process_time() - cpu))
    walls, cpus = zip(*rounds, strict=True)
    return sorted(walls)[SPIN_ROUNDS // 2], sorted(cpus)[SPIN_ROUNDS // 2]


def noise_of(spins: Sequence[tuple[float, float]]) -> dict[str, float]:
    """How far the slowest spin was above the fastest, in percent."""
    walls, cpus = zip(*spins, strict=True)
    return {
        "spins": len(spins),
        "spin_us": min(cpus) * 1e6,
        "wall_spread_percent": (max(walls) / min(walls) - 1) * 100,
        "cpu_spread_percent": (max(cpus) / min(cpus) - 1) * 100,
    }


def machine() -> dict[str, str | int]:
    """Where it was measured."""
    return {
        "cores": os.cpu_count() or 1,
        "processor": _line("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "kernel": f"{platform.system()} {platform.release()}",
        "memory": _line("/proc/meminfo", "MemTotal"),
    }


def versions() -> dict[str, str]:
    """Of what was measured."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "none"
    try:
        found["postgres"] = _output(str(find_binaries() / "postgres"), "--version").rpartition(" ")[2]
    except PostgresError:
        found["postgres"] = "none"
    changed = "" if not _output("git", "status", "--porcelain", "--untracked-files=no") else ", changed"
    found["revision"] = f"{_output('git', 'rev-parse', '--short', 'HEAD')}{changed}"
    return found


def cell_text(cell: Cell) -> str:
    """As it is shown: three figures that count, whole numbers in full."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int) or abs(cell) >= 100:
        return f"{cell:,.0f}"
    return f"{cell:.1f}" if abs(cell) >= 10 else f"{cell:.2f}"


def markdown(found: Mapping[str, Any]) -> str:
    """The tables of a file, with where and how well they were measured."""
    machine, noise = found["machine"], found["noise"]
    lines = [
        f"{found['part']}: {found['began']}, {machine['cores']} cores, {machine['processor']}, "
        + ", ".join(f"{name} {value}" for name, value in found["versions"].items())
        + f"; noise {noise['wall_spread_percent']:.0f} % by the wall clock, "
        f"{noise['cpu_spread_percent']:.0f} % by processor time"
    ]
    for table in found["tables"]:
        rows = [table["columns"], *([cell_text(cell) for cell in row] for row in table["rows"])]
        written = ["| " + " | ".join(row) + " |" for row in rows]
        lines += ["", table["name"], "", written[0], "|" + "---|" * len(table["columns"]), *written[1:]]
    return "\n".join(lines)


def _line(path: str, key: str) -> str:
    try:
        lines = Path(path).read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), "")


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(markdown(json.loads(Path(name).read_text("utf-8"))), end="\n\n")
