"""Flags and settings of the drawn screens, and when there are screens at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from client.terminal.settings import Settings

Plain = Annotated[
    bool, typer.Option("--plain", help="Plain text instead of drawn screens; so it is without a terminal.")
]
Colours = Annotated[
    bool | None, typer.Option("--colours/--no-colours", help="Colours; without them marks and bold alone.")
]
Ascii = Annotated[bool | None, typer.Option("--ascii/--no-ascii", help="Lines and arrows of ASCII alone.")]
AutoPass = Annotated[
    bool | None,
    typer.Option("--auto-pass/--no-auto-pass", help="Send a pass by itself when nothing else is possible."),
]
AutoDraw = Annotated[
    bool | None,
    typer.Option("--auto-draw/--no-auto-draw", help="Send a draw by itself when nothing else is possible."),
]
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        envvar="SPECTACULAR_BID_SETTINGS",
        help="File with settings of the screens; by default terminal.toml in your configuration folder.",
    ),
]


def drawn(*, plain: bool) -> bool:
    """Whether a person sits before a terminal that can be drawn on, and wants it so."""
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return terminal and not plain and os.environ.get("TERM", "") not in ("", "dumb")


def settings(
    file: Path | None,
    *,
    colours: bool | None = None,
    ascii: bool | None = None,  # noqa: A002  the name of the setting
    auto_pass: bool | None = None,
    auto_draw: bool | None = None,
) -> Settings:
    """The settings of the file, with the flags before them. A file that makes no sense ends the program."""
    # Only here: who wants plain text need not load the screens.
    from client.terminal.settings import SettingsError, default_file, overridden, read

    try:
        kept = read(file or default_file())
    except SettingsError as error:
        sys.stderr.write(f"error: {error}\n")
        raise typer.Exit(2) from None
    return overridden(kept, colours=colours, ascii=ascii, auto_pass=auto_pass, auto_draw=auto_draw)
