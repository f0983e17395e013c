"""Whether it became slower: ratios of one run beside those that are kept in ratios.json. `make bench-check`.

A ratio compares two things that were measured in the same run on the same machine, ours and a floor, a peer or a fixed
piece of Python; so it says the same on a slow machine as on a fast one. `--update` keeps what was found.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from tests.bench.report import FOLDER_VARIABLE, Better

KEPT: Final = Path(__file__).with_name("ratios.json")
TOLERANCE: Final = 0.25
"""Of a ratio that is kept for the first time."""
QUIET_LOAD: Final = 1.0
"""Ratios say little on a machine that others use: what shares a core with others costs more, and not alike."""
PARTS: Final[Mapping[str, Sequence[str]]] = {
    "path": ("--matches", "100", "--shares", "--seconds", "4", "--rounds", "3"),
    "engine": (),
    "room": (),
    "clock": ("--matches",),
    "commits": ("--seconds", "0.5"),
}
"""What is run, quickly, with its arguments."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A ratio as it was."""

    value: float
    better: Better
    tolerance: float = TOLERANCE
    """How much worse it may be, as a share of the value."""

    def worse(self, found: float) -> bool:
        """Whether what was found is worse than it may be."""
        if self.better == "higher":
            return found < self.value * (1 - self.tolerance)
        return found > self.value * (1 + self.tolerance)


@dataclass(frozen=True, slots=True)
class Compared:
    """One ratio, kept, found or both."""

    name: str
    kept: Kept | None
    found: float | None

    @property
    def failed(self) -> bool:
        """Whether it is worse, or was to be measured and is not there. A new ratio never fails."""
        return self.kept is not None and (self.found is None or self.kept.worse(self.found))

    @property
    def verdict(self) -> str:
        """In words."""
        if self.kept is None:
            return "new"
        if self.found is None:
            return "not measured"
        return "worse" if self.failed else "as it was or better"


def compare(kept: Mapping[str, Kept], found: Mapping[str, float]) -> list[Compared]:
    """All ratios there are, by name."""
    return [Compared(name, kept.get(name), found.get(name)) for name in sorted({*kept, *found})]


def updated(kept: Mapping[str, Kept], found: Mapping[str, Mapping[str, Any]]) -> dict[str, Kept]:
    """What is to be kept: values as found, tolerances as they were; what was not measured stays."""
    new = {
        name: Kept(
            float(f"{ratio['value']:.4g}"),
            ratio["better"],
            kept[name].tolerance if name in kept else TOLERANCE,
        )
        for name, ratio in found.items()
    }
    return dict(sorted({**kept, **new}.items()))


def read_kept(path: Path = KEPT) -> dict[str, Kept]:
    """The ratios of the file; none where there is no file."""
    if not path.exists():
        return {}
    return {name: Kept(**ratio) for name, ratio in json.loads(path.read_text("utf-8")).items()}


def measured(parts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Runs parts and collects their ratios. Raises SystemExit when one fails."""
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="spectacular-bid-check-") as folder:
        for part in parts:
            print(f"\n== {part}", flush=True)
            command = [sys.executable, "-m", f"tests.bench.{part}", *PARTS[part]]
            if subprocess.run(command, env={**os.environ, FOLDER_VARIABLE: folder}, check=False).returncode:
                raise SystemExit(f"{part} could not be measured")
            told = json.loads((Path(folder) / f"{part}.json").read_text("utf-8"))
            found |= told["ratios"]
            if told["load_before"] > QUIET_LOAD:
                print(f"others used this machine (load {told['load_before']:.1f}): {part} says little")
    return found


def tell(compared: Sequence[Compared]) -> None:
    """The table."""
    table = Table(title="Ratios beside those that are kept", title_justify="left")
    for column in ("ratio", "better", "kept", "may be worse by", "found", ""):
        table.add_column(column)
    for one in compared:
        kept = ("", "", "")
        if one.kept is not None:
            kept = (one.kept.better, f"{one.kept.value:.3g}", f"{one.kept.tolerance:.0%}")
        table.add_row(one.name, *kept, "" if one.found is None else f"{one.found:.3g}", one.verdict)
    Console(width=None if os.isatty(1) else 150).print(table)


def main() -> int:
    """The status is 1 when something is worse than it may be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="all when none is named")
    parser.add_argument("--update", action="store_true", help="keep what is found")
    options = parser.parse_args()
    parts = options.parts or list(PARTS)
    kept = read_kept()
    found = measured(parts)
    if options.update:
        text = json.dumps({name: asdict(one) for name, one in updated(kept, found).items()}, indent=1)
        KEPT.write_text(f"{text}\n", "utf-8")
    # What belongs to parts that were not run is not missing.
    asked = {name: one for name, one in kept.items() if name.partition(":")[0] in parts}
    compared = compare(asked, {name: ratio["value"] for name, ratio in found.items()})
    tell(compared)
    return 0 if options.update or not any(one.failed for one in compared) else 1


if __name__ == "__main__":
    raise SystemExit(main())
