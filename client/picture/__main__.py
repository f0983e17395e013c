"""`python -m client.picture RECORD --at LINE`: a position of a match record as an SVG picture."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from client.picture.scene import draw
from client.positions import read
from engine.recordlines import MalformedRecordError
from engine.seats import NORTH, SEATS, SOUTH

if TYPE_CHECKING:
    from client.positions import Position, Study
    from engine.seats import Seat

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__)


class Shown(StrEnum):
    """Whose tiles are face up."""

    BOTH = "both"
    NORTH = "north"
    SOUTH = "south"
    PUBLIC = "public"

    @property
    def seats(self) -> tuple[Seat, ...]:
        """The seats whose tiles are face up."""
        return {Shown.BOTH: SEATS, Shown.NORTH: (NORTH,), Shown.SOUTH: (SOUTH,), Shown.PUBLIC: ()}[self]


@app.command()
def picture(
    record: Annotated[
        str, typer.Argument(metavar="RECORD", help="A match record's file; - is standard input.")
    ],
    *,
    at: Annotated[
        int | None,
        typer.Option(min=1, metavar="LINE", help="After which line of the record; by default the last."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of standard output.")] = None,
    seat: Annotated[Shown, typer.Option(help="Whose tiles are face up; public shows no hand.")] = Shown.BOTH,
) -> None:
    """Draw one position of a match record as SVG.

    Ends with 1 when the record has no such line, with 2 when there is no picture because the record cannot be read.
    A record that is damaged further on is drawn, with a warning.
    """
    try:
        study = read(sys.stdin.buffer.read() if record == "-" else Path(record).read_bytes())
    except MalformedRecordError as error:
        _fail(f"no match record: {error}", 2)
    except OSError as error:
        _fail(str(error), 2)
    svg = draw(study, _position(study, at), seat.seats)
    for problem in (*study.problems, study.damage):
        if problem:
            print(f"warning: {problem}", file=sys.stderr)
    if out is None:
        sys.stdout.buffer.write(svg.encode())
        return
    try:
        out.write_text(svg, "utf-8")
    except OSError as error:
        _fail(str(error), 2)


def _position(study: Study, at: int | None) -> Position:
    found = (
        study.positions[-1]
        if at is None
        else next((each for each in study.positions if each.line == at), None)
    )
    if study.damage and (found is None or at is None):
        _fail(f"the record is damaged: {study.damage}", 2)
    if found is None:
        _fail(f"there is no line {at}: the record has lines 1 to {study.positions[-1].line}", 1)
    return found


def _fail(what: str, status: int) -> NoReturn:
    print(f"error: {what}", file=sys.stderr)
    raise typer.Exit(status)


if __name__ == "__main__":
    app()
