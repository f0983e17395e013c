"""What has been stored since the last look: incidents, and matches that are void.

Rows come late and out of order: an incident is stored a second after it ended, a declaration may speak of yesterday,
and transactions commit in another order than they began. So the feed asks the database itself: a row is new when it is
visible now and was not in the snapshot of the last look. Nothing is left out and nothing comes twice, across lost
connections too; a row that has changed, for example a declaration that was closed, comes again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from services.storage.incidents import Incident, Kind
from services.storage.pool import Connection

# The transaction that wrote a row is stored with 32 of its 64 bits; the others are those of now, or one less. No row
# is written under a savepoint, whose number a snapshot would not list.
_IS_NEW: Final = """
not pg_visible_in_snapshot(
    (case when {row}.xmin::text::bigint <= s.now & 4294967295 then s.now - (s.now & 4294967295)
          else s.now - (s.now & 4294967295) - 4294967296 end + {row}.xmin::text::bigint)::text::xid8,
    $1::text::pg_snapshot
)
"""
_NOW: Final = "(select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as now) s"

# Beside declarations, which are few, nothing is stored about what is longer ago than a day.
_INCIDENTS: Final = f"""
select i.incident_id, i.kind, i.noticed_by, i.began_at, i.ended_at, i.policy_version, i.engine_id, i.incarnation,
       i.clock_id, i.timeline_id, i.from_ns, i.to_ns, i.reason, i.detail
from incident i, {_NOW}
where (i.began_at > clock_timestamp() - interval '1 day' or i.kind = 'operator') and {_IS_NEW.format(row="i")}
order by i.began_at, i.incident_id
"""  # noqa: S608 - made of constants

# The last outcomes by number, so that a long history costs nothing.
_VOIDS: Final = f"""
select o.match_id::text, o.detail as reason, o.ended_at, coalesce(e.detail ->> 'summary', '') as summary
from match_outcome o left join clock_evidence e on e.evidence_id = o.evidence_id, {_NOW}
where o.ended_no > (select coalesce(max(ended_no), 0) - 10000 from match_outcome) and o.cause = 'void'
  and {_IS_NEW.format(row="o")}
order by o.ended_no
"""  # noqa: S608 - made of constants


@dataclass(frozen=True, slots=True)
class VoidMatch:
    """A match that nobody has won because of a fault of ours."""

    match_id: str
    reason: str
    """The stable word of its outcome."""
    ended_at: datetime
    summary: str
    """What its evidence says in words; may be empty."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What is new, each kind the oldest first, and the snapshot to ask with the next time."""

    snapshot: str
    incidents: tuple[Incident, ...] = ()
    voids: tuple[VoidMatch, ...] = ()


async def stored_since(connection: Connection, snapshot: str | None) -> Stored:
    """What has been stored since `snapshot`; only where to begin when that is None."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        now = await connection.fetchval("select pg_current_snapshot()::text")
        if snapshot is None:
            return Stored(now)
        incidents = await connection.fetch(_INCIDENTS, snapshot)
        voids = await connection.fetch(_VOIDS, snapshot)
    return Stored(
        now,
        tuple(_incident(dict(row)) for row in incidents),
        tuple(VoidMatch(**dict(row)) for row in voids),
    )


def _incident(row: dict[str, Any]) -> Incident:
    return Incident(**{**row, "incident_id": str(row["incident_id"]), "kind": Kind(row["kind"])})
