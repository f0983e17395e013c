"""`python -m tests.chaos [rolling|kill-game|kill-clock]`: break real processes under real matches, then check everything.

Without a name: every fault in turn. The exit status is 1 when anything did not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.chaos import scenarios
from tests.chaos.campaign import Campaign, Seen, campaign
from tests.chaos.injections import Injection, everything, namespace_command, namespace_missing
from tests.chaos.players import Pace
from tests.chaos.rig import NAMESPACE_VARIABLE
from tests.chaos.scenarios import Result

NAMED = {"rolling": scenarios.rolling, "kill-game": scenarios.kill_game, "kill-clock": scenarios.kill_clock}

FAULTS_SHOWN, NOTES_SHOWN = 40, 10


def show(result: Result | Campaign, name: str, tables: int) -> None:
    """The figures, and every fault."""
    found, book = result.findings, result.book
    print(f"\n== {name}: {tables} matches at a time, {found.matches} in all")
    for line in result.lines:
        print(f"  {line}")
    outcomes = ", ".join(f"{count} by {cause}" for cause, count in found.outcomes.most_common())
    print(f"  outcomes, one a match: {outcomes}")
    print(f"  void: {found.outcomes['void']}; forfeits: {found.outcomes['time']}")
    lost = sum("lost" in fault for fault in found.faults)
    print(f"  acknowledged commands: {found.commands}, of them lost: {lost}")
    answers = sorted(said.answered - said.sent for said in book.said) or [0.0]
    half = statistics.median(answers) * 1000
    print(f"  longest pause (a player waiting for an answer): {answers[-1]:.2f} s; half waited {half:.1f} ms")
    print(f"  credits: {found.credited:.1f} s in all, {found.credited_most:.1f} s at most in one match")
    incidents = ", ".join(f"{count} {kind}" for kind, count in sorted(found.incidents.items())) or "none"
    print(f"  incidents: {incidents}")
    differences = sorted(found.differences) or [0.0]
    print(
        f"  {found.turns} turns measured by the players themselves: the service counted, credits included,"
        f" {statistics.median(differences) * 1000:+.1f} ms (half of them)"
    )
    print(
        f"  turns charged more than the player's own times allow: {len(found.too_much)};"
        f" less, in the player's favour: {len(found.too_little)}"
        f" (by {max(found.too_little, default=0.0) * 1000:.0f} ms at most)"
    )
    if book.refused:
        print(f"  refused or tried again: {dict(book.refused)}")
    faults = [*result.faults, *found.faults]
    for fault in faults[:FAULTS_SHOWN]:
        print(f"  FAULT: {fault}")
    if len(faults) > FAULTS_SHOWN:
        print(f"  … and {len(faults) - FAULTS_SHOWN} more")
    for note in found.notes[:NOTES_SHOWN]:
        print(f"  note: {note}")
    print("  everything held" if result.ok else "  NOT everything held")


def table_of(seen: list[Seen]) -> Table:
    """What was inflicted, and what happened."""
    table = Table(box=None, pad_edge=False)
    for column in (
        "fault",
        "of",
        "for s",
        "went on",
        "pause s",
        "answer s",
        "credited s",
        "void",
        "forfeit",
    ):
        table.add_column(column, justify="left" if column in ("fault", "of") else "right")
    for each in seen:
        if each.skipped:
            table.add_row(each.kind, each.target, *["-"] * 7)
            continue
        table.add_row(
            each.kind,
            each.target,
            f"{each.seconds:g}",
            f"{each.went_on}/{each.matches}",
            f"{each.pause:.1f}",
            f"{each.answer:.2f}",
            f"{each.credited:.1f}",
            str(each.voids),
            str(each.forfeits),
        )
    return table


def main(arguments: list[str] | None = None) -> int:
    """Runs what is asked for; 0 when everything held."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument(
        "name", nargs="?", choices=sorted(NAMED), help="one of the promises; every fault if none"
    )
    parser.add_argument("--matches", type=int, help="matches at a time; 200, or 20 for every fault in turn")
    parser.add_argument(
        "--only", help="only faults whose names contain this, for example `SIGKILL` or `busy-clock`"
    )
    parser.add_argument("--think", type=float, help="seconds a bot thinks on average")
    parser.add_argument("--keep", type=Path, help="an empty folder for data and logs, kept")
    options = parser.parse_args(arguments)
    if options.keep and options.keep.exists() and any(options.keep.iterdir()):
        parser.error(f"{options.keep} is not empty: the matches of an earlier run would be counted too")
    began = time.monotonic()

    def tell(text: str) -> None:
        print(f"[{time.monotonic() - began:6.1f} s] {text}", flush=True)

    tables = options.matches or (20 if options.name is None else 200)
    think = options.think or max(1.0, tables / 80)
    pace = Pace(think=think, delay=think, resigns=0.01 if options.name is None else 0.0)
    with tempfile.TemporaryDirectory(prefix="spectacular-bid-chaos-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        result: Result | Campaign
        if options.name is None:
            result = asyncio.run(campaign(folder, chosen(options.only), tables, pace, tell))
            Console(width=None if sys.stdout.isatty() else 120).print(table_of(result.seen))
            result.lines += [
                f"not done: {each.kind} of {each.target}: {each.skipped}"
                for each in result.seen
                if each.skipped
            ]
        else:
            result = asyncio.run(NAMED[options.name](folder, tables, pace, tell))
    show(result, options.name or "every fault in turn", tables)
    return 0 if result.ok else 1


def chosen(only: str | None) -> list[Injection]:
    """The faults whose names contain `only`."""
    return [each for each in everything() if only is None or only in f"{each.kind} {each.target}"]


def own_network(arguments: list[str]) -> None:
    """Goes on in a network of its own where the machine allows that; otherwise returns."""
    if os.environ.get(NAMESPACE_VARIABLE) or namespace_missing():
        return
    shell = 'ip link set lo up && exec "$@"'
    command = [*namespace_command(), "sh", "-c", shell, "sh", sys.executable, "-m", "tests.chaos", *arguments]
    os.execvpe(command[0], command, {**os.environ, NAMESPACE_VARIABLE: "1"})


if __name__ == "__main__":
    own_network(sys.argv[1:])
    sys.exit(main())
