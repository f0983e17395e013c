"""Who leads matchmaking and since when nobody did. The advisory lock decides; this row only remembers."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Final
from uuid import UUID

from services.storage.incidents import Incident, Kind, put_incidents
from services.storage.pool import Connection

SUCCESSION_MAX: Final = timedelta(seconds=5)
"""Between an orderly end and the next beginning: longer than this is an incident. Without an orderly end any time is."""
POLICY_VERSION: Final = "matchmaking v1"


async def take_lead(connection: Connection, leader_id: UUID) -> Incident | None:
    """Write down who leads now. The incident, stored in the same transaction, that nobody led before for too long.

    It lasts from the last sign of life of the one who led before until now, and excuses everybody who was awaited in
    a match meanwhile: nobody could tell them where it is.
    """
    async with connection.transaction():
        before = await connection.fetchrow(
            """
            select leader_id, coalesce(left_at, renewed_at) as seen_at, left_at is not null as left_in_order,
                   greatest(clock_timestamp(), left_at, renewed_at) as now
            from lead for update
            """
        )
        await connection.execute(
            """
            insert into lead (leader_id) values ($1)
            on conflict (one) do update set leader_id = $1, renewed_at = clock_timestamp(), left_at = null
            """,
            leader_id,
        )
        if before is None or (before["left_in_order"] and before["now"] - before["seen_at"] < SUCCESSION_MAX):
            return None
        ended = "left" if before["left_in_order"] else "was gone"
        incident = Incident(
            incident_id=str(leader_id),
            kind=Kind.TAKEOVER,
            noticed_by="matchmaking",
            began_at=before["seen_at"],
            ended_at=before["now"],
            policy_version=POLICY_VERSION,
            reason=f"nobody led matchmaking after the leader {ended}",
            detail=json.dumps({"before": str(before["leader_id"]), "now": str(leader_id)}),
        )
        await put_incidents(connection, [incident])
        return incident


async def renew_lead(connection: Connection, leader_id: UUID) -> None:
    """A sign of life. Of no effect when another leads by now."""
    await connection.execute(
        "update lead set renewed_at = clock_timestamp() where leader_id = $1 and left_at is null", leader_id
    )


async def leave_lead(connection: Connection, leader_id: UUID) -> None:
    """An orderly end. Of no effect when another leads by now."""
    await connection.execute("update lead set left_at = clock_timestamp() where leader_id = $1", leader_id)
