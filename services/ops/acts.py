"""Who acts, why, about what, and by which way: through matchmaking, or straight in the database in an emergency."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer
from google.protobuf.timestamp_pb2 import Timestamp

from services.common.settings import PREFIX

Author = Annotated[
    str, typer.Option(help="Who says so; only with --database-url. Otherwise the operator's token says it.")
]
Leader = Annotated[
    str,
    typer.Option(
        "--address",
        envvar=f"{PREFIX}MATCHMAKING_ADDRESS",
        help="host:port of matchmaking's internal address; several with commas between, of which one leads.",
    ),
]
Emergency = Annotated[
    str,
    typer.Option(
        "--database-url",
        help="Act straight in this PostgreSQL, when matchmaking is down. Kept as such, with the database's user.",
    ),
]


@dataclass(frozen=True, slots=True)
class Way:
    """How an act is done: `address` of matchmaking, or `database_url` with an `author`."""

    address: str
    database_url: str = ""
    author: str = ""


def way_of(address: str, database_url: str, author: str) -> Way:
    """The way that is asked for; a database that is named goes before an address. Raises BadParameter."""
    if database_url:
        return Way("", database_url, author_of(author))
    if author:
        raise typer.BadParameter("the operator's token says who acts", param_hint="--author")
    if not address:
        raise typer.BadParameter(
            "say where matchmaking is (--address), or --database-url when it is down", param_hint="--address"
        )
    return Way(address)


def author_of(text: str) -> str:
    """A person's name. Raises BadParameter."""
    if not text:
        raise typer.BadParameter("say who acts: no token does", param_hint="--author")
    if not re.fullmatch(r"[\w.@+-]{1,64}", text):
        raise typer.BadParameter("1 to 64 letters, digits or . @ + - _", param_hint="--author")
    return text


def reason_of(text: str) -> str:
    """Why. Raises BadParameter."""
    if not text.strip():
        raise typer.BadParameter("say why", param_hint="--reason")
    return text.strip()


def id_of(text: str, hint: str) -> str:
    """An id in its usual form. Raises BadParameter naming the option or argument `hint`."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no UUID", param_hint=hint) from None


def stamp_of(at: datetime | None) -> Timestamp | None:
    """A time as messages have it; None for nothing."""
    if at is None:
        return None
    stamp = Timestamp()
    stamp.FromDatetime(at)
    return stamp
