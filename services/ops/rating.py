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

from matchmaker.ladder import Action, Change
from matchmaker.rating import Rating, UnknownModelError
from services.ops.acts import Author, Emergency, Leader, Way, id_of, reason_of, way_of
from services.ops.database import Database, with_database
from services.ops.leader import REFUSED, Address, ask
from services.ops.tables import console, table
from services.storage import ladder, resultacts, rulings
from services.storage.pool import Connection
from services.storage.refold import Summary
from services.storage.rulings import RefusedError, Ruling
from services.storage.verdicts import SEATS, Verdict
from services.wire.results import ACTION_TO_PB, LISTED_MAX, change_from_pb, summary_to_pb
from spectacularbid.internal.operations.v1 import results_pb2 as pb

RULING_SECONDS: Final = 120.0
"""How long one ruling may take: everything later that it reaches is decided again."""

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)

Matches = Annotated[list[str] | None, typer.Argument(metavar="MATCH...", help="The matches, by their ids.")]
Reason = Annotated[str, typer.Option(help="Why; everybody can read it in the decisions about these matches.")]
IncidentOption = Annotated[
    str, typer.Option("--incident", help="What it rests on; without MATCH, all matches it concerns.")
]
Limit = Annotated[int, typer.Option(min=1, max=LISTED_MAX, help="Show at most so many matches and players.")]


@app.command("hold")
def hold(
    reason: Reason,
    match: Matches = None,
    incident: IncidentOption = "",
    limit: Limit = 50,
    address: Leader = "",
    database_url: Emergency = "",
    author: Author = "",
) -> None:
    """Results do not count until somebody releases or reverses them. Later matches are rated without them."""
    _rule(Action.HOLD, way_of(address, database_url, author), reason, match or [], incident, limit)


@app.command("release")
def release(
    reason: Reason,
    match: Matches = None,
    incident: IncidentOption = "",
    limit: Limit = 50,
    address: Leader = "",
    database_url: Emergency = "",
    author: Author = "",
) -> None:
    """Held results count after all, in the place where they ended. With --incident: all that are held because of it."""
    _rule(Action.RELEASE, way_of(address, database_url, author), reason, match or [], incident, limit)


@app.command("reverse")
def reverse(
    reason: Reason,
    match: Matches = None,
    incident: IncidentOption = "",
    limit: Limit = 50,
    address: Leader = "",
    database_url: Emergency = "",
    author: Author = "",
) -> None:
    """Results do not count, as if they had never been. With --incident: all that are held because of it."""
    _rule(Action.REVERSE, way_of(address, database_url, author), reason, match or [], incident, limit)


def _rule(action: Action, way: Way, reason: str, named: Sequence[str], incident: str, limit: int) -> None:
    incident_id = UUID(id_of(incident, "--incident")) if incident else None
    match_ids = [UUID(id_of(match, "MATCH")) for match in named]
    if not match_ids and incident_id is None:
        raise typer.BadParameter("name matches, or an incident", param_hint="MATCH...")
    ruling = Ruling(way.author, reason_of(reason), incident_id, action=action)
    if way.database_url:
        answer = _rule_in_database(way.database_url, ruling, match_ids, limit)
    else:
        request = pb.RuleResultsRequest(
            ruling_id=str(ruling.ruling_id),
            action=ACTION_TO_PB[action],
            match_ids=map(str, match_ids),
            incident_id=str(incident_id or ""),
            reason=ruling.reason,
            limit=limit,
        )
        answer = ask(
            way.address,
            lambda service, options: service.RuleResults(request, **options),
            seconds=RULING_SECONDS,
        )
    typer.echo(f"ruling {ruling.ruling_id}")
    _show_summary(answer)


def _rule_in_database(
    url: str, ruling: Ruling, match_ids: Sequence[UUID], limit: int
) -> pb.RuleResultsResponse:
    async def make(connection: Connection) -> Summary | None:
        return await resultacts.rule_once(connection, ruling, match_ids)

    try:
        return summary_to_pb(with_database(url, make), limit)
    except (RefusedError, UnknownModelError) as refused:
        sys.stderr.write(f"nothing was changed: {refused}\n")
        raise typer.Exit(REFUSED) from None


