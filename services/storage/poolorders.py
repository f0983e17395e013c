"""What operators have ordered about the pools: kept row by row, so that whoever leads next keeps to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from services.storage.pool import Connection
from services.storage.seeks import PoolName

Action = Literal["pause", "drain", "resume", "announce"]


@dataclass(frozen=True, slots=True)
class PoolOrder:
    """Something an operator has ordered about one pool."""

    order_no: int
    """Of two orders the higher number counts."""
    pool: PoolName
    action: Action
    announcement: str
    """What those who wait are told; empty takes an announcement back, and with other actions."""
    author: str
    reason: str
    at: datetime
    until: datetime | None
    """From then on it does not count any more."""


@dataclass(frozen=True, slots=True)
class NewOrder:
    """An order to be given to some pools."""

    action: Action
    author: str
    reason: str
    """May be empty for `resume` and `announce`."""
    announcement: str = ""
    until: datetime | None = None


_COLUMNS = "order_no, pool, action, announcement, author, reason, at, until"


async def put_orders(connection: Connection, pools: Iterable[PoolName], new: NewOrder) -> list[PoolOrder]:
    """Keep an order for each of these pools."""
    rows = await connection.fetch(
        f"""
        insert into pool_order (pool, action, announcement, author, reason, until)
        select pool, $2, $3, $4, $5, $6 from unnest($1::text[]) as pool
        returning {_COLUMNS}
        """,  # noqa: S608 - a constant
        list(pools),
        new.action,
        new.announcement,
        new.author,
        new.reason,
        new.until,
    )
    return [PoolOrder(*row) for row in rows]


async def orders_in_force(connection: Connection) -> list[PoolOrder]:
    """The newest order about the mode of each pool and the newest about its announcement, where they still count."""
    rows = await connection.fetch(
        f"""
        select {_COLUMNS} from (
            select distinct on (pool, action = 'announce') {_COLUMNS} from pool_order
            order by pool, action = 'announce', order_no desc
        ) newest
        where (until is null or until > clock_timestamp()) and action <> 'resume'
          and (action <> 'announce' or announcement <> '')
        """  # noqa: S608 - a constant
    )
    return [PoolOrder(*row) for row in rows]


async def last_orders(connection: Connection, count: int) -> list[PoolOrder]:
    """The last orders, newest first."""
    rows = await connection.fetch(
        f"select {_COLUMNS} from pool_order order by order_no desc limit $1",  # noqa: S608 - a constant
        count,
    )
    return [PoolOrder(*row) for row in rows]
