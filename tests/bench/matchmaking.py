"""What pairing costs and how good it is, beside two simple rules, in virtual time.

`python -m tests.bench.matchmaking [--quick] [cost|bound|rush|circle ...]`. Times are processor time of one core, so other work on the machine
disturbs them little. The population is described in `tests/bench/matchmaking_world.py`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

from rich.console import Console
from rich.table import Table

from matchmaker.pairing import EXACT_MAX, pair
from matchmaker.ticket import SECOND, Ticket, distance, worth
from tests.bench.matchmaking_rules import RULES, Rule
from tests.bench.matchmaking_world import Report, Scenario, live, population

NOW: Final = 1_000 * SECOND
SEED: Final = 20

RUSH: Final = Scenario(80_000, 10_000, 200.0, 0.0, (120.0, 360.0), seconds=300)
CIRCLE: Final = Scenario(40, 0, 0.0, 20.0, (120.0, 360.0), seconds=2 * 3600)

PASSES: Final = {1_000: 200, 10_000: 60, 50_000: 12}
"""Passes measured at each number of waiting players."""
CROWDS: Final = 4
"""Different crowds at each number; passes go round them."""


def at(values: Sequence[float], percent: float) -> float:
    """The value that so many of a hundred do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def waiting(size: int, seed: int) -> list[Ticket]:
    """So many who wait, most of them for a second or two, a few much longer; 50 of them have only just come."""
    random = Random(seed)
    names = [str(number) for number in range(size)]
    return [
        replace(
            player.ticket(NOW, NOW - (0 if number < 50 else int(random.expovariate(0.5) * SECOND))),
            recent=frozenset(random.choices(names, k=3)),
        )
        for number, player in enumerate(population(size, random))
    ]


