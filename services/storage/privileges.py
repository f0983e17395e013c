"""What each role may do in the database: the table that the migrations follow, that is documented, and that a service
holds against the database at its start.

A service with less than it needs would lose, at a moment nobody has chosen, what it cannot write; one with more can do
more harm than its task needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from services.storage.pool import Connection, Pool

ROLE_PREFIX: Final = "spectacular_bid_"
"""What the name of each role begins with in the database: roles belong to a whole server."""

LETTERS: Final = {"S": "SELECT", "I": "INSERT", "U": "UPDATE", "D": "DELETE"}

TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "clock_evidence": {"game": "S I", "reader": "S", "operator": "S"},
    "engine_lease": {
        "game": "S I U(incarnation address renewed_at lease_until capacity standing)",
        "matchmaking": "S",
        "reader": "S",
        "operator": "S",
    },
    "incident": {
        "game": "S I",
        "matchmaking": "S I U(ended_at detail)",
        "clock": "S I",
        "reader": "S",
        "operator": "S I U(ended_at detail)",
    },
    "incident_match": {
        "game": "S I U(effect credited_ns)",
        "matchmaking": "S",
        "clock": "S I",
        "reader": "S",
        "operator": "S",
    },
    "invitation": {"game": "S I D", "matchmaking": "S", "reader": "S", "operator": "S"},
    "lead": {"game": "S", "matchmaking": "S I U", "reader": "S", "operator": "S"},
    "live_seat": {"game": "S I D", "matchmaking": "S I", "reader": "S", "operator": "S"},
    "match": {"game": "S I", "matchmaking": "S I", "clock": "S", "reader": "S", "operator": "S"},
    "match_archive": {
        "game": "S",
        "matchmaking": "S(match_id rounds turns dealt_at)",
        "archiver": "S I",
        "reader": "S",
        "operator": "S",
    },
    "match_log": {
        "game": "S I",
        "matchmaking": "S(match_id)",
        "archiver": "S D",
        "reader": "S",
        "operator": "S",
    },
    "match_outcome": {"game": "S I", "matchmaking": "S", "archiver": "S", "reader": "S", "operator": "S"},
    "match_owner": {
        "game": "S I U(engine_id fence released_at handed_over_at)",
        "matchmaking": "S I U(engine_id fence handed_over_at)",
        "reader": "S",
        "operator": "S",
    },
    "match_seed": {"game": "S I"},
    "no_show": {"game": "S I", "matchmaking": "S", "reader": "S", "operator": "S"},
    "player": {"game": "S I U(name)", "matchmaking": "S I U(name blocked)", "reader": "S", "operator": "S"},
    "player_name": {"game": "S I", "matchmaking": "S I U(name_key skeleton registered_at)"},
    "pool_order": {"matchmaking": "S I", "reader": "S", "operator": "S"},
    "process_order": {"game": "S", "matchmaking": "S I", "reader": "S", "operator": "S"},
    "rating": {"matchmaking": "S I U", "reader": "S", "operator": "S I U"},
    "rating_count": {"matchmaking": "S", "reader": "S", "operator": "S"},
    "rating_decision": {"matchmaking": "S I U", "reader": "S", "operator": "S I U"},
    "rating_due": {"matchmaking": "S", "reader": "S", "operator": "S"},
    "rating_revision": {"matchmaking": "S I", "reader": "S", "operator": "S I"},
    "rating_ruled": {"matchmaking": "S I", "reader": "S", "operator": "S I"},
    "rating_ruling": {"matchmaking": "S I", "reader": "S", "operator": "S I"},
    "schema_migrations": {
        "game": "S",
        "matchmaking": "S",
        "clock": "S",
        "archiver": "S",
        "reader": "S",
        "operator": "S",
    },
    "seek": {"matchmaking": "S I U D", "reader": "S", "operator": "S"},
    "seek_memory": {"matchmaking": "S I U D"},
    "token_revocation": {"game": "S", "matchmaking": "S I", "reader": "S", "operator": "S I"},
}
"""By table and role: S reads, I adds, U changes, D removes rows; in brackets the only columns. A role that is not named
has nothing there."""

FUNCTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "match_length(uuid)": ("matchmaking", "reader", "operator")
}
"""What runs with the rights of its owner, and who may call it."""

_HELD = """
select c.relname as table_name, p.name as privilege,
       case when p.name in ('SELECT', 'INSERT', 'UPDATE') and not has_table_privilege(r.who, c.oid, p.name) then array(
           select a.attname::text from pg_attribute a
           where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
             and has_column_privilege(r.who, c.oid, a.attnum, p.name)
       ) end as columns
