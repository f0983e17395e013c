"""What is wrong, judged from what all processes and the database say at one moment. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final

from services.ops.pages import ROLES, Page, Seen
from services.storage.overview import Overview

LEADER_SILENT_SECONDS: Final = 10.0
"""A leader shows a sign of life about every second."""
UNDECIDED_SECONDS: Final = 60.0
"""A finished match without a decision for so long is a backlog."""
CANARY_SILENT_SECONDS: Final = 180.0
"""Three of the canary's matches by its default period."""
VOID_SECONDS: Final = 600.0
"""A match that was void so lately is an outage until somebody has looked."""


class Verdict(Enum):
    """The whole in one word; the value is the exit status of the command."""

    WELL = 0
    WRONG = 1
    UNREACHABLE = 2


@dataclass(frozen=True, slots=True)
class Look:
    """Everything that was seen at one moment."""

    at: datetime
    processes: tuple[Seen, ...]
    overview: Overview | None
    database_problem: str = ""
    """Why there is no overview; empty too when nobody was told of a database."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What follows from a look."""

    verdict: Verdict
    problems: tuple[str, ...]
    """What somebody should do something about, one line each."""
    notes: tuple[str, ...]
    """What is as somebody wants it, and good to know."""


def judge(look: Look) -> Judgement:
    """What is wrong. Nothing is guessed: where a part could not be asked, that is what is wrong."""
    problems = [
        *_processes(look.processes),
        *_roles(look.processes),
        *_database(look),
        *_matches(look),
        *_canaries(look),
    ]
    notes = [*_wanted(look)]
    if look.overview is None and not any(seen.page for seen in look.processes):
        return Judgement(Verdict.UNREACHABLE, tuple(problems) or ("there is nothing to ask",), tuple(notes))
    return Judgement(Verdict.WRONG if problems else Verdict.WELL, tuple(problems), tuple(notes))


def missing(page: Page) -> list[str]:
    """The conditions of readiness that do not hold."""
    held = page.by("spectacular_bid_readiness_condition", "condition")
    return sorted(condition for condition, value in held.items() if not value)


def is_ready(page: Page) -> bool:
    """Whether the process is ready."""
    return bool(page.value("spectacular_bid_ready"))


def leads(seen: Seen) -> bool:
    """Whether this process leads matchmaking."""
    return seen.page is not None and bool(seen.page.value("spectacular_bid_leading"))


def is_drained(page: Page) -> bool:
    """Whether an operator keeps matches away from it."""
    return bool(page.value("spectacular_bid_draining"))


def stands_by(page: Page) -> bool:
    """Whether all that this process lacks is the lead."""
    return page.role == "matchmaking" and not is_ready(page) and missing(page) in ([], ["lead"])


def live_matches(processes: Sequence[Seen]) -> dict[str, float]:
    """Live matches of all game processes that answer, by their phase; an older release has one without a name."""
    found: dict[str, float] = {}
    for seen in processes:
        if seen.page is not None and seen.role == "game":
            for phase, count in seen.page.by("spectacular_bid_live_matches", "phase").items():
                found[phase] = found.get(phase, 0.0) + count
    return found


def _processes(processes: Sequence[Seen]) -> Iterator[str]:
    someone_leads = any(map(leads, processes))
    for seen in processes:
        page = seen.page
        if page is None:
            yield f"{seen.called}: {seen.problem}"
            continue
        if not page.role:
            yield f"{seen.called} is no process of this service"
            continue
        called = f"{page.role} {seen.name}"
        wanted = (stands_by(page) and someone_leads) or is_drained(page)
        if not is_ready(page) and not wanted and page.role != "canary":
            lacks = missing(page)
            yield f"{called} is not ready: {', '.join(lacks) if lacks else 'it does not say why'}"
        if page.role == "game" and not page.value("spectacular_bid_game_clock_attached"):
            yield f"{called} has no clock: nobody there can lose on time, and commands wait"
        if held := page.by("spectacular_bid_live_matches", "phase").get("held"):
            yield f"{called} holds {_matches_in_words(int(held))} after a bug, each of which is void a minute later"
        if mismatches := page.value("spectacular_bid_verdict_mismatches_total"):
            yield f"{called} and its clock have contradicted each other {mismatches:.0f} times: a bug"