@app.command("recompute")
def recompute(reason: Reason, address: Address, limit: Limit = 50) -> None:
    """Build the ladder again from outcomes and rulings, and replace what differs; what was stored is kept.

    When matchmaking is down: `python -m services.matchmaking recompute`, which also compares without changing anything.
    """
    request = pb.RecomputeLadderRequest(reason=reason_of(reason), limit=limit)
    found = ask(
        address,
        lambda service, options: service.RecomputeLadder(request, **options),
        seconds=RULING_SECONDS,
    )
    for difference in found.first:
        typer.echo(difference)
    repaired = f", repaired by ruling {found.ruling_id}" if found.ruling_id else ""
    waiting = f"; {found.out_of_order} wait for an earlier decision" if found.out_of_order else ""
    typer.echo(
        f"{found.matches} decisions and {found.players} players, {found.undecided} not decided yet: "
        f"{found.differences} differences{repaired}{waiting}"
    )


@app.command("list")
def list_(database_url: Database, limit: Limit = 50) -> None:
    """Show the results that are held, the earliest first."""

    async def read(connection: Connection) -> list[rulings.Held]:
        return await rulings.list_held(connection, limit)

    shown = table("match", "ended", "north", "south", "held by", "incident", "reason")
    for held in with_database(database_url, read):
        shown.add_row(
            str(held.match_id),
            _time(held.ended_at),
            held.north,
            held.south,
            held.author,
            str(held.incident_id or ""),
            escape(held.reason),
        )
    console().print(shown)


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
    _show_story(console(), *found)


_Story = tuple[ladder.Decision | None, list[rulings.NamedRuling], list[rulings.Said]]


def _show_story(
    screen: Console,
    decision: ladder.Decision | None,
    ruled: Iterable[rulings.NamedRuling],
    before: Iterable[rulings.Said],
) -> None:
    if decision is None:
        screen.print("not decided yet")
    else:
        screen.print(f"{decision.reason}, {decision.model_version}, decided {_time(decision.decided_at)}")
        for what, value in (("incident", decision.incident_id), ("evidence", decision.evidence_id)):
            if value is not None:
                screen.print(f"{what} {value}")
    acts = table("ruling", "at", "action", "by", "incident", "reason")
    for ruling in ruled:
        acts.add_row(
            str(ruling.ruling_id),
            _time(ruling.at),
            ruling.action,
            ruling.author,
            str(ruling.incident_id or ""),
            escape(ruling.reason),
        )
    if acts.row_count:
        screen.print(acts)
    said_before = table("revision", "until", "changed by", "said", "north", "south")
    for said in before:
        said_before.add_row(
            str(said.revision),
            _time(said.superseded_at),
            str(said.superseded_by),
            said.verdict.reason,
            *_both(said.verdict),
        )
    if decision is not None:
        now = _change(decision.north), _change(decision.south)
        said_before.add_row(str(decision.revision), "now", "", decision.reason, *now)
    screen.print(said_before)


def _show_summary(answer: pb.RuleResultsResponse) -> None:
    if answer.done_before:
        typer.echo("it had been ruled already, by a call whose answer was lost")
        return
    shown = console()
    shown.print(
        f"{answer.decisions_changed} decisions and {answer.ratings_changed} ratings have changed",
        highlight=False,
    )
    decisions = table("match", "was", "is", "north was", "north is", "south was", "south is")
    for shift in answer.decisions:
        before, after = shift.before, shift.after
        decisions.add_row(
            shift.match_id,
            before.reason,
            after.reason,
            *(_said(verdict, seat) for seat in SEATS for verdict in (before, after)),
        )
    _print(shown, decisions, answer.decisions_changed)
    ratings = table("player", "was", "is", "shown was", "is", "change")
    for move in answer.ratings:
        change = change_from_pb(move.change)
        was, now = change.before.shown, change.after.shown
        ratings.add_row(
            move.player_id,
            _rating(change.before),
            _rating(change.after),
            f"{was}",
            f"{now}",
            f"{now - was:+}",
        )
    _print(shown, ratings, answer.ratings_changed)


def _print(shown: Console, rows: Table, count: int) -> None:
    if rows.row_count:
        shown.print(rows)
    if rows.row_count < count:
        shown.print(f"and {count - rows.row_count} more (--limit)")


def _said(verdict: pb.Verdict, seat: str) -> str:
    return _change(change_from_pb(getattr(verdict, seat)) if verdict.HasField(seat) else None)  # type: ignore[arg-type]


def _both(verdict: Verdict) -> list[str]:
    return [_change(verdict.changes[seat] if verdict.changes else None) for seat in SEATS]


def _change(change: Change | None) -> str:
    return "" if change is None else f"{_rating(change.before)} to {_rating(change.after)}"


def _rating(rating: Rating) -> str:
    return f"{rating.mu:.1f} ± {rating.sigma:.1f}"


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
