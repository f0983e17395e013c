"""Bots against each other on the same deals, many matches at a time: who is stronger, and how sure is that?"""

from __future__ import annotations

import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from client.arena.match import Contestant, Played, play_pair
from client.arena.tally import PAIRS_MIN, Tally, thinking_ms
from client.bots.levels import LEVELS
from client.bots.search import deals

if TYPE_CHECKING:
    from collections.abc import Iterator

DEALS: Final = 100
"""Deals a move of a bot that searches looks at, unless told otherwise."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
console = Console(highlight=False)


def played(one: str, other: str, seed: int, looked: int, pair: int) -> tuple[Played, Played]:
    """One pair; what a worker process does."""
    budget = deals(looked)
    return play_pair(
        Contestant(LEVELS[one].choose, budget), Contestant(LEVELS[other].choose, budget), seed=seed, pair=pair
    )


def pairs(
    one: str, other: str, *, seed: int, looked: int, count: int, jobs: int
) -> Iterator[tuple[Played, Played]]:
    """The pairs in order, the same ones whatever the number of processes."""
    work = partial(played, one, other, seed, looked)
    if jobs == 1:
        yield from map(work, range(count))
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as workers:
        yield from workers.map(work, range(count))


@app.command(help=__doc__)
def arena(
    one: Annotated[str, typer.Argument(help=f"A bot: {', '.join(LEVELS)}.")],
    other: Annotated[str, typer.Argument(help="The bot it plays against.")],
    *,
    matches: Annotated[int, typer.Option(min=2 * PAIRS_MIN, help="How many; two share their deals.")] = 200,
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
        f"seed {seed}, {looked} deals a move; 95 % confidence interval (normal) with the {len(tally.scores)} pairs as units",
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
    table = Table("bot", "wins", "win rate", "interval", "points a round", "ms a move", "longest")
    for name, won, rate, bounds, points, efforts in (
        (one, tally.wins, tally.rate, (low, high), tally.points_a_round, tally.one),
        (
            other,
            tally.matches - tally.wins,
            1 - tally.rate,
            (1 - high, 1 - low),
            -tally.points_a_round,
            tally.other,
        ),
    ):
        mean_ms, longest_ms = thinking_ms(efforts)
        table.add_row(
            name,
            f"{won} of {tally.matches}",
            f"{rate:.1%}",
            f"{bounds[0]:.1%} to {bounds[1]:.1%}",
            f"{points:+.1f}",
            f"{mean_ms:.1f}",
            f"{longest_ms:.0f}",
        )
    table.caption = f"{tally.rounds_a_match:.1f} rounds a match"
    return table


if __name__ == "__main__":
    app()
