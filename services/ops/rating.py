"""Hold results, release or reverse them, and see what was decided and why."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final
from uuid import UUID

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from matchmaker.ladder import Action, Change, Treatment
from matchmaker.rating import Rating, UnknownModelError
from services.ops.acts import Author, author_of, id_of, reason_of
from services.ops.database import WIDTH, Database, with_database
from services.storage import holds, ladder, rulings
from services.storage.pool import Connection
from services.storage.refold import Summary
from services.storage.rulings import RefusedError, Ruling
from services.storage.verdicts import SEATS, Verdict

REFUSED: Final = 1

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)

Matches = Annotated[list[str] | None, typer.Argument(metavar="MATCH...", help="The matches, by their ids.")]
Reason = Annotated[str, typer.Option(help="Why; everybody can read it in the decisions about these matches.")]
IncidentOption = Annotated[
    str, typer.Option("--incident", help="What it rests on; without MATCH, all matches it concerns.")
]
Limit = Annotated[int, typer.Option(min=1, max=1_000_000, help="Show at most so many matches and players.")]


@app.command("hold")
def hold(
    author: Author,
    reason: Reason,
    database_url: Database,
    match: Matches = None,
    incident: IncidentOption = "",
    limit: Limit = 50,
) -> None:
    """Results do not count until somebody releases or reverses them. Later matches are rated without them."""
    _rule(Action.HOLD, author, reason, database_url, match or [], incident, limit)


@app.command("release")
def release(
    author: Author,
    reason: Reason,
    database_url: Database,
    match: Matches = None,
    incident: IncidentOption = "",
    limit: Limit = 50,
) -> None:
    """Held results count after all, in the place where they ended. With --incident: all that are held because of it."""
    _rule(Action.RELEASE, author, reason, database_url, match or [], incident, limit)


@app.command("reverse")
def reverse(
    author: Author,
    reason: Reason,
    database_url: Database,
    match: Matches = None,
    incident: IncidentOption = "",
    limit: Limit = 50,
) -> None:
    """Results do not count, as if they had never been. With --incident: all that are held because of it."""
    _rule(Action.REVERSE, author, reason, database_url, match or [], incident, limit)


def _rule(
    action: Action, author: str, reason: str, url: str, named: Sequence[str], incident: str, limit: int
) -> None:
    incident_id = UUID(id_of(incident, "--incident")) if incident else None
    match_ids = [UUID(id_of(match, "MATCH")) for match in named]
    if not match_ids and incident_id is None:
        raise typer.BadParameter("name matches, or an incident", param_hint="MATCH...")
    ruling = Ruling(author_of(author), reason_of(reason), incident_id, action=action)

    async def make(connection: Connection) -> Summary:
        if incident_id is not None:
            meant = await _meant(connection, action, incident_id)
            if not match_ids and not meant:
                raise RefusedError(f"there is nothing to {action} because of incident {incident_id}")
            return await rulings.make_ruling(connection, ruling, match_ids or meant)
        return await rulings.make_ruling(connection, ruling, match_ids)

    try:
        summary = with_database(url, make)
    except (RefusedError, UnknownModelError) as refused:
        sys.stderr.write(f"nothing was changed\n{refused}\n")
        raise typer.Exit(REFUSED) from None
    typer.echo(f"ruling {ruling.ruling_id}")
    _show_summary(_console(), summary, limit)


async def _meant(connection: Connection, action: Action, incident_id: UUID) -> list[UUID]:
    """The matches that an incident stands for."""
    concerned = await holds.concerned(connection, incident_id)
    if concerned is None:
        raise RefusedError(f"there is no incident {incident_id}")
    if action is not Action.HOLD:
        return await rulings.held_by(connection, incident_id)
    now = await rulings.treatments(connection, concerned)
    return [match_id for match_id in concerned if now[match_id].treatment is Treatment.COUNTS]


@app.command("list")
def list_(database_url: Database, limit: Limit = 50) -> None:
    """Show the results that are held, the earliest first."""

    async def read(connection: Connection) -> list[rulings.Held]:
        return await rulings.list_held(connection, limit)

    table = _table("match", "ended", "north", "south", "held by", "incident", "reason")
    for held in with_database(database_url, read):
        table.add_row(
            str(held.match_id),
            _time(held.ended_at),
            held.north,
            held.south,
            held.author,
            str(held.incident_id or ""),
            escape(held.reason),
        )
    _console().print(table)


@app.command("show")
def show(match: Annotated[str, typer.Argument(help="The match.")], database_url: Database) -> None:
    """Show the decision about a match, everything ruled about it, and what it said before."""
    match_id = UUID(id_of(match, "MATCH"))

    async def read(connection: Connection) -> _Story | None:
        over = await ladder.is_over(connection, match_id)
        if not over:
            raise RefusedError("there is no such match" if over is None else "the match is not finished")
        return (
            await ladder.find_decision(connection, match_id),
            await rulings.rulings_about(connection, match_id),
            await rulings.revisions(connection, match_id),
        )

    try:
        found = with_database(database_url, read)
    except RefusedError as refused:
        sys.stderr.write(f"{refused}\n")
        raise typer.Exit(REFUSED) from None
    assert found is not None
    _show_story(_console(), *found)


_Story = tuple[ladder.Decision | None, list[rulings.NamedRuling], list[rulings.Said]]


def _show_story(
    console: Console,
    decision: ladder.Decision | None,
    ruled: Iterable[rulings.NamedRuling],
    before: Iterable[rulings.Said],
) -> None:
    if decision is None:
        console.print("not decided yet")
    else:
        console.print(f"{decision.reason}, {decision.model_version}, decided {_time(decision.decided_at)}")
        for what, value in (("incident", decision.incident_id), ("evidence", decision.evidence_id)):
            if value is not None:
                console.print(f"{what} {value}")
    table = _table("ruling", "at", "action", "by", "incident", "reason")
    for ruling in ruled:
        table.add_row(
            str(ruling.ruling_id),
            _time(ruling.at),
            ruling.action,
            ruling.author,
            str(ruling.incident_id or ""),
            escape(ruling.reason),
        )
    if table.row_count:
        console.print(table)
    table = _table("revision", "until", "changed by", "said", "north", "south")
    for said in before:
        table.add_row(
            str(said.revision),
            _time(said.superseded_at),
            str(said.superseded_by),
            said.verdict.reason,
            *_both(said.verdict),
        )
    if decision is not None:
        now = _change(decision.north), _change(decision.south)
        table.add_row(str(decision.revision), "now", "", decision.reason, *now)
    console.print(table)


def _show_summary(console: Console, summary: Summary, limit: int) -> None:
    console.print(f"{len(summary.matches)} decisions and {len(summary.players)} ratings have changed")
    table = _table("match", "was", "is", "north was", "north is", "south was", "south is")
    for shift in summary.matches[:limit]:
        north, south = zip(_both(shift.before), _both(shift.after), strict=True)
        table.add_row(str(shift.ended.match_id), shift.before.reason, shift.after.reason, *north, *south)
    _print(console, table, len(summary.matches))
    table = _table("player", "was", "is", "shown was", "is", "change")
    for moved in summary.players[:limit]:
        was, now = moved.before.shown, moved.after.shown
        table.add_row(
            moved.player_id, _rating(moved.before), _rating(moved.after), f"{was}", f"{now}", f"{now - was:+}"
        )
    _print(console, table, len(summary.players))


def _print(console: Console, table: Table, count: int) -> None:
    if table.row_count:
        console.print(table)
    if table.row_count < count:
        console.print(f"and {count - table.row_count} more (--limit)")


def _both(verdict: Verdict) -> list[str]:
    return [_change(verdict.changes[seat] if verdict.changes else None) for seat in SEATS]


def _change(change: Change | None) -> str:
    return "" if change is None else f"{_rating(change.before)} to {_rating(change.after)}"


def _rating(rating: Rating) -> str:
    return f"{rating.mu:.1f} ± {rating.sigma:.1f}"


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column)
    return table


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else WIDTH)
