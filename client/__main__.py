"""Spectacular Bid on the command line: look at the ladder, watch, play."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from client.bots.account import HEADER, Account, seats, verdict
from client.commandline import GAME, SERVER, Game, Name, Server, State, with_client
from client.hotseat import sit_down
from client.ladder import LEGEND, history_table, ladder_table
from client.recordcommand import record
from client.rulescommand import rules
from client.session import RATED
from client.words import Pauses

if TYPE_CHECKING:
    from client.session import Client
    from spectacularbid.ladder.v1.ladder_service_pb2 import Standing
    from spectacularbid.matchmaking.v1.matchmaking_service_pb2 import Waiting

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
console = Console(highlight=False, soft_wrap=True)

_IDS_WIDTH = 130

app.command()(record)
app.command()(rules)


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


@app.command()
def watch(
    match_id: str, server: Server = SERVER, game: Game = GAME, name: Name = "", state: State = None
) -> None:
    """Follow a match, one line a round."""

    async def work(client: Client) -> None:
        account, pauses = Account(), Pauses()
        async with client.play(match_id) as match:
            async for news in match:
                if news.snapshot:
                    console.print(f"{seats(news.table)}\n{HEADER}", markup=False)
                for line in (*pauses.lines(news), *account.lines(news)):
                    console.print(line, markup=False)
        console.print(verdict(match.table), markup=False)

    with_client(work, server, game, name, state)


@app.command()
def seek(server: Server = SERVER, game: Game = GAME, name: Name = "", state: State = None) -> None:
    """Wait for an opponent and play a rated match in plain text."""

    async def work(client: Client) -> None:
        with console.status("waiting for an opponent (Ctrl-C cancels)") as status:
            handle = await client.seek(RATED, waiting=lambda facts: status.update(_waiting_line(facts)))
        await sit_down(client, handle, console)

    with_client(work, server, game, name, state)


@app.command()
def play(
    bot: Annotated[str, typer.Option(help="Name of the house bot.")] = "greedy",
    server: Server = SERVER,
    game: Game = GAME,
    name: Name = "",
    state: State = None,
) -> None:
    """Play an unrated match against a house bot in plain text."""

    async def work(client: Client) -> None:
        await sit_down(client, await client.challenge(house_bot=bot), console)

    with_client(work, server, game, name, state)


def _print_ladder(standings: list[Standing], own: str = "") -> None:
    console.print(ladder_table(standings, own=own))
    console.print(LEGEND, markup=False, style="dim")


def _waiting_line(facts: Waiting) -> str:
    line = f"waiting for an opponent for {facts.waited_ms // 1000} s, {facts.players_waiting} in the queue"
    if facts.HasField("estimate"):
        half, most = (round(each / 1000) for each in (facts.estimate.median_ms, facts.estimate.most_ms))
        line += f"; of the last {facts.estimate.basis} half waited {half} s or less, nine of ten {most} s"
    if facts.paused:
        line += "; the pool is paused, nobody is paired"
    if facts.announcement:
        line += f"; {escape(facts.announcement)}"
    return f"{line} (Ctrl-C cancels)"


if __name__ == "__main__":
    app()
