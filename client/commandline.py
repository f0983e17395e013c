"""What every command of the command line needs: where the service is, who one is, and faults as one line."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from client import identities
from client.credentials import CredentialsError, from_environment
from client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from client.session import Client

Server = Annotated[
    str,
    typer.Option(
        envvar="SPECTACULAR_BID_SERVER",
        help="host:port of matchmaking and ladder; several with commas between, if there are standbys.",
    ),
]
Game = Annotated[
    str, typer.Option(envvar="SPECTACULAR_BID_GAME", help="host:port of a game process; empty: as --server.")
]
Name = Annotated[str, typer.Option(help="The name to register, while you have none.")]
State = Annotated[
    Path | None, typer.Option(help="File that keeps who you are; by default in your state folder.")
]
# Whoever types a command wants to hear soon that nobody is there.
_PATIENCE_SECONDS: Final = 5.0
SERVER: Final = "127.0.0.1:7600"
GAME: Final = "127.0.0.1:7601"


def with_client(
    work: Callable[[Client], Awaitable[None]], server: str, game: str, name: str, state: Path | None
) -> None:
    """Run `work` as the kept guest; what a person can do nothing about becomes one line."""

    async def run() -> None:
        file = state or identities.default_file()
        client = await identities.connect(
            file,
            server,
            name,
            game_address=game or None,
            credentials=credentials,
            patience_seconds=_PATIENCE_SECONDS,
        )
        async with client:
            await work(client)

    try:
        credentials = from_environment()
        asyncio.run(run())
    except (ClientError, CredentialsError) as error:
        sys.stderr.write(f"error: {error}\n")
        raise typer.Exit(1) from None
    except (KeyboardInterrupt, EOFError):
        raise typer.Exit(130) from None
