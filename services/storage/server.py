"""Which server the database is: whether it is still the one that acknowledged what was stored.

A restart, a new primary and a restored copy show in two facts that any session may ask for: when the server was started,
and on which timeline of its write-ahead log it writes. Asked once a connection, since a server can only be exchanged for
another one under connections that break.
"""

from __future__ import annotations

from collections.abc import Callable

from services.storage.pool import Connection, Pool

_ASK = """
    select extract(epoch from pg_postmaster_start_time())::text || '/' || case when pg_is_in_recovery() then 'standby'
        else left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) end
"""


class Server:
    """The server behind a pool, as its newest connection found it."""

    def __init__(self) -> None:
        self.identity = ""
        self.on_changed: Callable[[], None] = lambda: None
        """Told that another one than before has answered, before anything else is asked of it."""

    async def met(self, connection: Connection) -> None:
        """Called with each new connection."""
        identity = str(await connection.fetchval(_ASK))
        if self.identity and identity != self.identity:
            self.on_changed()
        self.identity = identity


async def takes_writes(pool: Pool) -> bool:
    """Whether the server takes writes, as far as the pool's connections can say.

    If not, all of them are given up: after a failover the way to the database may lead to the new primary, while what
    is open still leads to a standby, or goes on in a session that began read-only. Raises what a query may raise.
    """
    writes = bool(
        await pool.fetchval(
            "select not pg_is_in_recovery() and not current_setting('transaction_read_only')::boolean"
        )
    )
    if not writes:
        await pool.expire_connections()
    return writes
