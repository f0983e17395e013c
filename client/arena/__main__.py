"""Bots against each other on the same deals, many matches at a time: who is stronger, and how sure is that?"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from client.arena.pairs import pairs
from client.arena.tally import Tally, thinking_ms
from client.bots.levels import LEVELS

DEALS: Final = 100
"""Deals a move of a bot that searches looks at, unless told otherwise."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
console = Console(highlight=False)


@app.command(help=__doc__)
def arena(
    one: Annotated[str, typer.Argument(help=f"A bot: {', '.join(LEVELS)}.")],
    other: Annotated[str, typer.Argument(help="The bot it plays against.")],
    *,
    matches: Annotated[int, typer.Option(min=2, help="How many; two share their deals.")] = 200,
    seed: Annotated[int, typer.Option(help="Of the deals and of the bots' random numbers.")] = 1,
    looked: Annotated[
        int, typer.Option("--deals", min=1, help="Hidden deals a move of a bot that searches looks at.")
    ] = DEALS,
    jobs: Annotated[int, typer.Option(min=0, help="Processes; 0 for one a processor.")] = 0,
) -> None:
    """Play and tell."""
    for bot in (one, other):
        if bot not in LEVELS:
            print(f"error: there is no bot called {bot}: {', '.join(LEVELS)}", file=sys.stderr)
            raise typer.Exit(2)
    count = (matches + 1) // 2
    tally = Tally()
    with _progress(console) as progress:
        task = progress.add_task(f"{one} against {other}", total=count, rate="")
        for pair in pairs(
            one, other, seed=seed, looked=looked, count=count, jobs=jobs or os.cpu_count() or 1
        ):
            tally.add(pair)
            progress.update(task, advance=1, rate=f"{tally.rate:.1%}")
    console.print(_result(one, other, tally))
    console.print(
        f"{tally.matches} matches of {tally.rounds_a_match:.1f} rounds, seed {seed}, {looked} deals a move; "
        f"95 % confidence interval with the {len(tally.scores)} pairs as units",
        soft_wrap=True,
    )


def _progress(where: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("pairs"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=where,
        transient=True,
    )


def _result(one: str, other: str, tally: Tally) -> Table:
    low, high = tally.interval
    table = Table("bot", "wins", "win rate", "95 %", "points/round", "ms/move", "most ms")
    for name, won, bounds, points, efforts in (
        (one, tally.wins, (low, high), tally.points_a_round, tally.one),
        (other, tally.matches - tally.wins, (1 - high, 1 - low), -tally.points_a_round, tally.other),
    ):
        mean_ms, longest_ms = thinking_ms(efforts)
        table.add_row(
            name,
            str(won),
            f"{won / tally.matches:.1%}",
            f"{bounds[0]:.1%}-{bounds[1]:.1%}",
            f"{points:+.1f}",
            f"{mean_ms:.2f}",
            f"{longest_ms:.0f}",
        )
    return table


if __name__ == "__main__":
    app()
