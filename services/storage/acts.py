"""Every act of operators in one list: orders about pools and game processes, declarations, rulings, voids."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from services.storage.pool import Connection


@dataclass(frozen=True, slots=True)
class OperatorAct:
    """Something a person did."""

    at: datetime
    author: str
    action: str
    """`pool pause`, `pool announce`, `game drain`, `incident declare`, `incident close`, `match void`, `rating hold`,
    `rating annul`, `rating recompute`, `player revoke-tokens` and so on."""
    subject: str
    """What it was about: a pool, a game process, an incident, matches, a player, or nothing."""
    reason: str
    via: str
    """`operations`: through matchmaking, by token. `database`: straight in it, by an author as given; so was everything
    about incidents and ratings of releases that kept no word here."""
    database_user: str
    """Who was connected, where it was done in the database."""


async def list_acts(connection: Connection, since: datetime | None, limit: int) -> list[OperatorAct]:
    """The newest acts, of those not before `since`; what the service ruled by itself is none."""
    rows = await connection.fetch(
        """
        select * from (
            (select at, author, 'pool ' || action as action, pool as subject,
                    coalesce(nullif(reason, ''), announcement) as reason, 'operations' as via, '' as database_user
             from pool_order where $1::timestamptz is null or at >= $1 order by at desc limit $2)
            union all
            (select at, author, 'game ' || action, engine_id, reason, 'operations', ''
             from process_order where $1::timestamptz is null or at >= $1 order by at desc limit $2)
            union all
            (select at, author, 'player revoke-tokens', player_id, reason, via, coalesce(database_user, '')
             from token_revocation where $1::timestamptz is null or at >= $1 order by at desc limit $2)
            union all
            (select k.at, k.author, 'rating ' || k.action,
                    coalesce(
                        (select case count(*) when 0 then null when 1 then min(r.match_id::text)
                                              else count(*) || ' matches' end
                         from rating_ruled r where r.ruling_id = k.ruling_id),
                        'the ladder'
                    ),
                    k.reason, coalesce(k.via, 'database'), coalesce(k.database_user, '')
             from rating_ruling k where not k.automatic and ($1::timestamptz is null or k.at >= $1)
             order by k.at desc limit $2)
            union all
            (select a.at, i.detail ->> 'author',
                    case when i.detail ? 'before_rating' then 'match void' else 'incident declare' end,
                    case when i.detail ? 'before_rating' then i.detail -> 'matches' ->> 0
                         else i.incident_id || ' (' || (i.detail ->> 'effect') || ')' end,
                    i.reason, coalesce(i.detail ->> 'declared_via', 'database'),
                    coalesce(i.detail ->> 'declared_database_user', '')
             from incident i
             cross join lateral (select coalesce((i.detail ->> 'declared_at')::timestamptz, i.began_at) as at) a
             where i.kind = 'operator' and ($1::timestamptz is null or a.at >= $1) order by a.at desc limit $2)
            union all
            (select a.at, i.detail ->> 'closed_by', 'incident close', i.incident_id::text,
                    i.detail ->> 'closed_reason', coalesce(i.detail ->> 'closed_via', 'database'),
                    coalesce(i.detail ->> 'closed_database_user', '')
             from incident i
             cross join lateral (select coalesce((i.detail ->> 'closed_at')::timestamptz, i.ended_at) as at) a
             where i.kind = 'operator' and i.detail ? 'closed_by' and ($1::timestamptz is null or a.at >= $1)
             order by a.at desc limit $2)
        ) acts
        order by at desc, action, subject limit $2
        """,
        since,
        limit,
    )
    return [OperatorAct(**row) for row in rows]
