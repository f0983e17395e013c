"""Without a command, before a terminal: the start menu, from which all the others are reached."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from client.credentials import CA_VARIABLE, TLS_VARIABLE
from client.look import drawn, settings

if TYPE_CHECKING:
    from client.terminal.menu import Item

_BACK: Final = "Enter goes back to the menu, q ends. "


def start(
    context: typer.Context,
    server: Annotated[str, typer.Option(help="As after a command: here for all that the menu starts.")] = "",
    game: Annotated[str, typer.Option(help="The same.")] = "",
    *,
    tls: Annotated[bool, typer.Option("--tls", help="Connect with TLS: SPECTACULAR_BID_TLS=1.")] = False,
    ca: Annotated[
        str,
        typer.Option(help="Trust these certificates, a file, instead of the system's: SPECTACULAR_BID_CA."),
    ] = "",
) -> None:
    """Spectacular Bid: play, watch, look at the ladder, step through matches, read the rules. Without a command: a menu."""
    for variable, given in (
        ("SPECTACULAR_BID_SERVER", server),
        ("SPECTACULAR_BID_GAME", game),
        (TLS_VARIABLE, "1" if tls else ""),
        (CA_VARIABLE, ca),
    ):
        if given:
            # Commands read their options after this; what is typed behind a command still goes before it.
            os.environ[variable] = given
    if context.invoked_subcommand is not None:
        return
    if not drawn(plain=False):
        sys.stdout.write(f"{context.get_help()}\n")
        raise typer.Exit(2 if not sys.stdin.isatty() else 0)
    while (item := _chosen()) is not None:
        words = list(item.command)
        try:
            if item.asks:
                words.append(typer.prompt(item.asks))
            # How a command ends does not end the menu; what it has to say about that, it says.
            with contextlib.suppress(SystemExit):
                context.command.main(words, prog_name=context.info_name)
            if input(_BACK).strip().lower() == "q":
                return
        except (typer.Abort, EOFError, KeyboardInterrupt):
            sys.stdout.write("\n")


def _chosen() -> Item | None:
    """What is chosen of the menu; None to end the program."""
    # Only here: a command that is named need not load the screens.
    from client.terminal.app import menu_app
    from client.terminal.menu import ITEMS

    key = menu_app(settings(None)).run()
    return next((item for item in ITEMS if item.key == key and item.command), None)
