"""What must hold when the chaos is over, held against the database and against what the players themselves noted."""

from __future__ import annotations

import itertools
import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import asyncpg

from engine.clock import SECOND
from services.clock.explanation import explain
from services.storage.evidence import get_time_facts
from services.storage.script import start_of
from tests.chaos.players import Book, Said

RESOLUTION: Final = 0.012
"""A tick of live time and its slack, and as much again for the way between two processes of one machine. Seconds."""
STALL: Final = 0.050
"""A command that arrives in a stall no longer than this is dated to the beginning of the stall. Seconds."""


@dataclass
class Findings:
    """What was found."""

    matches: int = 0
    commands: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    """Everything that must not be. Empty when all is well."""
    notes: list[str] = field(default_factory=list)
    """What is worth a look and no fault."""
    turns: int = 0
    """Turns whose time was compared."""
    differences: list[float] = field(default_factory=list)
    """By turn: what the service counted, credits included, less what the player measured. Seconds."""
    too_much: list[float] = field(default_factory=list)
    """Of turns that were charged more than the player's own times allow: how much. Seconds."""
    too_little: list[float] = field(default_factory=list)
    """Of turns that were charged less than that, credits taken into account: how much. Seconds."""
    credited: float = 0.0
    """All credits, seconds."""
    credited_most: float = 0.0
    """The most in one match, seconds."""
    incidents: Counter[str] = field(default_factory=Counter)


async def check(url: str, book: Book, *, forfeits_allowed: int = 0, voids_allowed: int = 0) -> Findings:
    """Looks at everything."""
    found = Findings()
    connection = await asyncpg.connect(url)
    try:
        matches = await connection.fetch("select match_id, bank_ns, delay_ns from match")
        found.matches = len(matches)
        await _outcomes(connection, found, forfeits_allowed, voids_allowed)
        await _log(connection, found, book)
        await _sequences(connection, found)
        await _times(
            connection, found, book, {str(row["match_id"]): row["delay_ns"] / SECOND for row in matches}
        )
        for row in matches:
            await _explained(connection, str(row["match_id"]), found)
        kinds = await connection.fetch("select kind, count(*) as count from incident group by kind")
        found.incidents.update({row["kind"]: row["count"] for row in kinds})
    finally:
        await connection.close()
    found.faults += [f"a player gave up: {reason}" for reason in book.gave_up]
    return found


async def _outcomes(
    connection: asyncpg.Connection, found: Findings, forfeits_allowed: int, voids_allowed: int
) -> None:
    rows = await connection.fetch(
        """
        select m.match_id, o.cause, o.detail from match m left join match_outcome o on o.match_id = m.match_id
        """
    )
    for row in rows:
        found.outcomes[row["cause"] or "none"] += 1
        if row["cause"] is None:
            found.faults.append(f"match {row['match_id']} has no outcome")
    if found.outcomes["time"] > forfeits_allowed:
        late = [str(row["match_id"]) for row in rows if row["cause"] == "time"]
        found.faults.append(f"players who never were late forfeited: {late}")
    if found.outcomes["void"] > voids_allowed:
        voids = [f"{row['match_id']} ({row['detail']})" for row in rows if row["cause"] == "void"]
        found.faults.append(f"void: {voids}")
    if found.outcomes["cancelled"]:
        found.faults.append("a match was cancelled although both players were there")
    ended = await connection.fetch(
        """
        select match_id, count(*) filter (where e->>'type' = 'match_ended') as ends
        from match_log, jsonb_array_elements(events) e group by match_id
        """
    )
    found.faults += [f"match {row['match_id']} ended {row['ends']} times" for row in ended if row["ends"] > 1]


async def _log(connection: asyncpg.Connection, found: Findings, book: Book) -> None:
    """Each acknowledged command is stored, once, where it was said to be."""
    rows = await connection.fetch(
        "select match_id, request_id, first_sequence, last_sequence from match_log where request_id is not null"
    )
    stored = {(str(row["match_id"]), row["request_id"]): row for row in rows}
    found.commands = len(book.said)
    if len(stored) != len(rows):
        found.faults.append("a command has two effects")
    for said in book.said:
        row = stored.get((said.match_id, said.request_id))
        if row is None:
            found.faults.append(f"acknowledged and lost: {said}")
        elif (row["first_sequence"], row["last_sequence"]) != (said.first_sequence, said.last_sequence):
            found.faults.append(f"acknowledged as something else: {said}")


