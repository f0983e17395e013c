"""Bots on the command line: two that play a rated match, or the house bots, which play whoever asks."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from client import identities
from client.bots.exhibition import exhibition
from client.bots.house import House
from client.bots.levels import LEVELS
from client.bots.sitting import THINK_SECONDS, Thinker
from client.credentials import CredentialsError, from_environment
from client.errors import CallError, ClientError
from client.session import Client

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

TOKENS_VARIABLE = "SPECTACULAR_BID_BOT_TOKENS"
THINK_VARIABLE = "SPECTACULAR_BID_BOT_THINK_SECONDS"

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)

# TLS is asked for in the environment, as by the other commands.
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
            return await connect(file, name)
        except CallError as error:
            if error.reason not in ("NAME_TAKEN", "NAME_CONFUSABLE"):
                raise
        # Another folder's bot has the name: this one plays without.
        return await connect(file, "")

    async def connect(file: Path, name: str) -> Client:
        return await identities.connect(
            file, server, name, game_address=game, kept_as="this stack", credentials=from_environment()
        )

    async def run() -> bool:
        async with await bot("Amber") as one, await bot("Basil") as other:
            return await exhibition(one, other, lambda text: console.print(text, soft_wrap=True))

    _finish(asyncio.run(_guarded(run())))


@app.command("house")
def house(
    server: Server = "127.0.0.1:7600",
    game: Game = None,
    think_seconds: Annotated[
        float,
        typer.Option(
            min=0.0, max=5.0, envvar=THINK_VARIABLE, help="How long a bot that searches thinks about a move."
        ),
    ] = THINK_SECONDS,
) -> None:
    """The house bots whose tokens are in SPECTACULAR_BID_BOT_TOKENS, a JSON object by name. They play every match they
    are put into, until they are stopped."""
    try:
        tokens = _tokens(os.environ.get(TOKENS_VARIABLE, ""))
    except ValueError as problem:
        print(f"error: {TOKENS_VARIABLE}: {problem}", file=sys.stderr)
        raise typer.Exit(2) from None

    async def one(name: str, token: str, thinker: Thinker) -> None:
        async with Client(server, token, game_address=game, credentials=from_environment()) as client:
            await House(client, LEVELS[name], thinker, lambda text: print(text, flush=True)).run()

    async def run() -> bool:
        async with Thinker(think_seconds) as thinker, asyncio.TaskGroup() as group:
            for name, token in tokens.items():
                group.create_task(one(name, token, thinker))
        return True

    _finish(asyncio.run(_guarded(run())))


def _tokens(text: str) -> dict[str, str]:
    """The token of each bot. Raises ValueError naming what is wrong, and never a token."""
    try:
        tokens = json.loads(text or "{}")
    except (ValueError, RecursionError):
        raise ValueError("is no JSON") from None
    if not isinstance(tokens, dict) or not all(isinstance(token, str) for token in tokens.values()):
        raise ValueError("is no object of names and tokens")
    if not tokens:
        raise ValueError("names no bot")
    if unknown := tokens.keys() - LEVELS.keys():
        raise ValueError(f"there is no bot called {', '.join(sorted(unknown))}: {', '.join(LEVELS)}")
    return tokens


async def _guarded(work: Coroutine[Any, Any, bool]) -> bool:
    """Run to the end; what a player can do nothing about becomes one line."""
    ok = False
    try:
        ok = await work
    except* (ClientError, CredentialsError) as group:
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
