"""`python -m tests.opsdemo`: break four things under load, and see what an operator is told. Some minutes.

The exit status is 1 when anybody lost on time wrongly, or anything else did not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
import time
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.table import Table

from services.ops.statusview import picture
from tests.opsdemo.show import Seen, Shown, show
from tests.tools import find_tool

WIDTH = 132
FAULTS_SHOWN = 20


def table_of(seen: list[Seen]) -> Table:
    """What broke, and what was said about it."""
    table = Table(box=None, pad_edge=False)
    for column in (
        *("what broke", "status after s", "alerts", "first after s", "well after s", "pause s"),
        *("credited s", "void", "forfeits", "rated"),
    ):
        left = column in ("what broke", "alerts")
        table.add_column(
            column, justify="left" if left else "right", overflow="fold", min_width=26 if left else None
        )
    for each in seen:
        heard = each.heard
        table.add_row(
            each.what.title,
            f"{min(heard.problems.values()):.1f}" if heard.problems else "never",
            ", ".join(sorted(heard.alerts)) or "none",
            f"{min(heard.alerts.values()):.1f}" if heard.alerts else "",
            "never" if each.well_after is None else f"{each.well_after:.1f}",
            f"{each.pause:.1f}",
            f"{each.credited:.1f}",
            str(each.voids),
            str(each.forfeits),
            str(each.decisions["rated"]),
        )
    return table


def conclude(done: Shown, console: Console) -> None:
    """The end of the demonstration."""
    if done.picture is not None:
        console.print("\nWhat status showed at the end of the first outage:\n")
        console.print(picture(*done.picture))
    console.print()
    console.print(table_of(done.seen))
    found = done.findings
    outcomes = ", ".join(f"{count} by {cause}" for cause, count in found.outcomes.most_common())
    decisions = ", ".join(f"{reason} {count}" for reason, count in sorted(done.decisions.items()))
    console.print(f"\n{found.matches} matches: {outcomes}; {found.commands} acknowledged commands")
    console.print(f"rating decisions: {decisions}; without one: {done.undecided}")
    console.print(f"the ladder worked out again from outcomes and rulings: {len(done.ladder)} differences")
    console.print(
        f"the canary: {done.canary['canary_played']} matches played, {done.canary['canary_failed']} failed"
    )
    console.print(
        f"credited to players: {found.credited:.1f} s; {found.turns} turns compared with their own times"
    )
    faults = [*done.faults, *found.faults, *done.ladder]
    for fault in faults[:FAULTS_SHOWN]:
        console.print(f"FAULT: {fault}", style="red")
    if len(faults) > FAULTS_SHOWN:
        console.print(f"… and {len(faults) - FAULTS_SHOWN} more", style="red")
    console.print(f"wrong forfeits: {done.wrong_forfeits}", style="bold green" if done.ok else "bold red")


def main(arguments: list[str] | None = None) -> int:
    """0 when everything held."""
    parser = argparse.ArgumentParser(prog="python -m tests.opsdemo", description=__doc__)
    parser.add_argument("--matches", type=int, default=24, help="unrated matches at a time")
    parser.add_argument("--seekers", type=int, default=12, help="players who seek rated matches all the time")
    parser.add_argument("--keep", type=Path, help="an empty folder for data and logs, kept")
    parser.add_argument("--picture", type=Path, help="write what status showed to this SVG file")
    options = parser.parse_args(arguments)
    program = find_tool("prometheus")
    if program is None:
        parser.error("Prometheus is not here: `make tools` gets it on Debian and its like")
    began = time.monotonic()
    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)

    def tell(text: str) -> None:
        console.print(f"[{time.monotonic() - began:6.1f} s] {text}", markup=False)

    with tempfile.TemporaryDirectory(prefix="spectacular-bid-opsdemo-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        done = asyncio.run(show(program, folder, options.matches, options.seekers, tell))
    conclude(done, console)
    if options.picture and done.picture is not None:
        drawn = Console(width=WIDTH, record=True, file=StringIO(), force_terminal=True)
        drawn.print(picture(*done.picture))
        drawing = drawn.export_svg(title="python -m services.ops status")
        # Without the fonts that it would have a browser fetch from elsewhere.
        options.picture.write_text(re.sub(r"\s*@font-face \{.*?\}", "", drawing, flags=re.DOTALL), "utf-8")
    return 0 if done.ok else 1


if __name__ == "__main__":
    sys.exit(main())
