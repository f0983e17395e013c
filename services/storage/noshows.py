"""Who did not come to a match, and how long they have to wait for the next."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from matchmaker.cooldown import FORGIVEN_AFTER, LONGEST, cooldown
from services.storage.pool import Connection

NO_SHOWS_MAX: Final = 32
"""No-shows that are looked at, the latest first: the longest cooldown is reached long before."""
_LOOKED_AT: Final = timedelta(microseconds=(FORGIVEN_AFTER + LONGEST) // 1000)
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass(frozen=True, slots=True)
class Cooling:
    """The player may not seek yet."""

    until: datetime
    wait: timedelta
    """How long that is from now on."""
    no_shows: int
    """How many no-shows it rests on."""
    match_id: str
    """The match of the last one."""


async def find_cooldown(connection: Connection, player_id: str) -> Cooling | None:
    """The cooldown that holds for a player now, by the database's clock.

    A no-show counts unless the service had an incident then. That was looked at when it was recorded; it is looked at
    again because people declare incidents later.
    """
    rows = await connection.fetch(
        """
        select match_id, at, clock_timestamp() as now from no_show
        where player_id = $1 and at > clock_timestamp() - $2::interval and not match_had_incident(match_id, at)
        order by at desc limit $3
        """,
        player_id,
        _LOOKED_AT,
        NO_SHOWS_MAX,
    )
    if not rows:
        return None
    now: datetime = rows[0]["now"]
    found = cooldown([_ns(row["at"]) for row in rows], _ns(now))
    if found is None:
        return None
    until = _EPOCH + timedelta(microseconds=found.until // 1000)
    return Cooling(until, until - now, found.no_shows, str(rows[0]["match_id"]))


def _ns(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
