"""Spectacular Bid on the command line: look at the ladder, watch, play."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from client.commandline import GAME, SERVER, Game, Name, Server, State, with_client
from client.ladder import LEGEND, history_table, ladder_table
from client.menucommand import start
from client.playcommand import play, seek, watch
from client.recordcommand import record
from client.rulescommand import rules
from client.tablecommand import table

if TYPE_CHECKING:
    from client.session import Client
    from spectacularbid.ladder.v1.ladder_service_pb2 import Standing

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
console = Console(highlight=False, soft_wrap=True)

_IDS_WIDTH = 130

app.callback(invoke_without_command=True)(start)
app.command()(play)
app.command()(watch)
app.command()(record)
app.command()(rules)
app.command()(table)
app.command(hidden=True)(seek)


@app.command()
def ladder(
    *,
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many players.")] = 20,
    around: Annotated[
        bool, typer.Option("--around", help="Those just better and just worse than you.")
    ] = False,
    of: Annotated[str, typer.Option(help="With --around: a player's id; by default you.")] = "",
    server: Server = SERVER,
    game: Game = GAME,
    name: Name = "",
    state: State = None,
) -> None:
    """The best players, or those around one."""

    async def work(client: Client) -> None:
        own = of or (await client.profile()).player_id
        if around:
            near, ranked = await client.neighbourhood(own, min(max(1, count // 2), 50))
            if not near:
                console.print("Without a rated match there is no place on the ladder.")
                return
            _print_ladder(near, own)
            console.print(f"{ranked} ranked in all")
            return
        standings = await client.leaderboard(count)
        if not standings:
            console.print("Nobody has played a rated match yet.")
            return
        _print_ladder(standings, own)

    with_client(work, server, game, name, state)


@app.command()
def profile(
    player: Annotated[str, typer.Argument(help="A player's id; by default you.")] = "",
    server: Server = SERVER,
    game: Game = GAME,
    name: Name = "",
    state: State = None,
) -> None:
    """A player's standing and last matches."""

    async def work(client: Client) -> None:
        standing = await client.standing(player)
        _print_ladder([standing])
        matches = await client.history(player, 10)
        if matches:
            console.print()
            console.print(history_table(matches, standing.player.player_id, datetime.now(UTC)))

    with_client(work, server, game, name, state)


@app.command()
def history(
    *,
    player: Annotated[str, typer.Argument(help="A player's id; by default you.")] = "",
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many matches.")] = 20,
    ids: Annotated[bool, typer.Option("--ids", help="With the matches' ids, in long lines.")] = False,
    server: Server = SERVER,
    game: Game = GAME,
    name: Name = "",
    state: State = None,
) -> None:
    """A player's finished matches, newest first: result, opponent, points, change of the rating, length."""

    async def work(client: Client) -> None:
        player_id = player or (await client.profile()).player_id
        matches = await client.history(player_id, count)
        if not matches:
            console.print("No finished match yet.")
            return
        table = history_table(matches, player_id, datetime.now(UTC), ids=ids)
        if ids:
            Console(highlight=False, soft_wrap=True, width=max(console.width, _IDS_WIDTH)).print(table)
        else:
            console.print(table)

    with_client(work, server, game, name, state)


def _print_ladder(standings: list[Standing], own: str = "") -> None:
    console.print(ladder_table(standings, own=own))
    console.print(LEGEND, markup=False, style="dim")


if __name__ == "__main__":
    app()
