"""Bots on the command line: two that play a rated match, or a house bot that plays whoever asks."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from client import identities
from client.bots import greedy
from client.bots.exhibition import exhibition
from client.bots.house import House
from client.errors import CallError, ClientError
from client.session import Client

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

TOKEN_VARIABLE = "SPECTACULAR_BID_TOKEN"  # noqa: S105  the name of a variable, not a token

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)

Server = Annotated[str, typer.Option(help="host:port of matchmaking and ladder.")]
Game = Annotated[str | None, typer.Option(help="host:port of a game process; by default as --server.")]


@app.command("match")
def play_match(
    state: Annotated[Path, typer.Option(help="Folder in which the two bots keep who they are.")],
    server: Server = "127.0.0.1:7600",
    game: Game = None,
) -> None:
    """Two bots seek an opponent, play a rated match and are rated; a line for each round."""
    console = Console(highlight=False)

    async def bot(name: str) -> Client:
        # The folder belongs to one stack, whose ports may change.
        file = state / f"{name.lower()}.json"
        try:
            return await identities.connect(file, server, name, game_address=game, kept_as="this stack")
        except CallError as error:
            if error.reason not in ("NAME_TAKEN", "NAME_CONFUSABLE"):
                raise
        # Another folder's bot has the name: this one plays without.
        return await identities.connect(file, server, "", game_address=game, kept_as="this stack")

    async def run() -> bool:
        async with await bot("Amber") as one, await bot("Basil") as other:
            return await exhibition(one, other, lambda text: console.print(text, soft_wrap=True))

    _finish(asyncio.run(_guarded(run())))


@app.command("house")
def house(
    name: Annotated[str, typer.Option(help="Which bot.")] = greedy.NAME,
    server: Server = "127.0.0.1:7600",
    game: Game = None,
) -> None:
    """A house bot, with the token of SPECTACULAR_BID_TOKEN: plays every match it is put into, until it is stopped."""
    token = os.environ.get(TOKEN_VARIABLE)
    if name != greedy.NAME or not token:
        problem = f"{TOKEN_VARIABLE} is not set" if name == greedy.NAME else f"there is no bot called {name}"
        print(f"error: {problem}", file=sys.stderr)
        raise typer.Exit(2)

    async def run() -> bool:
        async with Client(server, token, game_address=game) as client:
            await House(client, greedy.choose, lambda text: print(text, flush=True)).run()
        return True

    _finish(asyncio.run(_guarded(run())))


async def _guarded(work: Coroutine[Any, Any, bool]) -> bool:
    """Run to the end; what a player can do nothing about becomes one line."""
    ok = False
    try:
        ok = await work
    except* ClientError as group:
        for error in _each(group):
            print(f"error: {error}", file=sys.stderr)
    return ok


def _each(group: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _each(error)
        else:
            yield error


def _finish(ok: bool) -> None:  # noqa: FBT001  the one thing there is to say
    if not ok:
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
