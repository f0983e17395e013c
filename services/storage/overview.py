"""What the database says about the whole service at one moment: what operators look at first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from services.common.auth import CANARY_PREFIX
from services.storage.incidents import Incident, Kind
from services.storage.pool import Connection

OUTCOMES_LOOKED_AT: Final = 10_000
"""How many of the newest outcomes are looked through for voids."""
RECENT_SECONDS: Final = 3600
"""How far back incidents and voids are counted."""
SHOWN: Final = 5
"""Last voids that are named, and open incidents."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A server that follows this one. Fields are empty where the role may not see them."""

    name: str
    state: str
    sync: str
    """`sync`, `quorum`, `potential` or `async`."""
    behind_bytes: int | None
    """WAL that it has not replayed."""


@dataclass(frozen=True, slots=True)
class Server:
    """The PostgreSQL server that answered."""

    version: str
    in_recovery: bool
    """It is no primary and takes no writes."""
    replicas: tuple[Replica, ...]
    connections: int
    """Of all its databases together, one for each client."""
    connections_max: int


@dataclass(frozen=True, slots=True)
class LeaseSeen:
    """A game process as the database knows it. Processes of old that own nothing are left out."""

    engine_id: str
    incarnation: str
    address: str
    age_seconds: float
    """Since it proved to be alive."""
    holds: bool
    """Whether its lease has not run out."""
    matches: int
    """Live matches that it owns and has not handed over."""
    leaving: int
    """Live matches that it has handed over and that nobody has taken up yet."""


@dataclass(frozen=True, slots=True)
class LeaderSeen:
    """Who leads matchmaking, or led last."""

    leader_id: str
    age_seconds: float
    """Since the last sign of life."""
    left: bool
    """It has left in order, and nobody has come yet."""


@dataclass(frozen=True, slots=True)
class PoolSeen:
    """A pool of seekers."""

    pool: str
    mode: str
    """`open`, `pause` or `drain`."""
    author: str
    reason: str
    until: datetime | None
    announcement: str
    waiting: int
    oldest_seconds: float
    """How long the first of them has waited; 0 when nobody does."""


@dataclass(frozen=True, slots=True)
class VoidSeen:
    """A match that nobody has won because of a fault of ours."""

    match_id: str
    reason: str
    age_seconds: float
    rated: bool
    canary: bool
    """The canary played it."""


@dataclass(frozen=True, slots=True)
class RatingSeen:
    """What waits for a decision about ratings."""

    undecided: int
    oldest_seconds: float
    """How long ago the first of them has ended."""
    held: int
    """Decided to wait for a person."""


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything, in one snapshot. Ages are by the database's clock."""

    at: datetime
    server: Server
    leader: LeaderSeen | None
    leases: tuple[LeaseSeen, ...]
    pools: tuple[PoolSeen, ...]
    open_incidents: tuple[Incident, ...]
    """What has no end yet, the newest first."""
    recent_incidents: dict[str, int]
    """Those of the last hour, by kind."""
    voids: tuple[VoidSeen, ...]
    """The last ones, the newest first."""
    recent_voids: dict[str, int]
    """Of the last hour, by reason; matches of the canary are among them."""
    rating: RatingSeen


