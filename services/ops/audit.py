"""Who did what, and why."""

from __future__ import annotations

import dataclasses
import json
import sys
from datetime import UTC
from typing import Annotated

import typer
from rich.markup import escape

from services.ops.database import Database, time_of, with_database
from services.ops.tables import console, table
from services.storage.acts import OperatorAct, list_acts
from services.storage.pool import Connection


def acts(
    database_url: Database,
    *,
    since: Annotated[str, typer.Option(help="ISO time with zone: nothing older.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")] = 50,
    json_: Annotated[bool, typer.Option("--json", help="JSON.")] = False,
) -> None:
    """Show every act of operators, newest first: orders, declarations, voids, rulings; author, reason and way."""
    began = time_of(since, "--since")

    async def read(connection: Connection) -> list[OperatorAct]:
        return await list_acts(connection, began, limit)

    found = with_database(database_url, read)
    if json_:
        shown = [{**dataclasses.asdict(act), "at": act.at.astimezone(UTC).isoformat()} for act in found]
        sys.stdout.write(f"{json.dumps(shown, indent=2)}\n")
        return
    rows = table("at", "by", "act", "about", "reason", "via")
    for act in found:
        user = f" ({act.database_user})" if act.database_user else ""
        rows.add_row(
            f"{act.at.astimezone(UTC):%Y-%m-%d %H:%M:%S}",
            escape(act.author),
            act.action,
            escape(act.subject),
            escape(act.reason),
            escape(act.via + user),
        )
    console().print(rows)
