"""The ends of matches as the log's writer stores them: evidence, outcome, no-shows, and players who are free again.

One statement for all matches of a group that end, and where nothing else comes with them the same one that appends
their last rulings. Matches that are lost on time come in crowds, and each trip to the database would make all of them
later.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a forfeit or a void rests on."""

    evidence_id: str
    kind: str
    engine_id: str
    incarnation: str
    policy_version: str
    detail: str
    """JSON."""
    clock_id: str | None = None
    timeline_id: str | None = None
    from_ns: int | None = None
    to_ns: int | None = None
    size_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """The outcome that goes with a final ruling."""

    winner: str | None
    cause: str
    detail: str
    north_balance: int
    south_balance: int
    evidence: Evidence | None = None
    no_shows: tuple[str, ...] = ()
    """Player ids that did not press Start in time. Not held against them when the service had an incident meanwhile."""


OUTCOME: Final = (
    ("match_id", "uuid"),
    ("winner", "text"),
    ("cause", "text"),
    ("detail", "text"),
    ("evidence_id", "uuid"),
    ("fence", "bigint"),
    ("north_balance", "integer"),
    ("south_balance", "integer"),
)
EVIDENCE: Final = (
    ("kind", "text"),
    ("engine_id", "text"),
    ("incarnation", "text"),
    ("clock_id", "text"),
    ("timeline_id", "text"),
    ("from_ns", "bigint"),
    ("to_ns", "bigint"),
    ("size_ns", "bigint"),
    ("policy_version", "text"),
    ("evidence", "text"),
)
_FACTS: Final = OUTCOME + EVIDENCE
_OUTCOME = ", ".join(name for name, _ in OUTCOME)
_EVIDENCE = ", ".join(name for name, _ in EVIDENCE[:-1])


def ending_sql(stored: str, first: int) -> str:
    """A statement that ends those matches whose ids `stored`, a common table expression, has as `match_id`.

    Its parameters are `ending_columns`, from number `first` on. It answers with the ids.
    """
    facts = ", ".join(f"${number}::{kind}[]" for number, (_, kind) in enumerate(_FACTS, first))
    absent = first + len(_FACTS)
    # Evidence and outcome become true together; the foreign key between them is looked at when both are there.
    return f"""
    with {stored}, ended as (
        select e.* from unnest({facts}) as e ({", ".join(name for name, _ in _FACTS)})
        where e.match_id in (select match_id from stored)
    ), proven as (
        insert into clock_evidence (evidence_id, match_id, {_EVIDENCE}, detail)
        select evidence_id, match_id, {_EVIDENCE}, evidence::jsonb from ended where evidence_id is not null
        on conflict do nothing
    ), absent as (
        insert into no_show (match_id, player_id)
        select a.match_id, a.player_id from unnest(${absent}::uuid[], ${absent + 1}::text[]) as a (match_id, player_id)
        where a.match_id in (select match_id from stored) and not match_had_incident(a.match_id, clock_timestamp())
        on conflict do nothing
    ), decided as (
        insert into match_outcome ({_OUTCOME}) select {_OUTCOME} from ended on conflict do nothing
    ), freed as (
        delete from live_seat l where l.match_id in (select match_id from ended)
    ), released as (
        update match_owner o set released_at = clock_timestamp() where o.match_id in (select match_id from ended)
    )
    select match_id from stored
    """  # noqa: S608 - made of the constants above


def ending_columns(endings: Sequence[tuple[str, int, Ending]]) -> list[list[Any]]:
    """The parameters: matches by their ids, under which fence they end, and how."""
    rows = [
        (
            *(uuid.UUID(match_id), ending.winner, ending.cause, ending.detail),
            *(None if ending.evidence is None else uuid.UUID(ending.evidence.evidence_id), fence),
            *(ending.north_balance, ending.south_balance, *_evidence(ending.evidence)),
        )
        for match_id, fence, ending in endings
    ]
    absent = [(uuid.UUID(match_id), who) for match_id, _, ending in endings for who in ending.no_shows]
    columns = [list(column) for column in zip(*rows, strict=True)]
    return [*columns, [match_id for match_id, _ in absent], [who for _, who in absent]]


def _evidence(evidence: Evidence | None) -> tuple[Any, ...]:
    if evidence is None:
        return (None,) * len(EVIDENCE)
    return (*(getattr(evidence, name) for name, _ in EVIDENCE[:-1]), evidence.detail)
