"""What went wrong, what it did to which matches, and what became of their results."""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from services.ops.acts import id_of
from services.ops.database import Database, time_of, with_database
from services.ops.tables import console, table
from services.storage.incidentreport import Concerned, Listed, Report, get_report, list_incidents
from services.storage.incidents import Incident, Kind
from services.storage.pool import Connection


def incidents(
    database_url: Database,
    incident_id: Annotated[
        str, typer.Argument(help="One incident, with its evidence and its matches; without it, a list.")
    ] = "",
    *,
    lasting: Annotated[bool, typer.Option("--open", help="Only what has no end yet.")] = False,
    since: Annotated[str, typer.Option(help="ISO time with zone: only what was not over by then.")] = "",
    kind: Annotated[list[Kind] | None, typer.Option(help="Only this kind; may be repeated.")] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=10_000, help="At most so many incidents, or matches.")
    ] = 50,
    json_: Annotated[bool, typer.Option("--json", help="JSON.")] = False,
) -> None:
    """Show the newest incidents of every kind, or one with the matches it touched and their rating decisions.

    `incident declare` adds one by hand, and `incident close` ends it.
    """
    if incident_id:
        _one(database_url, id_of(incident_id, "INCIDENT_ID"), limit, as_json=json_)
        return
    began = time_of(since, "--since")

    async def read(connection: Connection) -> list[Listed]:
        return await list_incidents(connection, kind or list(Kind), lasting=lasting, since=began, limit=limit)

    found = with_database(database_url, read)
    if json_:
        _print_json([_listed_json(each) for each in found])
    else:
        console().print(_list_table(found))


def _one(database_url: str, incident_id: str, limit: int, *, as_json: bool) -> None:
    async def read(connection: Connection) -> Report | None:
        return await get_report(connection, UUID(incident_id), limit=limit)

    report = with_database(database_url, read)
    if report is None:
        sys.stderr.write(f"there is no incident {incident_id}\n")
        raise typer.Exit(1)
    if as_json:
        _print_json(_report_json(report))
    else:
        _show(console(), report)


def _list_table(found: list[Listed]) -> Table:
    made = table("incident", "kind", "began", "lasted", "noticed by", "void", "credited", "held", "reason")
    for name, column in zip(("lasted", "void", "credited", "held"), (3, 5, 6, 7), strict=True):
        assert made.columns[column].header == name
        made.columns[column].justify = "right"
    for each in found:
        incident = each.incident
        made.add_row(
            incident.incident_id,
            incident.kind.value,
            _time(incident.began_at),
            _lasted(incident),
            escape(incident.noticed_by),
            str(each.voided),
            str(each.credited),
            str(each.held),
            escape(incident.reason),
        )
    return made


def _show(out: Console, report: Report) -> None:
    incident = report.incident
    facts = table("", "")
    facts.show_header = False
    facts.add_row("incident", incident.incident_id)
    facts.add_row("kind", incident.kind.value)
    facts.add_row("reason", escape(incident.reason))
    facts.add_row("noticed by", escape(incident.noticed_by))
    ended = "lasts" if incident.ended_at is None else f"until {_time(incident.ended_at)}"
    facts.add_row("when", f"{_time(incident.began_at)} {ended} ({_lasted(incident)})")
    for name, value in (
        ("game process", incident.engine_id),
        ("incarnation", incident.incarnation),
        ("clock", incident.clock_id),
        ("timeline", incident.timeline_id),
        ("on it", _span(incident)),
        ("policy", incident.policy_version),
    ):
        if value:
            facts.add_row(name, escape(value))
    for name, fact in sorted(report.facts.items()):
        facts.add_row(escape(name), escape(fact if isinstance(fact, str) else json.dumps(fact)))
    out.print(facts)
    if not report.concerned:
        out.print("\nno match rests on it")
        return
    made = table("match", "north", "south", "effect", "credited s", "ended", "evidence", "rating", "ruled")
    made.columns[4].justify = "right"
    for match in report.concerned:
        made.add_row(
            match.match_id,
            match.north,
            match.south,
            match.effect or "named",
            f"{match.credited_ns / 1e9:.3f}" if match.credited_ns else "",
            _end(match),
            escape(match.evidence or match.evidence_id or ""),
            _decision(match),
            escape("; ".join(match.rulings)),
        )
    out.print()
    out.print(made)
    if report.more:
        out.print(f"and {report.more} more matches (--limit)")


def _end(match: Concerned) -> str:
    if match.cause is None:
        return "live"
    detail = f" ({match.detail})" if match.detail else ""
    return match.cause + detail if match.winner is None else f"{match.winner} won by {match.cause}{detail}"


def _decision(match: Concerned) -> str:
    if match.decision is None:
        return "" if match.cause is None else "undecided"
    return match.decision + (f", revision {match.revision}" if match.revision > 1 else "")


def _span(incident: Incident) -> str:
    if incident.from_ns is None or incident.to_ns is None:
        return ""
    return f"{incident.from_ns} to {incident.to_ns} ns"


def _lasted(incident: Incident) -> str:
    ended = incident.ended_at
    return "still" if ended is None else f"{(ended - incident.began_at).total_seconds():.3f} s"


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def _listed_json(listed: Listed) -> dict[str, Any]:
    return {
        **_incident_json(listed.incident),
        "matches": {"void": listed.voided, "credited": listed.credited, "held": listed.held},
    }


def _report_json(report: Report) -> dict[str, Any]:
    return {
        **_incident_json(report.incident),
        "matches": [_plain(match) for match in report.concerned],
        "matches_left_out": report.more,
    }


def _incident_json(incident: Incident) -> dict[str, Any]:
    return {**_plain(incident), "detail": json.loads(incident.detail)}


def _plain(value: Incident | Concerned) -> dict[str, Any]:
    def plain(one: Any) -> Any:
        return one.astimezone(UTC).isoformat() if isinstance(one, datetime) else one

    return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
