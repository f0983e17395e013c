"""The outage view as a picture for the terminal, and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from services.ops.outage import (
    Judgement,
    Look,
    Verdict,
    duration,
    is_drained,
    is_ready,
    leads,
    live_matches,
    missing,
    stands_by,
)
from services.ops.pages import Seen
from services.storage.overview import Overview

_STYLES: Final = {Verdict.WELL: "bold green", Verdict.WRONG: "bold red", Verdict.UNREACHABLE: "bold red"}
_WORDS: Final = {
    Verdict.WELL: "all is well",
    Verdict.WRONG: "something is wrong",
    Verdict.UNREACHABLE: "nothing can be reached",
}


def picture(look: Look, judgement: Judgement) -> RenderableType:
    """Everything at a glance, what is wrong first."""
    title = Text(f"Spectacular Bid  {look.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC  ", style="bold")
    title.append(_WORDS[judgement.verdict], _STYLES[judgement.verdict])
    parts: list[RenderableType] = [title]
    parts += [Text(f"! {problem}", "red") for problem in judgement.problems]
    parts += [Text(f"  {note}", "yellow") for note in judgement.notes]
    if look.processes:
        parts += [Text(), _process_table(look)]
    parts += [Text(), _fact_table(look)]
    return Group(*parts)


def _process_table(look: Look) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("process", "name", "metrics", "version", "up", "state", "what it does"):
        table.add_column(Text(name, "dim"), no_wrap=name in ("process", "metrics", "up"))
    for seen in look.processes:
        state, style = _state(seen)
        table.add_row(
            seen.role or "?",
            Text(seen.name if seen.name != seen.address else ""),
            Text(seen.address),
            _version(seen),
            _up(seen, look.at),
            Text(state, style),
            Text(", ".join(_work(seen, look.at))),
        )
    return table


def _state(seen: Seen) -> tuple[str, str]:
    page = seen.page
    if page is None:
        return seen.problem, "bold red"
    if leads(seen):
        return "leads", "green"
    if is_drained(page):
        return "drained", "yellow"
    if stands_by(page):
        return "stands by", "green"
    if is_ready(page):
        return "ready", "green"
    return f"no {', '.join(missing(page))}", "bold red"


def _version(seen: Seen) -> str:
    return seen.page.label("spectacular_bid_build_info", "version") if seen.page else ""


def _up_seconds(seen: Seen, at: datetime) -> float | None:
    started = seen.page.value("process_start_time_seconds") if seen.page else 0.0
    return max(0.0, at.timestamp() - started) if started else None


def _up(seen: Seen, at: datetime) -> str:
    seconds = _up_seconds(seen, at)
    return "" if seconds is None else duration(seconds)


def _work(seen: Seen, at: datetime) -> Iterator[str]:
    if seen.page is None:
        return
    page, value = seen.page, seen.page.value
    match seen.role:
        case "matchmaking" if leads(seen):
            yield f"waiting {value('spectacular_bid_players_waiting'):.0f}"
            yield f"game processes {value('spectacular_bid_game_processes'):.0f}"
        case "game":
            phases = page.by("spectacular_bid_live_matches", "phase")
            yield f"live {sum(phases.values()):.0f}"
            yield from (f"{phase} {count:.0f}" for phase, count in phases.items() if phase and count)
            yield f"lease {value('spectacular_bid_lease_age_seconds'):.1f} s old"
            if waiting := value("spectacular_bid_game_held_commands"):
                yield f"commands under way {waiting:.0f}"
        case "clock":
            yield f"sessions {value('spectacular_bid_clock_sessions'):.0f}"
            yield f"matches {value('spectacular_bid_clock_matches'):.0f}"
        case "canary":
            runs = page.by("spectacular_bid_canary_runs_total", "result")
            yield f"played {runs.get('ok', 0):.0f}, failed {runs.get('failed', 0):.0f}"
            if last := value("spectacular_bid_canary_last_success_timestamp_seconds"):
                yield f"last {duration(max(0.0, at.timestamp() - last))} ago"
        case _:
            pass


def _fact_table(look: Look) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    phases = live_matches(look.processes)
    if phases:
        named = [f"{phase} {count:.0f}" for phase, count in phases.items() if phase and count]
        table.add_row(
            "live matches", f"{sum(phases.values()):.0f}" + (f": {', '.join(named)}" if named else "")
        )
    if look.overview is None:
        problem = look.database_problem
        table.add_row("database", Text(problem, "bold red") if problem else Text("not asked"))
        return table
    for name, fact in _facts(look.overview):
        table.add_row(name, Text(fact))
    return table


def _facts(overview: Overview) -> Iterator[tuple[str, str]]:
    server = overview.server
    role = "in recovery" if server.in_recovery else "primary"
    yield (
        "database",
        (
            f"{role}, PostgreSQL {server.version}, {server.connections} of {server.connections_max} connections"
        ),
    )
    for replica in server.replicas:
        behind = "" if replica.behind_bytes is None else f", {replica.behind_bytes} bytes behind"
        yield "  replica", f"{replica.name}: {replica.state or 'state hidden'} {replica.sync}{behind}"
    if (leader := overview.leader) is not None:
        yield "leader", f"{'left' if leader.left else 'heard of'} {duration(leader.age_seconds)} ago"
    for lease in overview.leases:
        leaving = f", {lease.leaving} handed over" if lease.leaving else ""
        yield (
            "lease",
            (
                f"{lease.engine_id} at {lease.address}, {'holds' if lease.holds else 'has run out'}, renewed"
                f" {duration(lease.age_seconds)} ago, {lease.matches} matches{leaving}; incarnation {lease.incarnation}"
            ),
        )
    for pool in overview.pools:
        waits = f", the first for {duration(pool.oldest_seconds)}" if pool.waiting else ""
        said = f"; announced: {pool.announcement}" if pool.announcement else ""
        yield f"pool {pool.pool}", f"{pool.mode}, {pool.waiting} waiting{waits}{said}"
    rating = overview.rating
    first = f", the first for {duration(rating.oldest_seconds)}" if rating.undecided else ""
    yield "rating", f"{rating.undecided} undecided{first}, {rating.held} held"
    yield (
        "incidents",
        f"{len(overview.open_incidents)} open; last hour: {_counted(overview.recent_incidents)}",
    )
    yield "voids", f"last hour: {_counted(overview.recent_voids)}"
    for void in overview.voids:
        whose = "the canary's" if void.canary else "rated" if void.rated else "unrated"
        yield "  void", f"{void.match_id} {whose}, {duration(void.age_seconds)} ago: {void.reason}"


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in counts.items()) or "none"


def as_json(look: Look, judgement: Judgement) -> dict[str, Any]:
    """The same for programs. Times are ISO, ages seconds."""
    found: dict[str, Any] = {
        "at": look.at.astimezone(UTC).isoformat(),
        "verdict": judgement.verdict.name.lower(),
        "problems": list(judgement.problems),
        "notes": list(judgement.notes),
        "processes": [_process_json(seen, look.at) for seen in look.processes],
        "live_matches": {phase: int(count) for phase, count in live_matches(look.processes).items()},
        "database_problem": look.database_problem,
        "database": None,
    }
    if look.overview is not None:
        found["database"] = _plain(look.overview)
    return found


def _process_json(seen: Seen, at: datetime) -> dict[str, Any]:
    return {
        "role": seen.role,
        "name": seen.name,
        "address": seen.address,
        "version": _version(seen),
        "answers": seen.page is not None,
        "ready": seen.page is not None and is_ready(seen.page),
        "missing": missing(seen.page) if seen.page else [],
        "problem": seen.problem,
        "up_seconds": _up_seconds(seen, at),
        "state": _state(seen)[0],
        "work": list(_work(seen, at)),
    }


def _plain(value: Any) -> Any:
    """Dataclasses as objects; an age that nobody knows is null, since JSON has no infinity."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return None if value == float("inf") else value
