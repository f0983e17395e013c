"""Declare what went wrong, end it, and see what else did."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from services.ops.acts import Author, author_of, id_of, reason_of
from services.ops.database import WIDTH, Database, time_of, with_database
from services.storage import declarations
from services.storage.declarations import Consequence, Declaration, Scope, ScopeKind, UnknownMatchError
from services.storage.incidents import Kind
from services.storage.pool import Connection
from services.wire.clock_messages import Policy

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)

Reason = Annotated[str, typer.Option(help="Why; players of void matches may be told.")]


@app.command("declare")
def declare(
    author: Author,
    reason: Reason,
    effect: Annotated[
        Consequence,
        typer.Option(
            help="void: void the live matches of the window. hold: rated results of the window do not count before "
            "a person has ruled about them. note: only keep it."
        ),
    ],
    database_url: Database,
    *,
    everything: Annotated[bool, typer.Option("--all", help="All matches.")] = False,
    engine: Annotated[str, typer.Option(help="The matches of this game process.")] = "",
    match: Annotated[list[str] | None, typer.Option(help="This match; may be repeated.")] = None,
    began: Annotated[str, typer.Option("--from", help="ISO time with zone; now by default.")] = "",
    ended: Annotated[
        str, typer.Option("--to", help="ISO time with zone. By default now for void, else open.")
    ] = "",
) -> None:
    """Declare an incident: for all matches, those of a game process, or named ones. A finished match stays as it is."""
    now = datetime.now(UTC)
    began_at = time_of(began, "--from") or now
    ended_at = time_of(ended, "--to") or (now if effect is Consequence.VOID else None)
    if ended_at is not None and ended_at < began_at:
        raise typer.BadParameter("the window ends before it begins", param_hint="--to")
    if effect is Consequence.VOID and ended_at is not None and ended_at > now:
        raise typer.BadParameter("a match is void for what has happened, not for what may", param_hint="--to")
    made = Declaration(
        author=author_of(author),
        reason=reason_of(reason),
        scope=_scope(everything=everything, engine=engine, matches=match or []),
        consequence=effect,
        began_at=began_at,
        ended_at=ended_at,
    )

    async def store(connection: Connection) -> None:
        await declarations.declare(connection, made, Policy().version)

    try:
        with_database(database_url, store)
    except UnknownMatchError as unknown:
        raise typer.BadParameter(f"there is no match {unknown}", param_hint="--match") from None
    typer.echo(made.incident_id)


@app.command("close")
def close(
    incident_id: Annotated[str, typer.Argument(help="What `declare` printed.")],
    author: Author,
    reason: Reason,
    database_url: Database,
    ended: Annotated[str, typer.Option("--to", help="ISO time with zone; now by default.")] = "",
) -> None:
    """End a declared incident that still lasts."""
    key, ended_at = id_of(incident_id, "INCIDENT_ID"), time_of(ended, "--to") or datetime.now(UTC)

    async def end(connection: Connection) -> bool:
        return await declarations.close(
            connection, key, author=author_of(author), reason=reason_of(reason), ended_at=ended_at
        )

    if not with_database(database_url, end):
        sys.stderr.write(f"there is no declared incident {key} that lasts\n")
        raise typer.Exit(1)


@app.command("list")
def list_(
    database_url: Database,
    *,
    kind: Annotated[list[Kind] | None, typer.Option(help="Only this kind; may be repeated.")] = None,
    lasting: Annotated[bool, typer.Option("--open", help="Only what has no end yet.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 50,
) -> None:
    """Show the newest incidents of every kind, and how many matches they voided or were credited to."""

    async def read(connection: Connection) -> list[declarations.Listed]:
        return await declarations.list_incidents(connection, kind or list(Kind), lasting=lasting, limit=limit)

    found = with_database(database_url, read)
    table = Table(box=None, pad_edge=False)
    for name in ("incident", "kind", "began", "lasted", "noticed by", "void", "credited", "reason"):
        table.add_column(name, justify="right" if name in ("lasted", "void", "credited") else "left")
    for each in found:
        incident = each.incident
        ended = incident.ended_at
        lasted = "still" if ended is None else f"{(ended - incident.began_at).total_seconds():.3f} s"
        table.add_row(
            incident.incident_id,
            incident.kind.value,
            f"{incident.began_at.astimezone(UTC):%Y-%m-%d %H:%M:%S}",
            lasted,
            escape(incident.noticed_by),
            str(each.voided),
            str(each.credited),
            escape(incident.reason),
        )
    Console(width=None if sys.stdout.isatty() else WIDTH).print(table)


def _scope(*, everything: bool, engine: str, matches: list[str]) -> Scope:
    if [everything, bool(engine), bool(matches)].count(True) != 1:
        raise typer.BadParameter("say one of --all, --engine, --match")
    if everything:
        return Scope(ScopeKind.ALL)
    if engine:
        return Scope(ScopeKind.ENGINE, engine_id=engine)
    return Scope(ScopeKind.MATCHES, match_ids=tuple(id_of(match, "--match") for match in matches))