from (select coalesce($1, current_user)::name as who) r
cross join pg_class c
cross join unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER']) as p (name)
where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')
  and (has_table_privilege(r.who, c.oid, p.name) or (
      p.name in ('SELECT', 'INSERT', 'UPDATE') and has_any_column_privilege(r.who, c.oid, p.name)
  ))
"""
_CALLED = """
select f as name from unnest($2::text[]) as f
where to_regprocedure(f) is not null and has_function_privilege(coalesce($1, current_user)::name, f, 'EXECUTE')
"""
_MORE = """
select array_remove(array[
    case when rolsuper then 'is a superuser' end, case when rolcreaterole then 'makes roles' end,
    case when rolcreatedb then 'makes databases' end, case when rolreplication then 'copies the server' end,
    case when rolbypassrls then 'passes row security' end,
    case when exists (
        select from pg_class c where c.relnamespace = 'public'::regnamespace and c.relowner = pg_roles.oid
    ) then 'owns tables' end,
    -- Whatever it inherits from them is told above; the rest it has when it asks for it (`set role`).
    (
        select 'may become ' || string_agg(r.rolname, ', ' order by r.rolname) from pg_roles r
        where r.oid <> pg_roles.oid and not pg_roles.rolsuper and pg_has_role(pg_roles.oid, r.oid, 'MEMBER')
          and r.rolname not in ('pg_monitor', 'pg_read_all_settings', 'pg_read_all_stats', 'pg_stat_scan_tables')
    )
], null) as more
from pg_roles where rolname = coalesce($1, current_user)::name
"""

Columns = frozenset[str] | None
"""The columns that a privilege is for; None is all, of now and of later."""
Rights = Mapping[tuple[str, str], Columns]
"""By table and privilege, as `INSERT`; functions have the privilege `EXECUTE`."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What a role has against what it should have, one phrase each, as `update (name) on player`."""

    missing: tuple[str, ...]
    more: tuple[str, ...]


def needed(role: str) -> Rights:
    """What the table gives a role; nothing to one that it does not know."""
    rights: dict[tuple[str, str], Columns] = {}
    for table, by_role in TABLES.items():
        for letter, columns in re.findall(r"([SIUD])(?:\(([a-z_ ]+)\))?", by_role.get(role, "")):
            rights[table, LETTERS[letter]] = frozenset(columns.split()) if columns else None
    for function, roles in FUNCTIONS.items():
        if role in roles:
            rights[function, "EXECUTE"] = None
    return rights


async def difference(connection: Connection | Pool, role: str, *, user: str | None = None) -> Difference:
    """What the user of the connection, or `user`, has in place of what `role` is for."""
    rows = await connection.fetch(_HELD, user)
    held: dict[tuple[str, str], Columns] = {
        (row["table_name"], row["privilege"]): None if row["columns"] is None else frozenset(row["columns"])
        for row in rows
    }
    called = await connection.fetch(_CALLED, user, list(FUNCTIONS))
    held |= {(row["name"], "EXECUTE"): None for row in called}
    wanted = needed(role)
    missing = (_phrase(key, _less(wanted[key], held, key)) for key in wanted)
    more = (_phrase(key, _less(held[key], wanted, key)) for key in held)
    powers: list[str] = await connection.fetchval(_MORE, user) or []
    return Difference(_sorted(missing), (*powers, *_sorted(more)))


_NOTHING: Final[frozenset[str]] = frozenset()


def _less(columns: Columns, rights: Rights, key: tuple[str, str]) -> Columns:
    """What of `columns` the rights do not cover; the empty set when they cover it all."""
    if key not in rights:
        return columns
    covered = rights[key]
    if covered is None:
        return _NOTHING
    return None if columns is None else columns - covered


def _phrase(key: tuple[str, str], columns: Columns) -> str:
    table, privilege = key
    if columns == _NOTHING:
        return ""
    only = "" if columns is None else f" ({', '.join(sorted(columns))})"
    return f"{privilege.lower()}{only} on {table}"


def _sorted(phrases: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(filter(None, phrases)))
