"""Who acts, why, and about what: the words every act of an operator is kept with."""

from __future__ import annotations

import re
import uuid
from typing import Annotated

import typer

Author = Annotated[str, typer.Option(help="Who says so.")]


def author_of(text: str) -> str:
    """A person's name. Raises BadParameter."""
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
