"""`rules`: the game explained in the player's language, whether or not a service is there."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from client.commandline import SERVER, Server
from client.credentials import from_environment
from client.look import Plain, drawn
from client.rules import Help, ask
from client.rulespage import page
from engine.rules.book import matching

if TYPE_CHECKING:
    from collections.abc import Mapping


def rules(
    part: Annotated[
        str,
        typer.Argument(
            metavar="CHAPTER", help="A chapter (3), a rule (3.5), or words; by default everything."
        ),
    ] = "",
    *,
    language: Annotated[
        str, typer.Option(help="en, hi or ja; by default the language of your terminal, else English.")
    ] = "",
    plain: Plain = False,
    server: Server = SERVER,
) -> None:
    """The rules of the game, in English, Hindi or Japanese. Needs no account, and stops no clock."""
    wanted = language or language_of(os.environ)
    try:
        credentials = from_environment()
        if drawn(plain=plain) and not part:
            # Only here: who wants plain text need not load the screens.
            from client.terminal.app import rules_app

            rules_app(server, wanted).run()
            return
        found = asyncio.run(ask(server, wanted, credentials))
        console = Console(highlight=False, soft_wrap=True)
        lines = page(found.book, part, width=console.width)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    for note in notes(found, language, server):
        sys.stderr.write(f"{note}\n")
    for line in lines:
        console.print(Text(line.text, style="bold" if line.heading else ""))


def language_of(environment: Mapping[str, str]) -> str:
    """The language tag of a terminal, as its locale has it; empty when that says nothing (`C`, for example)."""
    for variable in ("LC_ALL", "LC_MESSAGES", "LANG"):
        locale = environment.get(variable, "")
        if locale:
            tag = locale.partition(".")[0].partition("@")[0]
            try:
                return tag if matching(tag) else ""
            except ValueError:
                return ""
    return ""


def notes(found: Help, wanted: str, server: str) -> list[str]:
    """What a reader should know about what is shown: another language than the one asked for, no word of the service."""
    said = []
    if found.fault:
        said.append(f"{server}: {found.fault}. These rules came with this program.")
    if wanted and matching(wanted) != found.book.language and not _is(wanted, found.book.language):
        there = ", ".join(f"{tag} ({name})" for tag, name in found.available.items())
        said.append(f"There are no rules in {wanted!r}; there are {there}.")
    return said


def _is(tag: str, language: str) -> bool:
    """Whether a tag is one of this language; a newer service may have languages that this program has not."""
    return tag.replace("_", "-").partition("-")[0].lower() == language