def stuck(size: int, seed: int) -> list[Ticket]:
    """So many who have set limits that nobody here meets, and 40 who have just come: what a pass costs that finds little."""
    none = [
        replace(ticket, lowest=4000.0, since=NOW - 60 * SECOND, player_id=f"stuck {ticket.player_id}")
        for ticket in waiting(size, seed)
    ]
    return [*none, *(replace(ticket, since=NOW - SECOND // 10) for ticket in waiting(40, seed + 1))]


def picky(size: int, seed: int) -> list[Ticket]:
    """So many who all want a stronger opponent: the worst case, since each looks at everybody and nobody is paired."""
    return [replace(ticket, lowest=ticket.rating + 50) for ticket in waiting(size, seed)]


def timed(rule: Rule, crowd: list[Ticket]) -> float:
    """Processor seconds of one pass."""
    began = time.process_time()
    rule(crowd, NOW)
    return time.process_time() - began


def cost(console: Console, *, quick: bool) -> None:
    """Time of a pass, by the number of those who wait."""
    table = Table(
        title="Time of one pass, ms of one core: p50 / p99 (most, where fewer than 100 passes were made)"
    )
    for column in ("waiting", "passes", *RULES):
        table.add_column(column, justify="right")
    for size, passes in PASSES.items():
        row = []
        crowds = [waiting(size, SEED + number) for number in range(CROWDS)]
        wanted = max(CROWDS, passes // 10) if quick else passes
        for name, rule in RULES.items():
            # The simple rules are here for comparison only, and need not be known as exactly.
            times = wanted if name == "ours" else CROWDS
            spent = [timed(rule, crowds[number % CROWDS]) * 1000 for number in range(times)]
            row.append(f"{at(spent, 50):,.1f} / {at(spent, 99):,.1f}")
        table.add_row(f"{size:,}", str(wanted), *row)
    for what, crowd in (("10,000 whom nobody fits, and 40", stuck), ("10,000 who all want stronger", picky)):
        spent = [timed(RULES["ours"], crowd(10_000, SEED + number)) * 1000 for number in range(2)]
        table.add_row(what, "2", f"{at(spent, 50):,.1f} / {at(spent, 99):,.1f}", "", "")
    console.print(table)


def bound(console: Console, *, quick: bool) -> None:
    """How far a crowd's pairs are from the best ones, where these can still be computed."""
    table = Table(title="Pairs of a crowd beside the best possible: ours / best")
    for column in (
        "waiting",
        "crowds",
        "worth, mean",
        "worth, least",
        "pairs",
        "mean distance",
        "best takes",
    ):
        table.add_column(column, justify="right")
    for size, crowds in ((150, 50), (300, 20), (1_000, 2)):
        ratios, pairs, apart, spent = [], [0, 0], [0.0, 0.0], 0.0
        for number in range(max(2, crowds // 10) if quick else crowds):
            crowd = waiting(size, SEED + number)
            began = time.process_time()
            best = pair(crowd, NOW, exact_max=size)
            spent += time.process_time() - began
            found = pair(crowd, NOW)
            values = [sum(worth(p.first, p.second, NOW) for p in made) for made in (found, best)]
            ratios.append(values[0] / values[1])
            for which, made in enumerate((found, best)):
                pairs[which] += len(made)
                apart[which] += sum(distance(p.first, p.second) for p in made)
        table.add_row(
            f"{size:,}",
            str(len(ratios)),
            f"{sum(ratios) / len(ratios):.4f}",
            f"{min(ratios):.4f}",
            f"{pairs[0]:,} / {pairs[1]:,}",
            f"{apart[0] / pairs[0]:.1f} / {apart[1] / pairs[1]:.1f}",
            f"{spent / len(ratios) * 1000:,.0f} ms",
        )
    console.print(table)


def course(console: Console, title: str, scenario: Scenario) -> None:
    """How long they wait, for whom, under each rule."""
    table = Table(title=title)
    columns = ("rule", "matches", "waited, s", "rating gap", "repeats", "mixed", "left", "pass, ms")
    for column in columns:
        table.add_column(column, justify="left" if column == "rule" else "right")
    for name, rule in RULES.items():
        table.add_row(name, *_row(live(scenario, rule, SEED)))
    console.print(table)


def _row(report: Report) -> tuple[str, ...]:
    def three(values: list[float], digits: int) -> str:
        return " / ".join(f"{at(values, percent):,.{digits}f}" for percent in (50, 90, 99))

    passes = [seconds * 1000 for seconds in report.passes]
    return (
        f"{report.matches:,}",
        three(report.waited, 1),
        three(report.gaps, 0),
        f"{100 * report.repeats / report.matches:.2f} %",
        f"{100 * report.mixed / report.matches:.1f} %",
        f"{report.left} ({report.oldest:,.0f} s)",
        f"{at(passes, 50):.2f} / {at(passes, 99):.2f}",
    )


def rush(console: Console, *, quick: bool) -> None:
    """Many wait, and many come."""
    scenario = replace(RUSH, seconds=RUSH.seconds // (10 if quick else 1))
    course(
        console,
        f"10,000 waiting, then 200 arrivals a second: {scenario.seconds} s, a pass each 0.2 s",
        scenario,
    )


def circle(console: Console, *, quick: bool) -> None:
    """Few, always the same."""
    scenario = replace(CIRCLE, seconds=CIRCLE.seconds // (10 if quick else 1))
    minutes = scenario.seconds // 60
    course(console, f"A circle of {scenario.players} who play again and again: {minutes} min", scenario)


PARTS: Final = {"cost": cost, "bound": bound, "rush": rush, "circle": circle}


def main() -> None:
    """Every table, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the passes and of the virtual time")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all when none is named")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    console = Console(width=150)
    console.print(f"Exactly up to {EXACT_MAX} waiting; three figures are p50 / p90 / p99.\n")
    for name in options.parts or PARTS:
        PARTS[name](console, quick=options.quick)


if __name__ == "__main__":
    main()