async def _sequences(connection: asyncpg.Connection, found: Findings) -> None:
    """Revisions and sequences have no holes, fences never fall."""
    rows = await connection.fetch(
        """
        select match_id, revision, first_sequence, last_sequence, fence, jsonb_array_length(events) as count
        from match_log order by match_id, revision
        """
    )
    for match_id, log in itertools.groupby(rows, key=lambda row: row["match_id"]):
        revision, sequence, fence = 0, 0, 0
        for row in log:
            dense = (
                row["revision"] == revision + 1
                and row["first_sequence"] == sequence + 1
                and row["last_sequence"] == sequence + row["count"]
                and row["fence"] >= fence
            )
            if not dense:
                found.faults.append(
                    f"match {match_id}: a hole or a lower fence at revision {row['revision']}"
                )
            revision, sequence, fence = row["revision"], row["last_sequence"], row["fence"]


async def _times(
    connection: asyncpg.Connection, found: Findings, book: Book, delays: dict[str, float]
) -> None:
    """What each turn cost, against the player's own times."""
    rows = await connection.fetch(
        """
        select match_id, request_id, turn, fence, elapsed_ns, carried_ns, charge_ns, credited_ns,
               events @> '[{"type": "tile_drawn"}]' as goes_on
        from match_log
        where turn is not null and request_id is not null order by match_id, revision
        """
    )
    said = {(each.match_id, each.request_id): each for each in book.said}
    turns: dict[tuple[str, int], list[asyncpg.Record]] = defaultdict(list)
    for row in rows:
        turns[str(row["match_id"]), row["turn"]].append(row)
    by_match: dict[str, float] = defaultdict(float)
    for (match_id, turn), parts in turns.items():
        credited = sum(row["credited_ns"] or 0 for row in parts) / SECOND
        by_match[match_id] += credited
        own = [said.get((match_id, row["request_id"])) for row in parts]
        known = [each for each in own if each is not None]
        if len(known) != len(parts) or parts[-1]["goes_on"]:
            # Somebody did not hear an answer; or the match ended in the middle of the turn, which then costs nothing.
            continue
        outside = _compare(known, [dict(part) for part in parts], credited, delays[match_id], found)
        if outside > 0:
            found.too_much.append(outside)
            found.faults.append(
                f"match {match_id} turn {turn}: charged {outside:.3f} s more than the player can have used"
            )
        elif outside < 0:
            found.too_little.append(-outside)
            found.notes.append(
                f"match {match_id} turn {turn}: charged {-outside:.3f} s less than the player measured;"
                f" {[(p['elapsed_ns'], p['credited_ns'], p['carried_ns'], p['fence']) for p in parts]}"
                f" {[(round(s.sent - s.heard, 3), round(s.answered - s.sent, 3)) for s in known]}"
            )
    found.credited = sum(by_match.values())
    found.credited_most = max(by_match.values(), default=0.0)


def _compare(
    own: Sequence[Said], parts: Sequence[Mapping[str, Any]], credited: float, delay: float, found: Findings
) -> float:
    """How far the charge of one turn is outside of the player's own times; positive is too much."""
    found.turns += 1
    charge: float = parts[-1]["charge_ns"] / SECOND
    elapsed: float = parts[-1]["elapsed_ns"] / SECOND
    least = sum(each.sent - each.heard for each in own)
    most = sum(each.answered - each.earliest for each in own)
    found.differences.append(elapsed + credited - least)
    highest = max(0.0, most - delay) + RESOLUTION
    lowest = max(0.0, least - credited - len(own) * STALL - delay) - RESOLUTION
    if charge > highest:
        return charge - highest
    return min(0.0, charge - lowest)


async def _explained(connection: asyncpg.Connection, match_id: str, found: Findings) -> None:
    """The dispute procedure reproduces every figure."""
    facts = await get_time_facts(connection, str(uuid.UUID(match_id)))
    assert facts is not None
    start = start_of(facts.script, facts.bank_ns, facts.delay_ns, same_device=facts.same_device)
    made = explain(facts, start)
    found.faults += [f"match {match_id} is not reproduced: {fault}" for fault in made.faults]