def _roles(processes: Sequence[Seen]) -> Iterator[str]:
    asked = {seen.role for seen in processes}
    there = {seen.role for seen in processes if seen.page is not None}
    if not processes:
        return
    if "matchmaking" in there:
        leading = [seen.name for seen in processes if leads(seen)]
        if not leading:
            yield "nobody leads matchmaking: nobody is paired, and results wait for their ratings"
        elif len(leading) > 1:
            # Pages are not read at the same instant; a second look tells.
            yield f"several processes say that they lead matchmaking: {', '.join(leading)}"
    for role in ROLES:
        # Who asks about some processes only has asked for no others.
        if role in asked - there:
            yield f"no {role} process answers"


def _database(look: Look) -> Iterator[str]:
    if look.overview is None:
        if look.database_problem:
            yield f"the database: {look.database_problem}"
        return
    overview = look.overview
    if overview.server.in_recovery:
        yield "the database is in recovery: it takes no writes"
    leader = overview.leader
    if leader is not None and leader.age_seconds > LEADER_SILENT_SECONDS:
        how = "has left" if leader.left else "was last heard of"
        yield f"the leader of matchmaking {how} {duration(leader.age_seconds)} ago"
    for lease in overview.leases:
        if not lease.holds:
            waiting = lease.matches + lease.leaving
            yield (
                f"the lease of {lease.engine_id} has run out, and {_matches_in_words(waiting)}"
                f" {'waits' if waiting == 1 else 'wait'} for an owner"
            )
    if not any(lease.holds for lease in overview.leases):
        yield "no game process holds a lease"
    for incident in overview.open_incidents:
        yield f"open incident: {incident.kind}, {incident.reason or incident.noticed_by} ({incident.incident_id})"


def _matches(look: Look) -> Iterator[str]:
    if look.overview is None:
        return
    lately = [void for void in look.overview.voids if void.age_seconds <= VOID_SECONDS]
    for void in lately[:1]:
        more = f", and {len(lately) - 1} more shown below" if len(lately) > 1 else ""
        yield f"a match was void {duration(void.age_seconds)} ago: {void.reason}{more}"
    rating = look.overview.rating
    if rating.undecided and rating.oldest_seconds > UNDECIDED_SECONDS:
        waits = duration(rating.oldest_seconds)
        yield f"{_matches_in_words(rating.undecided)} without a rating decision, the first for {waits}"


def _canaries(look: Look) -> Iterator[str]:
    for seen in look.processes:
        if seen.page is None or seen.role != "canary":
            continue
        at = seen.page.value("spectacular_bid_canary_last_success_timestamp_seconds")
        age = look.at.timestamp() - at
        failed = seen.page.value("spectacular_bid_canary_failed_in_a_row")
        if failed:
            yield f"the canary cannot play: {failed:.0f} failed in a row"
        elif at and age > CANARY_SILENT_SECONDS:
            yield f"the canary has not played a match for {duration(age)}"


def _wanted(look: Look) -> Iterator[str]:
    for seen in look.processes:
        if seen.page is not None and is_drained(seen.page):
            yield f"game {seen.name} is drained by an operator"
    if look.overview is None:
        return
    for pool in look.overview.pools:
        if pool.mode != "open":
            until = f" until {pool.until:%Y-%m-%d %H:%M:%S}" if pool.until else ""
            yield f"pool {pool.pool}: {pool.mode} by {pool.author}{until}: {pool.reason}"
    if held := look.overview.rating.held:
        what = "1 result is held and waits" if held == 1 else f"{held} results are held and wait"
        yield f"{what} for a person"


def _matches_in_words(count: int) -> str:
    return "1 match" if count == 1 else f"{count} matches"


def duration(seconds: float) -> str:
    """A time as people say it, to its largest unit or two."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 2 * 86400:
        return f"{seconds / 3600:.1f} h"
    return "for ever" if seconds == float("inf") else f"{seconds / 86400:.0f} days"
