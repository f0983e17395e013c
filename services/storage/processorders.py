"""Game processes as operators see them, and what was ordered about them: kept row by row, through all restarts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from services.storage.pool import Connection, Pool

Action = Literal["drain", "resume"]
Standing = Literal["ready", "unready", "drained", "leaving"]
"""What a game process said last: it takes matches; it cannot now; operators have it drained; it is about to end."""


@dataclass(frozen=True, slots=True)
class ProcessOrder:
    """Something an operator has ordered about one game process."""

    order_no: int
    """Of two orders the higher number counts."""
    engine_id: str
    action: Action
    author: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class GameProcess:
    """A game process that has ever been there, or that somebody has ordered something about."""

    engine_id: str
    incarnation: str
    address: str
    alive: bool
    """Whether its lease holds."""
    standing: Standing
    """As it said with its last sign of life; means nothing when it is not alive."""
    capacity: int
    live_matches: int
    """That it owns, by the database."""
    order: ProcessOrder | None
    """The newest."""

    @property
    def drained(self) -> bool:
        """Whether operators want nothing played here."""
        return self.order is not None and self.order.action == "drain"


_NAMES: Final = ("order_no", "engine_id", "action", "author", "reason", "at")
_COLUMNS: Final = ", ".join(_NAMES)


async def put_order(
    connection: Connection | Pool, engine_id: str, action: Action, author: str, reason: str
) -> ProcessOrder:
    """Keep an order."""
    row = await connection.fetchrow(
        f"insert into process_order (engine_id, action, author, reason) values ($1, $2, $3, $4) returning {_COLUMNS}",  # noqa: S608 - a constant
        engine_id,
        action,
        author,
        reason,
    )
    assert row is not None
    return ProcessOrder(*row)


async def is_drained(connection: Connection | Pool, engine_id: str) -> bool:
    """Whether the newest order about a process is to drain it."""
    action = await connection.fetchval(
        "select action from process_order where engine_id = $1 order by order_no desc limit 1", engine_id
    )
    return bool(action == "drain")


async def drained(connection: Connection | Pool) -> frozenset[str]:
    """All processes whose newest order is to drain them."""
    rows = await connection.fetch(
        """
        select engine_id from (
            select distinct on (engine_id) engine_id, action from process_order order by engine_id, order_no desc
        ) newest
        where action = 'drain'
        """
    )
    return frozenset(row["engine_id"] for row in rows)


async def game_processes(connection: Connection | Pool) -> list[GameProcess]:
    """Every game process that is known, by name."""
    rows = await connection.fetch(
        """
        select engine_id, coalesce(l.incarnation, '') as incarnation, coalesce(l.address, '') as address,
               coalesce(l.lease_until > clock_timestamp(), false) as alive,
               coalesce(l.standing, 'unready') as standing, coalesce(l.capacity, 0) as capacity,
               (select count(*) from match_owner o where o.engine_id = known.engine_id and o.released_at is null)
                   as live_matches,
               p.order_no, p.action, p.author, p.reason, p.at
        from (select engine_id from engine_lease union select engine_id from process_order) known
        left join engine_lease l using (engine_id)
        left join lateral (
            select order_no, action, author, reason, at from process_order
            where process_order.engine_id = known.engine_id order by order_no desc limit 1
        ) p on true
        order by engine_id
        """
    )
    return [
        GameProcess(
            row["engine_id"],
            row["incarnation"],
            row["address"],
            row["alive"],
            row["standing"],
            row["capacity"],
            row["live_matches"],
            None if row["order_no"] is None else ProcessOrder(**{name: row[name] for name in _NAMES}),
        )
        for row in rows
    ]


async def last_process_orders(connection: Connection | Pool, count: int) -> list[ProcessOrder]:
    """The last orders about any process, newest first."""
    rows = await connection.fetch(
        f"select {_COLUMNS} from process_order order by order_no desc limit $1",  # noqa: S608 - a constant
        count,
    )
    return [ProcessOrder(*row) for row in rows]
