"""`python -m tests.simulation --seeds N`: many worlds with all faults, then each rule taken away.

Exit status 1 when anything was violated; every such seed is named and can be run alone with its diary:
`python -m tests.simulation --watch SEED`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.simulation.campaign import Result, first_violations, run_many, run_world
from tests.simulation.switches import SWITCHES

SAID_EVERY: Final = 500
"""Where there is no terminal for a bar."""


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many worlds")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument(
        "--switch", choices=[*SWITCHES, "all", "none"], default="none", help="a rule to take away"
    )
    parser.add_argument("--watch", type=int, metavar="SEED", help="one world, told in full")
    given = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120)
    if given.watch is not None:
        return _watch(console, given.watch, given.switch if given.switch in SWITCHES else None)
    if given.switch == "none":
        return _campaign(console, given.first, given.seeds)
    return _switches(
        console, list(SWITCHES) if given.switch == "all" else [given.switch], given.first, given.seeds
    )


def _campaign(console: Console, first: int, seeds: int) -> int:
    totals: Counter[str] = Counter()
    bad: list[Result] = []
    began = time.monotonic()
    done = 0
    with _progress(console) as progress, suppress(KeyboardInterrupt):
        task = progress.add_task("worlds", total=seeds)
        for result in run_many(first, seeds):
            done += 1
            totals += result.totals
            progress.advance(task)
            if done % SAID_EVERY == 0 and not console.is_terminal:
                console.print(f"{done} worlds, {len(bad)} with violations")
            if result.violations:
                bad.append(result)
                progress.console.print(
                    f"seed {result.seed}: {result.violations[0]}", style="bold red", highlight=False
                )
    for title, prefixes in (
        ("injected", ("fault ", "at step ", "db ", "sent twice", "client dropped", "nonsense")),
        ("matches", ("ended by", "void ")),
        ("checked", ("checked ",)),
        ("seen", ("verdicts", "applied", "refused", "resumed", "credited", "process failed")),
    ):
        lines = [f"{name} {number}" for name, number in sorted(totals.items()) if name.startswith(prefixes)]
        console.print(f"{title}: " + ", ".join(lines), highlight=False)
    console.print(
        f"{done} worlds from seed {first} in {time.monotonic() - began:.0f} s: {len(bad)} with violations"
    )
    for result in sorted(bad)[:20]:
        console.print(f"  python -m tests.simulation --watch {result.seed}", highlight=False)
    return 1 if bad else 0


def _switches(console: Console, names: list[str], first: int, seeds: int) -> int:
    """Each rule taken away must be found out."""
    missed = 0
    with _progress(console) as progress, suppress(KeyboardInterrupt):
        task = progress.add_task("rules", total=len(names))
        for name, found in first_violations(names, first=first, most=seeds):
            progress.advance(task)
            rule = SWITCHES[name].rule
            if found is None:
                missed += 1
                progress.console.print(f"{name:13} {rule}: NOT FOUND in {seeds} seeds", style="bold red")
            else:
                progress.console.print(
                    f"{name:13} {rule}; without it seed {found.seed}: {found.violations[0][:160]}",
                    highlight=False,
                )
    console.print(f"{len(names)} rules taken away, one at a time: {missed} not found out")
    return 1 if missed else 0


def _watch(console: Console, seed: int, switch: str | None) -> int:
    result, diary = run_world(seed, switch, watched=True)
    for line in diary:
        console.print(line, highlight=False, markup=False)
    for violation in result.violations:
        console.print(violation, style="bold red", highlight=False, markup=False)
    return 1 if result.violations else 0


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )


if __name__ == "__main__":
    sys.exit(main())
