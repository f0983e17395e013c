"""What decisions say, as rows: read, stored once, and replaced while the older ones are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import asyncpg

from matchmaker.ladder import Change, Reason
from matchmaker.rating import Rating
from services.storage.pool import Connection
from services.storage.sessions import LADDER_SECONDS, statement_seconds

SEATS: Final = ("north", "south")
FIGURES: Final = tuple(
    f"{seat}_{figure}_{when}" for seat in SEATS for when in ("before", "after") for figure in ("mu", "sigma")
)
"""The columns with the ratings of both players."""
_FIGURES: Final = ", ".join(FIGURES)

VERDICT: Final = ", ".join(
    f"d.{column}" for column in ("rated", "reason", "model_version", "ruling_id", *FIGURES)
)
"""The columns of rating_decision `d` that a verdict is read from."""

# A number of ours; whoever takes it means the ladder of this database.
_LADDER: Final = 0x5BEC_1ADD
REPLACED_AT_ONCE: Final = 1000


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is decided about a match."""

    reason: Reason
    model_version: str
    ruling_id: UUID | None = None
    """The newest ruling about the match."""
    changes: Mapping[str, Change] | None = None
    """By seat; there exactly when the match is rated."""

    @property
    def rated(self) -> bool:
        """Whether it changed ratings."""
        return self.changes is not None

    def figures(self) -> list[float | None]:
        """The ratings in the order of FIGURES."""
        if self.changes is None:
            return [None] * len(FIGURES)
        return [
            figure
            for seat in SEATS
            for rating in (self.changes[seat].before, self.changes[seat].after)
            for figure in (rating.mu, rating.sigma)
        ]


async def share_ladder(connection: Connection) -> None:
    """Until the end of the transaction nobody rules or recomputes; others may decide beside this one."""
    await connection.execute("select pg_advisory_xact_lock_shared($1)", _LADDER)


async def own_ladder(connection: Connection) -> None:
    """Until the end of the transaction nobody else decides, rules or recomputes. Waits for those who do now."""
    # There may be years of decisions after the one that changes.
    await connection.execute(statement_seconds(LADDER_SECONDS))
    await connection.execute("select pg_advisory_xact_lock($1)", _LADDER)


def verdict_of(row: asyncpg.Record) -> Verdict:
    """A verdict from a row with the columns of VERDICT."""
    changes = {seat: _change(row, seat) for seat in SEATS} if row["rated"] else None
    return Verdict(row["reason"], row["model_version"], row["ruling_id"], changes)


def _change(row: asyncpg.Record, seat: str) -> Change:
    return Change(
        Rating(row[f"{seat}_mu_before"], row[f"{seat}_sigma_before"]),
        Rating(row[f"{seat}_mu_after"], row[f"{seat}_sigma_after"]),
    )


async def put_verdict(connection: Connection, match_id: UUID, verdict: Verdict) -> bool:
    """Stores the decision about a match; False, and nothing changes, when there is one."""
    done = await connection.execute(
        f"""
        insert into rating_decision (match_id, rated, reason, model_version, ruling_id, {_FIGURES})
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) on conflict (match_id) do nothing
        """,  # noqa: S608 - names of this module
        match_id,
        verdict.rated,
        verdict.reason,
        verdict.model_version,
        verdict.ruling_id,
        *verdict.figures(),
    )
    return done == "INSERT 0 1"


async def replace_verdicts(
    connection: Connection, changed: Sequence[tuple[UUID, Verdict]], superseded_by: UUID
) -> None:
    """Puts new decisions in the place of stored ones, which are kept as revisions. The caller owns the ladder."""
    for first in range(0, len(changed), REPLACED_AT_ONCE):
        part = changed[first : first + REPLACED_AT_ONCE]
        ids = [match_id for match_id, _ in part]
        verdicts = [verdict for _, verdict in part]
        await connection.execute(
            f"""
            insert into rating_revision (match_id, revision, rated, reason, model_version, ruling_id, superseded_by,
                                         {_FIGURES})
            select match_id, revision, rated, reason, model_version, ruling_id, $2, {_FIGURES}
            from rating_decision where match_id = any($1::uuid[])
            """,  # noqa: S608 - names of this module
            ids,
            superseded_by,
        )
        columns = ("rated", "reason", "model_version", "ruling_id", *FIGURES)
        # The same columns as arrays, which become rows again.
        arrays = zip(*(verdict.figures() for verdict in verdicts), strict=True)
        places = ", ".join(f"${number}::double precision[]" for number in range(6, 6 + len(FIGURES)))
        await connection.execute(
            f"""
            update rating_decision d set revision = d.revision + 1, {", ".join(f"{c} = t.{c}" for c in columns)}
            from unnest($1::uuid[], $2::boolean[], $3::text[], $4::text[], $5::uuid[], {places})
                as t (match_id, {", ".join(columns)})
            where d.match_id = t.match_id
            """,  # noqa: S608 - names of this module
            ids,
            [verdict.rated for verdict in verdicts],
            [verdict.reason for verdict in verdicts],
            [verdict.model_version for verdict in verdicts],
            [verdict.ruling_id for verdict in verdicts],
            *map(list, arrays),
        )