async def look(connection: Connection) -> Overview:
    """One look, which changes nothing and waits for nobody."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        return Overview(
            at=await connection.fetchval("select clock_timestamp()"),
            server=await _server(connection),
            leader=await _leader(connection),
            leases=await _leases(connection),
            pools=await _pools(connection),
            open_incidents=await _open_incidents(connection),
            recent_incidents=await _recent_incidents(connection),
            voids=await _voids(connection),
            recent_voids=await _recent_voids(connection),
            rating=await _rating(connection),
        )


async def _server(connection: Connection) -> Server:
    row = await connection.fetchrow(
        """
        select current_setting('server_version') as version, pg_is_in_recovery() as in_recovery,
               (select sum(numbackends) from pg_stat_database)::integer as connections,
               current_setting('max_connections')::integer as connections_max
        """
    )
    assert row is not None
    followers = await connection.fetch(
        """
        select coalesce(application_name, '') as name, coalesce(state, '') as state, coalesce(sync_state, '') as sync,
               case when pg_is_in_recovery() then null
                    else pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint end as behind_bytes
        from pg_stat_replication order by application_name
        """
    )
    return Server(
        version=row["version"].partition(" ")[0],
        in_recovery=row["in_recovery"],
        replicas=tuple(Replica(**each) for each in followers),
        connections=row["connections"],
        connections_max=row["connections_max"],
    )


async def _leader(connection: Connection) -> LeaderSeen | None:
    row = await connection.fetchrow(
        """
        select leader_id::text, left_at is not null as left,
               extract(epoch from clock_timestamp() - coalesce(left_at, renewed_at))::float8 as age_seconds
        from lead
        """
    )
    return None if row is None else LeaderSeen(**row)


async def _leases(connection: Connection) -> tuple[LeaseSeen, ...]:
    rows = await connection.fetch(
        """
        select coalesce(l.engine_id, o.engine_id) as engine_id, coalesce(l.incarnation, '') as incarnation,
               coalesce(l.address, '') as address,
               coalesce(extract(epoch from clock_timestamp() - l.renewed_at)::float8, 'infinity') as age_seconds,
               coalesce(l.lease_until > clock_timestamp(), false) as holds,
               coalesce(o.matches, 0) as matches, coalesce(o.leaving, 0) as leaving
        from engine_lease l
        full join (
            select engine_id, count(*) filter (where handed_over_at is null) as matches,
                   count(*) filter (where handed_over_at is not null) as leaving
            from match_owner where released_at is null group by engine_id
        ) o on o.engine_id = l.engine_id
        where l.lease_until > clock_timestamp() or o.engine_id is not null
        order by 1
        """
    )
    return tuple(LeaseSeen(**row) for row in rows)


async def _pools(connection: Connection) -> tuple[PoolSeen, ...]:
    rows = await connection.fetch(
        """
        select pool, coalesce(m.action, 'open') as mode, coalesce(m.author, '') as author,
               coalesce(m.reason, '') as reason, m.until, coalesce(a.announcement, '') as announcement,
               coalesce(s.waiting, 0) as waiting, coalesce(s.oldest_seconds, 0) as oldest_seconds
        from unnest(array['rated', 'casual']) with ordinality as p (pool, no)
        left join lateral (
            select action, author, reason, until from pool_order
            where pool = p.pool and action <> 'announce' order by order_no desc limit 1
        ) m on m.action <> 'resume' and coalesce(m.until > clock_timestamp(), true)
        left join lateral (
            select announcement, until from pool_order
            where pool = p.pool and action = 'announce' order by order_no desc limit 1
        ) a on coalesce(a.until > clock_timestamp(), true)
        left join lateral (
            select count(*) as waiting, extract(epoch from clock_timestamp() - min(since))::float8 as oldest_seconds
            from seek where pool = p.pool
        ) s on true
        order by no
        """
    )
    return tuple(PoolSeen(**row) for row in rows)


async def _open_incidents(connection: Connection) -> tuple[Incident, ...]:
    rows = await connection.fetch(
        """
        select incident_id::text, kind, noticed_by, began_at, ended_at, policy_version, engine_id, reason, detail
        from incident where ended_at is null order by began_at desc, incident_id limit $1
        """,
        SHOWN,
    )
    return tuple(Incident(**{**row, "kind": Kind(row["kind"])}) for row in map(dict, rows))


async def _recent_incidents(connection: Connection) -> dict[str, int]:
    rows = await connection.fetch(
        """
        select kind, count(*) as count from incident
        where began_at > statement_timestamp() - make_interval(secs => $1) group by kind order by kind
        """,
        float(RECENT_SECONDS),
    )
    return {row["kind"]: row["count"] for row in rows}


async def _voids(connection: Connection) -> tuple[VoidSeen, ...]:
    rows = await connection.fetch(
        """
        select o.match_id::text, o.detail as reason, m.rated, starts_with(m.north, $3) as canary,
               extract(epoch from clock_timestamp() - o.ended_at)::float8 as age_seconds
        from match_outcome o join match m using (match_id)
        where o.ended_no > (select coalesce(max(ended_no), 0) - $2 from match_outcome) and o.cause = 'void'
        order by o.ended_no desc limit $1
        """,
        SHOWN,
        OUTCOMES_LOOKED_AT,
        CANARY_PREFIX,
    )
    return tuple(VoidSeen(**row) for row in rows)


async def _recent_voids(connection: Connection) -> dict[str, int]:
    rows = await connection.fetch(
        """
        select detail, count(*) as count from match_outcome
        where ended_at > statement_timestamp() - make_interval(secs => $1) and cause = 'void'
        group by detail order by detail
        """,
        float(RECENT_SECONDS),
    )
    return {row["detail"]: row["count"] for row in rows}


async def _rating(connection: Connection) -> RatingSeen:
    row = await connection.fetchrow(
        """
        select count(*) as undecided,
               coalesce(extract(epoch from clock_timestamp() - min(o.ended_at))::float8, 0) as oldest_seconds,
               (select count(*) from rating_decision where reason = 'held') as held
        from rating_due join match_outcome o using (match_id)
        """
    )
    assert row is not None
    return RatingSeen(**row)
