"""Leases of game processes and owners of matches: who may write which log, and how a match changes hands."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import asyncpg

from services.storage.pool import Connection, Pool
from services.storage.processorders import Standing

TAKE_UP_LIMIT: Final = 64
"""Matches taken up in one transaction, so that several processes share the work."""
OFFERS: Final = "match_handed_over"
"""The channel on which it is said that matches are handed over."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """Who may write a match's log."""

    match_id: str
    engine_id: str
    fence: int
    address: str | None
    """Where the owner's players reach it, when its process is known."""
    alive: bool
    """Whether the owner's lease holds and it has not handed the match over."""


@dataclass(frozen=True, slots=True)
class TakenUp:
    """A match that changed hands."""

    match_id: str
    fence: int
    """The new owner's."""
    from_engine: str
    gap_ns: int
    """How long nobody may have listened, by the database's clock: since the old owner's last proof of life."""
    planned: bool
    """Whether the old owner handed it over."""
    at: datetime
    """When it changed hands, by the database's clock."""


async def get_owner(connection: Connection | Pool, match_id: str) -> Ownership | None:
    """The owner of a live match; None when the match is over or unknown."""
    row = await connection.fetchrow(
        """
        select o.engine_id, o.fence, l.address,
               o.handed_over_at is null and coalesce(l.lease_until, '-infinity') > clock_timestamp() as alive
        from match_owner o left join engine_lease l on l.engine_id = o.engine_id
        where o.match_id = $1 and o.released_at is null
        """,
        uuid.UUID(match_id),
    )
    return (
        None
        if row is None
        else Ownership(match_id, row["engine_id"], row["fence"], row["address"], row["alive"])
    )


async def find_address(connection: Connection | Pool, match_id: str) -> str | None:
    """Where a match can be asked for: its owner, or any live game process when it is over; None for an unknown match.

    Empty while it is moving, and when no process lives.
    """
    owner = await get_owner(connection, match_id)
    if owner is not None:
        return (owner.address or "") if owner.alive else ""
    row = await connection.fetchrow(
        """
        select (select address from engine_lease where lease_until > clock_timestamp() order by random() limit 1)
               as address
        from match_outcome where match_id = $1
        """,
        uuid.UUID(match_id),
    )
    return None if row is None else row["address"] or ""


async def begin_lease(
    connection: Connection | Pool,
    engine_id: str,
    incarnation: str,
    address: str,
    seconds: float,
    *,
    capacity: int = 0,
    standing: Standing = "unready",
) -> int:
    """Takes the engine's lease for a new incarnation, whoever held it: fences keep the older one harmless.

    `capacity` and `standing` are for those that hand matches over. Returns how long ago the lease was last renewed, in nanoseconds; 0 for a new engine.
    """
    gap = await connection.fetchval(
        """
        with before as (select renewed_at from engine_lease where engine_id = $1 for update),
        begun as (
            insert into engine_lease (engine_id, incarnation, address, lease_until, capacity, standing)
            values ($1, $2, $3, clock_timestamp() + make_interval(secs => $4), $5, $6)
            on conflict (engine_id) do update set incarnation = excluded.incarnation, address = excluded.address,
                renewed_at = clock_timestamp(), lease_until = excluded.lease_until, capacity = excluded.capacity,
                standing = excluded.standing
        )
        select (extract(epoch from clock_timestamp() - renewed_at) * 1e9)::bigint from before
        """,
        engine_id,
        incarnation,
        address,
        seconds,
        capacity,
        standing,
    )
    return max(0, gap or 0)


async def renew_lease(
    connection: Connection | Pool,
    engine_id: str,
    incarnation: str,
    address: str,
    seconds: float,
    *,
    standing: Standing = "unready",
) -> bool:
    """Prolongs this incarnation's lease; False when a newer incarnation holds it."""
    renewed = await connection.fetchval(
        """
        update engine_lease
        set renewed_at = clock_timestamp(), lease_until = clock_timestamp() + make_interval(secs => $4), address = $3,
            standing = $5
        where engine_id = $1 and incarnation = $2
        returning true
        """,
        engine_id,
        incarnation,
        address,
        seconds,
        standing,
    )
    return bool(renewed)


async def say_standing(
    connection: Connection | Pool, engine_id: str, incarnation: str, standing: Standing
) -> None:
    """Says what has changed about this incarnation without waiting for the next renewal."""
    await connection.execute(
        "update engine_lease set standing = $3 where engine_id = $1 and incarnation = $2",
        engine_id,
        incarnation,
        standing,
    )


