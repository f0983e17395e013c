"""`record`: get the record of a finished match, or step through one."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from client.commandline import GAME, SERVER, Game, Name, Server, State, with_client
from client.listing import listing
from client.look import Ascii, Colours, Plain, SettingsFile, drawn, settings
from client.positions import read
from engine.recordlines import MalformedRecordError
from engine.seats import NORTH, SEATS, SOUTH

if TYPE_CHECKING:
    from client.positions import Study
    from client.session import Client
    from engine.seats import Seat


class Hands(StrEnum):
    """Whose tiles are shown."""

    BOTH = "both"
    NORTH = "north"
    SOUTH = "south"
    NONE = "none"

    @property
    def seats(self) -> tuple[Seat, ...]:
        """The seats whose tiles are shown."""
        return {Hands.BOTH: SEATS, Hands.NORTH: (NORTH,), Hands.SOUTH: (SOUTH,), Hands.NONE: ()}[self]


def record(
    what: Annotated[
        str,
        typer.Argument(metavar="FILE|MATCH", help="A record's file, - for standard input, or a match's id."),
    ],
    *,
    out: Annotated[Path | None, typer.Option(help="Write the record of a match to this file.")] = None,
    hands: Annotated[Hands, typer.Option(help="Whose tiles to show at first.")] = Hands.BOTH,
    plain: Plain = False,
    colours: Colours = None,
    ascii: Ascii = None,  # noqa: A002  the name of the flag
    settings_file: SettingsFile = None,
    server: Server = SERVER,
    game: Game = GAME,
    name: Name = "",
    state: State = None,
) -> None:
    """Step through a finished match: a file, or a match of the service.

    Into a file or a pipe, the record of a MATCH is written as it is, for `python -m engine verify` and `replay`.
    """
    look = settings(settings_file, colours=colours, ascii=ascii)

    def show(study: Study) -> None:
        if drawn(plain=plain):
            # Only here: who wants plain text need not load the screens.
            from client.terminal.app import record_app

            record_app(study, look, hands.seats).run()
        else:
            sys.stdout.writelines(f"{line}\n" for line in listing(study, hands.seats))
        if study.damage or study.problems:
            raise typer.Exit(1)

    if what == "-" or Path(what).is_file():
        if out is not None:
            raise typer.BadParameter("a record that is a file already is not written to another")
        show(_studied(_bytes(what)))
        return
    if "/" in what or "." in what:
        raise typer.BadParameter(f"there is no file {what}")
    found: list[str] = []

    async def work(client: Client) -> None:
        found.append(await client.record(what))

    with_client(work, server, game, name, state)
    if out is not None:
        try:
            out.write_text(found[0], "utf-8")
        except OSError as error:
            _fail(str(error))
    elif plain or sys.stdout.isatty():
        show(_studied(found[0].encode()))
    else:
        sys.stdout.write(found[0])


def _bytes(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        _fail(str(error))


def _studied(data: bytes) -> Study:
    try:
        return read(data)
    except MalformedRecordError as error:
        _fail(f"no match record: {error}")


def _fail(what: str) -> NoReturn:
    sys.stderr.write(f"error: {what}\n")
    raise typer.Exit(2)
