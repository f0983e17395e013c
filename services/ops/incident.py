"""Declare what went wrong, and end it; `incidents` shows everything that did."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Annotated

import typer

from services.ops.acts import Author, Emergency, Leader, id_of, reason_of, stamp_of, way_of
from services.ops.database import time_of, with_database
from services.ops.leader import REFUSED, ask
from services.storage import declarations
from services.storage.declarations import (
    Consequence,
    Declaration,
    Scope,
    ScopeKind,
    TooEarlyError,
    UnknownGameProcessError,
    UnknownMatchError,
)
from services.storage.pool import Connection
from services.wire.clock_messages import Policy
from services.wire.results import EFFECT_TO_PB
from spectacularbid.internal.operations.v1 import results_pb2 as pb

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)

Reason = Annotated[str, typer.Option(help="Why; players of void matches may be told.")]


@app.command("declare")
def declare(
    reason: Reason,
    effect: Annotated[
        Consequence,
        typer.Option(
            help="void: void the live matches of the window. hold: rated results of the window do not count before "
            "a person has ruled about them. note: only keep it."
        ),
    ],
    *,
    everything: Annotated[bool, typer.Option("--all", help="All matches.")] = False,
    engine: Annotated[str, typer.Option(help="The matches of this game process.")] = "",
    match: Annotated[list[str] | None, typer.Option(help="This match; may be repeated.")] = None,
    began: Annotated[str, typer.Option("--from", help="ISO time with zone; now by default.")] = "",
    ended: Annotated[
        str, typer.Option("--to", help="ISO time with zone. By default now for void, else open.")
    ] = "",
    address: Leader = "",
    database_url: Emergency = "",
    author: Author = "",
) -> None:
    """Declare an incident: for all matches, those of a game process, or named ones. A finished match stays as it is."""
    way, now = way_of(address, database_url, author), datetime.now(UTC)
    began_at, until = time_of(began, "--from") or now, time_of(ended, "--to")
    ended_at = until or (now if effect is Consequence.VOID else None)
    if ended_at is not None and ended_at < began_at:
        raise typer.BadParameter("the window ends before it begins", param_hint="--to")
    if effect is Consequence.VOID and ended_at is not None and ended_at > now:
        raise typer.BadParameter("a match is void for what has happened, not for what may", param_hint="--to")
    scope = _scope(everything=everything, engine=engine, matches=match or [])
    made = Declaration(
        author=way.author,
        reason=reason_of(reason),
        scope=scope,
        consequence=effect,
        began_at=began_at,
        ended_at=ended_at,
    )
    if way.database_url:
        _declare_in_database(way.database_url, made)
    else:
        request = pb.DeclareIncidentRequest(
            incident_id=made.incident_id,
            effect=EFFECT_TO_PB[effect],
            all=everything,
            engine_id=engine,
            match_ids=scope.match_ids,
            # What was not said is the time of whoever stores it.
            began_at=stamp_of(began_at if began else None),
            ended_at=stamp_of(until),
            reason=made.reason,
        )
        ask(way.address, lambda service, options: service.DeclareIncident(request, **options))
    typer.echo(made.incident_id)


def _declare_in_database(url: str, made: Declaration) -> None:
    async def store(connection: Connection) -> None:
        await declarations.declare(connection, made, Policy().version)

    try:
        with_database(url, store)
    except UnknownMatchError as unknown:
        sys.stderr.write(f"nothing was changed: there is no match {unknown}\n")
        raise typer.Exit(REFUSED) from None
    except UnknownGameProcessError as unknown:
        sys.stderr.write(f"nothing was changed: there never was a game process {unknown}\n")
        raise typer.Exit(REFUSED) from None


@app.command("close")
def close(
    incident_id: Annotated[str, typer.Argument(help="What `declare` printed.")],
    reason: Reason,
    ended: Annotated[str, typer.Option("--to", help="ISO time with zone; now by default.")] = "",
    address: Leader = "",
    database_url: Emergency = "",
    author: Author = "",
) -> None:
    """End a declared incident that still lasts."""
    way, key, why = (
        way_of(address, database_url, author),
        id_of(incident_id, "INCIDENT_ID"),
        reason_of(reason),
    )
    until = time_of(ended, "--to")
    if not way.database_url:
        request = pb.CloseIncidentRequest(incident_id=key, reason=why, ended_at=stamp_of(until))
        ask(way.address, lambda service, options: service.CloseIncident(request, **options))
        return

    async def end(connection: Connection) -> bool:
        return await declarations.close(connection, key, author=way.author, reason=why, ended_at=until)

    try:
        closed = with_database(way.database_url, end)
    except TooEarlyError:
        raise typer.BadParameter("it would have ended before it began", param_hint="--to") from None
    if not closed:
        sys.stderr.write(f"nothing was changed: there is no declared incident {key} that lasts\n")
        raise typer.Exit(REFUSED)


def _scope(*, everything: bool, engine: str, matches: list[str]) -> Scope:
    if [everything, bool(engine), bool(matches)].count(True) != 1:
        raise typer.BadParameter("say one of --all, --engine, --match")
    if everything:
        return Scope(ScopeKind.ALL)
    if engine:
        return Scope(ScopeKind.ENGINE, engine_id=engine)
    return Scope(ScopeKind.MATCHES, match_ids=tuple(id_of(match, "--match") for match in matches))
