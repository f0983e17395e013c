"""`table`: two people play each other at one device."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from client.commandline import GAME, SERVER, Game, Name, Server, State, with_client
from client.handover import names_of
from client.look import Ascii, Colours, Plain, SettingsFile, drawn, settings
from client.playcommand import say
from client.sharing import share, take_seats

if TYPE_CHECKING:
    from client.session import Client


def table(
    *,
    north: Annotated[str, typer.Option(help="The name of whoever sits north; asked for when left out.")] = "",
    south: Annotated[str, typer.Option(help="The name of whoever sits south; asked for when left out.")] = "",
    plain: Plain = False,
    colours: Colours = None,
    ascii: Ascii = None,  # noqa: A002  the name of the flag
    settings_file: SettingsFile = None,
    server: Server = SERVER,
    game: Game = GAME,
    name: Name = "",
    state: State = None,
) -> None:
    """Two people share this device: an unrated match, handed over for each turn.

    The clocks stand still from the end of one turn until the other player has pressed Reveal, and no tile of either hand is
    on the screen before. A match that was left goes on.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        # In a file or a pipe each hand would stay for the other to read.
        sys.stderr.write("error: table needs a terminal, whose screen can be wiped between two turns\n")
        raise typer.Exit(2)
    look = settings(settings_file, colours=colours, ascii=ascii)
    names = names_of(north or typer.prompt("North is called"), south or typer.prompt("South is called"))

    async def work(client: Client) -> None:
        handle = await take_seats(client)
        if drawn(plain=plain):
            # Only here: who wants plain text need not load the screens.
            from client.terminal.app import device_app

            say(await device_app(client, handle, names, look).run_async() or "")
        else:
            say(await share(client, handle, names))

    with_client(work, server, game, name, state)