async def end_lease(connection: Connection | Pool, engine_id: str, incarnation: str) -> None:
    """Gives the lease up: what this incarnation still owned is anyone's at once."""
    await connection.execute(
        "update engine_lease set lease_until = clock_timestamp() where engine_id = $1 and incarnation = $2",
        engine_id,
        incarnation,
    )


async def take_up_own(connection: Connection | Pool, engine_id: str, gap_ns: int) -> list[TakenUp]:
    """Matches that an earlier incarnation of this engine owned, now under a higher fence.

    `gap_ns` is how long ago that incarnation proved to be alive.
    """
    rows = await connection.fetch(
        """
        with mine as (
            select match_id, handed_over_at from match_owner
            where engine_id = $1 and released_at is null order by match_id for update
        )
        update match_owner o set fence = o.fence + 1, handed_over_at = null
        from mine m where o.match_id = m.match_id
        returning o.match_id, o.fence, m.handed_over_at is not null as planned, clock_timestamp() as at,
            (extract(epoch from clock_timestamp() - m.handed_over_at) * 1e9)::bigint as handed_ns
        """,
        engine_id,
    )
    return [
        TakenUp(
            str(row["match_id"]),
            row["fence"],
            engine_id,
            max(0, row["handed_ns"]) if row["planned"] else gap_ns,
            row["planned"],
            row["at"],
        )
        for row in rows
    ]


# Parameter 1 is the engine that asks.
_GONE: Final = """recursive owner as (
    -- Who owns live matches: one step in the index an owner. To look at every live match cost 5 ms of 10,000.
    (select engine_id from match_owner where released_at is null order by engine_id limit 1)
    union all
    select (select o.engine_id from match_owner o
            where o.released_at is null and o.engine_id > owner.engine_id order by o.engine_id limit 1)
    from owner where owner.engine_id is not null
),
gone as (
    select w.engine_id from owner w left join engine_lease l on l.engine_id = w.engine_id
    where w.engine_id <> $1 and coalesce(l.lease_until, '-infinity') < clock_timestamp()
)"""


async def are_left(connection: Connection | Pool, engine_id: str, *, room: bool = True) -> bool:
    """Whether `take_up_orphans` would find any.

    Each process asks this four times a second, and nearly always there is nothing: so it is one statement that locks
    nothing, and no transaction.
    """
    return bool(
        await connection.fetchval(
            f"""
            select exists (
                with {_GONE}
                select from gone union all
                select from match_owner b join engine_lease l on l.engine_id = b.engine_id
                where b.released_at is null and b.handed_over_at is not null and b.engine_id <> $1
                  and ($2 or l.standing = 'leaving')
            )
            """,  # noqa: S608 - a constant
            engine_id,
            room,
        )
    )


async def take_up_orphans(
    connection: Connection | Pool, engine_id: str, limit: int = TAKE_UP_LIMIT, *, room: bool = True
) -> list[TakenUp]:
    """Up to `limit` matches that were handed over or whose owner's lease has run out, now this engine's.

    Without `room` only those that nobody plays otherwise: not what a process that goes on has offered.
    """
    rows = await connection.fetch(
        f"""
        with {_GONE},
        orphan as (
            select o.match_id, o.engine_id, o.handed_over_at, l.renewed_at
            from match_owner o left join engine_lease l on l.engine_id = o.engine_id
            where o.match_id = any (array(
                      select left_by.match_id from gone g cross join lateral (
                          select a.match_id from match_owner a
                          where a.engine_id = g.engine_id and a.released_at is null offset 0
                      ) left_by
                      union all
                      select b.match_id from match_owner b where b.released_at is null and b.handed_over_at is not null
                  ))
              and o.released_at is null and o.engine_id <> $1
              and (coalesce(l.lease_until, '-infinity') < clock_timestamp()
                   or (o.handed_over_at is not null and ($3 or l.standing = 'leaving')))
            order by o.match_id limit $2 for update of o skip locked
        )
        update match_owner o set engine_id = $1, fence = o.fence + 1, handed_over_at = null
        from orphan p where o.match_id = p.match_id
        returning o.match_id, o.fence, p.engine_id as from_engine, p.handed_over_at is not null as planned,
            clock_timestamp() as at,
            (extract(epoch from clock_timestamp() - coalesce(p.handed_over_at, p.renewed_at)) * 1e9)::bigint as gap
        """,  # noqa: S608 - a constant
        engine_id,
        limit,
        room,
    )
    return [
        TakenUp(
            str(row["match_id"]),
            row["fence"],
            row["from_engine"],
            max(0, row["gap"] or 0),
            row["planned"],
            row["at"],
        )
        for row in rows
    ]


