"""`make bias`: millions of deals, a table of statistics, and whether one of them is further off than chance allows."""

from __future__ import annotations

import argparse
import sys
import time

from tests.bias.counts import Counts, Figure
from tests.bias.source import ROUNDS, ours
from tests.bias.verdict import ALPHA, worst

CHUNK = 2_000


def main() -> int:
    """0 when nothing is further off than chance allows, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.bias", description=__doc__)
    parser.add_argument("--deals", type=int, default=2_000_000, metavar="N")
    wanted = parser.parse_args().deals
    counts, began = Counts(), time.monotonic()
    while counts.deals < wanted:
        counts.take(ours(min(CHUNK, -(-(wanted - counts.deals) // ROUNDS))))
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{counts.deals:,} deals")
    figures = counts.figures()
    print(f"{counts.deals:,} deals in {time.monotonic() - began:.0f} s, {ROUNDS} a match")
    print(f"{'':58}{'statistic':>10}{'df':>6}{'chance':>9}")
    pairs = [figure for figure in figures if figure.what.startswith("two tiles")]
    for figure in figures:
        if figure not in pairs:
            print(_row(figure.what, figure))
        elif figure is pairs[-1]:
            print(_row(f"{min(pairs, key=_chance).what} (worst of {len(pairs)})", min(pairs, key=_chance)))
    found = worst(figures)
    print(f"furthest cell of tile and place: {counts.widest_cell():.2f} standard deviations (784 cells)")
    print(
        f"furthest of {len(figures)} statistics: {found.figure.what}; by chance at least one is as far off with"
        f" probability {found.corrected:.3g} (bound: {ALPHA:g})"
    )
    print("biased" if found.biased else "no bias found")
    return int(found.biased)


def _chance(figure: Figure) -> float:
    return figure.chance


def _row(what: str, figure: Figure) -> str:
    freedom = str(figure.freedom) if figure.freedom else "z"
    return f"{what:58}{figure.statistic:>10.2f}{freedom:>6}{figure.chance:>9.3f}"


if __name__ == "__main__":
    sys.exit(main())
