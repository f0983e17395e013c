"""What faults of the service did to each player: void matches, time credited, losses on time near an incident."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from services.common.auth import CANARY_PREFIX
from services.storage.incidents import NEAR_SECONDS, NOTABLE_SECONDS
from services.storage.matchlog import CREDITS
from services.storage.pool import Connection


@dataclass(frozen=True, slots=True)
class PlayerVoids:
    """One player's matches of the time that is asked about. Cancelled ones, those on one device, and the canary's are left out."""

    player_id: str
    name: str
    matches: int
    voids: Counter[str]
    """By the word of their outcome."""
    near: int
    """Matches this player lost on time within 60 s of an incident that concerned them."""
    credited_ns: int
    """Time of this player's turns that was not charged."""


@dataclass(frozen=True, slots=True)
class VoidFacts:
    """The whole."""

    matches: int
    voids: Counter[str]
    players: tuple[PlayerVoids, ...]


# An incident concerns a match when it touched it, or its process, or names no process. Nothing but declarations lasts
# longer than a day.
_PLAYED: Final = f"""
with played as materialized (
    select o.match_id, o.cause, o.detail, o.winner, m.north, m.south,
           o.cause = 'time' and exists (
               select from incident i
               where i.began_at <= o.ended_at
                 and (i.began_at > o.ended_at - interval '1 day' or i.kind = 'operator')
                 and coalesce(i.ended_at, o.ended_at) >= o.ended_at - interval '{NEAR_SECONDS} s'
                 and coalesce(i.ended_at, o.ended_at) - i.began_at >= interval '{NOTABLE_SECONDS} s'
                 and (
                     i.engine_id is null or i.engine_id = w.engine_id or exists (
                         select from incident_match t
                         where t.incident_id = i.incident_id and t.match_id = o.match_id
                     )
                 )
           ) as near
    from match_outcome o
    join match m on m.match_id = o.match_id
    left join match_owner w on w.match_id = o.match_id
    where o.ended_at >= $1 and o.cause <> 'cancelled' and m.mode <> 'same_device'
      and not starts_with(m.north, '{CANARY_PREFIX}')
)
"""  # noqa: S608 - made of constants

_TOTALS: Final = f"""
{_PLAYED}
select detail, count(*) as matches, cause = 'void' as void from played group by detail, void
"""  # noqa: S608 - made of constants

_PLAYERS: Final = f"""
{_PLAYED}, seated as (
    select match_id, 'north' as seat, north as player_id, cause, detail, near and winner = 'south' as near from played
    union all
    select match_id, 'south', south, cause, detail, near and winner = 'north' from played
), credit as (
    select l.match_id, l.seat, sum(l.credited_ns) as credited_ns
    from ({CREDITS}) l join played p on p.match_id = l.match_id
    group by l.match_id, l.seat
)
select p.player_id, p.name, count(*) as matches,
       coalesce(array_agg(s.detail) filter (where s.cause = 'void'), '{{}}') as voids,
       count(*) filter (where s.near) as near,
       coalesce(sum(c.credited_ns), 0)::bigint as credited_ns
from seated s
join player p on p.player_id = s.player_id
left join credit c on c.match_id = s.match_id and c.seat = s.seat
group by p.player_id
order by p.player_id
"""  # noqa: S608 - made of constants


async def get_void_facts(connection: Connection, since: datetime) -> VoidFacts:
    """Of all matches that ended since then."""
    totals = await connection.fetch(_TOTALS, since)
    players = await connection.fetch(_PLAYERS, since)
    return VoidFacts(
        matches=sum(row["matches"] for row in totals),
        voids=Counter({row["detail"]: row["matches"] for row in totals if row["void"]}),
        players=tuple(PlayerVoids(**{**row, "voids": Counter(row["voids"])}) for row in map(dict, players)),
    )