async def hand_over(
    connection: Connection | Pool, engine_id: str, owned: Sequence[tuple[str, int, int]]
) -> None:
    """Offers matches to whoever takes them up first: each with the fence it is owned under, and how many nanoseconds
    ago it was left. What was offered before stays so."""
    await connection.execute(
        f"""
        with offered as (select * from unnest($2::uuid[], $3::bigint[], $4::bigint[]) as t (match_id, fence, ago_ns)),
        handed as (
            update match_owner o set handed_over_at = coalesce(
                o.handed_over_at, clock_timestamp() - make_interval(secs => t.ago_ns / 1e9))
            from offered t
            where o.match_id = t.match_id and o.fence = t.fence and o.engine_id = $1 and o.released_at is null
            returning 1
        )
        select pg_notify('{OFFERS}', '') from handed limit 1
        """,  # noqa: S608 - a constant
        engine_id,
        [uuid.UUID(match_id) for match_id, _, _ in owned],
        [fence for _, fence, _ in owned],
        [ago_ns for _, _, ago_ns in owned],
    )


async def take_back(
    connection: Connection | Pool, engine_id: str, owned: Sequence[tuple[str, int]]
) -> list[TakenUp]:
    """Those of these matches that this engine has offered, with the fences they were owned under, and that nobody has
    taken up: its own again."""
    rows = await connection.fetch(
        """
        with offered as (
            select o.match_id, o.handed_over_at
            from unnest($2::uuid[], $3::bigint[]) as t (match_id, fence) join match_owner o using (match_id, fence)
            where o.engine_id = $1 and o.handed_over_at is not null and o.released_at is null for update of o
        )
        update match_owner o set fence = o.fence + 1, handed_over_at = null
        from offered p where o.match_id = p.match_id
        returning o.match_id, o.fence, clock_timestamp() as at,
            (extract(epoch from clock_timestamp() - p.handed_over_at) * 1e9)::bigint as gap
        """,
        engine_id,
        [uuid.UUID(match_id) for match_id, _ in owned],
        [fence for _, fence in owned],
    )
    return [
        TakenUp(str(row["match_id"]), row["fence"], engine_id, max(0, row["gap"]), planned=True, at=row["at"])
        for row in rows
    ]


async def hear_offers(pool: Pool, told: Callable[[], None]) -> None:
    """Calls `told` when matches are handed over, until the connection is lost. It has a connection of its own."""
    gone = asyncio.Event()

    def heard(*_: object) -> None:
        told()

    async with pool.acquire() as connection:
        connection.add_termination_listener(lambda _: gone.set())
        await connection.add_listener(OFFERS, heard)
        try:
            # Whatever was offered just before this was heard by nobody.
            told()
            await gone.wait()
        finally:
            # A connection that is lost is none of ours any more.
            with suppress(asyncpg.InterfaceError):
                await connection.remove_listener(OFFERS, heard)


async def owners_of(connection: Connection | Pool, match_ids: Sequence[str]) -> dict[str, Ownership]:
    """The owners of those of these matches that are live."""
    rows = await connection.fetch(
        """
        select o.match_id, o.engine_id, o.fence, l.address,
               o.handed_over_at is null and coalesce(l.lease_until, '-infinity') > clock_timestamp() as alive
        from match_owner o left join engine_lease l on l.engine_id = o.engine_id
        where o.match_id = any($1::uuid[]) and o.released_at is null
        """,
        [uuid.UUID(match_id) for match_id in match_ids],
    )
    return {
        str(row["match_id"]): Ownership(
            str(row["match_id"]), row["engine_id"], row["fence"], row["address"], row["alive"]
        )
        for row in rows
    }


async def others_alive(connection: Connection | Pool, engine_id: str) -> bool:
    """Whether another game process holds a lease that has not run out."""
    return bool(
        await connection.fetchval(
            "select exists (select from engine_lease where engine_id <> $1 and lease_until > clock_timestamp())",
            engine_id,
        )
    )


async def room_elsewhere(connection: Connection | Pool, engine_id: str) -> int:
    """How many more matches the other processes would take by what they say of themselves: those that are ready."""
    room: int = await connection.fetchval(
        """
        select coalesce(sum(greatest(0, l.capacity - (
            select count(*) from match_owner o where o.engine_id = l.engine_id and o.released_at is null
        ))), 0)::bigint
        from engine_lease l
        where l.engine_id <> $1 and l.lease_until > clock_timestamp() and l.standing = 'ready'
        """,
        engine_id,
    )
    return room


async def ready_elsewhere(connection: Connection | Pool, engine_id: str) -> str | None:
    """The address of another process that is ready; None when there is none."""
    address: str | None = await connection.fetchval(
        """
        select address from engine_lease
        where engine_id <> $1 and lease_until > clock_timestamp() and standing = 'ready' order by random() limit 1
        """,
        engine_id,
    )
    return address
