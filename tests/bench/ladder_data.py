"""A ladder of a year loaded by SQL: players, finished rated matches, their decisions, and archives without their logs.

How often players play is skewed, the n-th about n^(-2/3) as often as the first: of 1,000,000 players with 10,000,000
matches one has 200,000, some twenty have more than 10,000, half have 11 or fewer. Every tenth player is shown the same rating. Ratings and decisions are plausible, not the fold of the
results: whoever audits this ladder finds that out.

Each match has its rows in match, match_owner, match_outcome, rating_decision and match_archive; `data` of an archive is
empty (it is stored out of line and read by nobody here). There are no rows in match_log, match_seed, clock_evidence.

While loading, triggers are off, keys, foreign keys and indexes are gone, nothing waits for the disk, and autovacuum does
not run. Afterwards all of them are made again from their own definitions, which looks at every row, and everything is
vacuumed and analyzed. Checks of single rows are on all the time.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import asyncpg

from matchmaker.rating import MODEL_VERSION
from services.local.postgres import EmbeddedPostgres
from services.storage.migrate import migrate
from services.storage.pool import Connection

TABLES: Final = (
    "player",
    "match",
    "match_owner",
    "match_outcome",
    "rating",
    "rating_decision",
    "match_archive",
)
SECONDS_MAX: Final = 3600
"""For one statement."""
SERVER: Final = {
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "maintenance_work_mem": "512MB",
    "work_mem": "32MB",
}
"""What the server has besides its defaults, then and now."""
LOADING: Final = {
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "checkpoint_timeout": "30min",
    "autovacuum": "off",
}
"""And only while loading."""
SAME_SHOWN: Final = 1012
"""What every tenth player is shown."""
_SIZES: Final = "ladder.json"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much there is."""

    players: int
    matches: int


@contextmanager
def loaded(folder: Path, wanted: Sizes, say: Say) -> Iterator[EmbeddedPostgres]:
    """A durable server with the data in this folder, of this release's schema; loaded first when it is not there.

    Raises ValueError when the folder holds another amount.
    """
    if (folder / _SIZES).exists():
        there = Sizes(**json.loads((folder / _SIZES).read_text("utf-8")))
        if there != wanted:
            raise ValueError(f"{folder} holds {there}, not {wanted}")
        say(f"using what is in {folder}")
    else:
        _load(folder, wanted, say)
    with EmbeddedPostgres(folder) as server:
        migrate(server.url)
        yield server


def _load(folder: Path, wanted: Sizes, say: Say) -> None:
    with EmbeddedPostgres(folder, durable=False) as server:
        migrate(server.url)
        _run(server.url, _configure)
    with EmbeddedPostgres(folder, durable=False) as server:
        _run(server.url, lambda connection: fill(connection, wanted, say))
        _run(server.url, _settle)
    # From here on the server is durable: what it has written so far must be, too.
    os.sync()
    (folder / _SIZES).write_text(json.dumps(asdict(wanted)), "utf-8")


def _run(url: str, work: Callable[[Connection], Awaitable[None]]) -> None:
    async def go() -> None:
        connection = await asyncpg.connect(url)
        try:
            await work(connection)
        finally:
            await connection.close()

    asyncio.run(go())


async def _configure(connection: Connection) -> None:
    for name, value in (SERVER | LOADING).items():
        await connection.execute(f"alter system set {name} = '{value}'")


async def _settle(connection: Connection) -> None:
    for name in LOADING:
        await connection.execute(f"alter system reset {name}")
    await connection.execute("checkpoint")


async def fill(connection: Connection, wanted: Sizes, say: Say) -> None:
    """Fill empty tables of the current schema."""

    async def do(what: str, statement: str) -> None:
        began = time.monotonic()
        await connection.execute(statement, timeout=SECONDS_MAX)
        if (seconds := time.monotonic() - began) >= 1:
            say(f"{what}: {seconds:.0f} s")

    await connection.execute("set session_replication_role = replica")
    constraints = await connection.fetch(_CONSTRAINTS, TABLES)
    indexes = await connection.fetch(_INDEXES, TABLES)
    for row in constraints:
        await connection.execute(f"alter table {row['of']} drop constraint {row['name']}")
    for row in indexes:
        await connection.execute(f"drop index {row['name']}")
    for what, statement in _statements(wanted).items():
        await do(what, statement)
    await connection.execute("reset session_replication_role")
    for row in reversed(constraints):
        await do(
            f"{row['of']} {row['name']}",
            f"alter table {row['of']} add constraint {row['name']} {row['definition']}",
        )
    for row in indexes:
        await do(row["name"], row["definition"])
    for table, number in (("match_outcome", "ended_no"), ("rating_decision", "decided_no")):
        await connection.execute(f"alter table {table} alter {number} restart with {wanted.matches + 1}")
    await do("vacuum", "vacuum (analyze, freeze)")


# Keys first when they are made again, so foreign keys first when they go.
_CONSTRAINTS: Final = """
select conrelid::regclass::text as of, conname as name, pg_get_constraintdef(oid) as definition
from pg_constraint
where connamespace = 'public'::regnamespace and (
    (contype = 'f' and (conrelid::regclass::text = any($1) or confrelid::regclass::text = any($1)))
    or (contype in ('p', 'u') and conrelid::regclass::text = any($1))
)
order by contype = 'f' desc
"""
_INDEXES: Final = """
select i.indexrelid::regclass::text as name, pg_get_indexdef(i.indexrelid) as definition
from pg_index i
where i.indrelid::regclass::text = any($1)
  and not exists (select from pg_constraint k where k.conindid = i.indexrelid and k.contype in ('p', 'u'))
"""


def _statements(wanted: Sizes) -> dict[str, str]:
    """What fills the tables, in order. A table of draws comes first and goes last."""
    player = "'guest-' || substr(md5('player ' || {}), 1, 20)"
    # A number below 1 out of a hash, and from it a player.
    chance = "((hashint8extended(i, {}) >> 11) & 9007199254740991) / 9007199254740992.0::float8"
    north, south = (f"floor({wanted.players} * power({chance.format(seed)}, 3))::bigint" for seed in (1, 2))
    return {
        "draws": f"""
            create unlogged table ladder_draw as
            select i, md5('match ' || i)::uuid as match_id, {player.format("north")} as north,
                   {player.format(f"case when south = north then (south + 1) % {wanted.players} else south end")} as south,
                   hashint8extended(i, 3) & 1023 as dice,
                   now() - make_interval(secs => ({wanted.matches + 1} - i) * 31536000.0 / {wanted.matches}) as ended_at
            from (
                select i, {north} as north, {south} as south from generate_series(1, {wanted.matches}::bigint) as i
            ) d
        """,  # noqa: S608 - constants
        "player": f"""
            insert into player (player_id, name, created_at)
            select {player.format("n")}, 'Player ' || n, now() - interval '1 year'
            from generate_series(0, {wanted.players} - 1) n
        """,  # noqa: S608 - constants
        "match": """
            insert into match (match_id, mode, rated, north, south, bank_ns, delay_ns, start_limit_ns,
                               continue_limit_ns, created_at)
            select match_id, 'rated', true, north, south, 120000000000, 10000000000, 60000000000, 30000000000,
                   ended_at - interval '9 minutes'
            from ladder_draw order by i
        """,
        "match_owner": """
            insert into match_owner (match_id, engine_id, fence, released_at)
            select match_id, 'game-' || dice % 8, 1, ended_at from ladder_draw order by i
        """,
        "match_outcome": """
            insert into match_outcome (match_id, winner, cause, fence, north_balance, south_balance, ended_at, ended_no)
            overriding system value
            select match_id, case when dice < 512 then 'north' else 'south' end,
                   case when dice % 8 = 0 then 'resignation' else 'balance' end, 1, north, 300 - north, ended_at, i
            from (
                select *, case when dice % 8 = 0 then 100 + dice % 20 * 5 when dice < 512 then 300 else 0 end as north
                from (select i, match_id, dice, ended_at from ladder_draw) d
            ) e order by i
        """,
        "rating": f"""
            insert into rating (player_id, mu, sigma, shown, rated_matches, wins, newest_ended_no)
            select player_id, mu, sigma, floor(mu - 2 * sigma), matches, wins, newest from (
                select *, case when dice % 10 = 0 then {SAME_SHOWN} + 2 * sigma + 0.5
                               else 900 + dice % 400 + dice / 400 % 400 + dice / 160000 % 400 end as mu
                from (
                    select player_id, count(*) as matches, count(*) filter (where won) as wins, max(i) as newest,
                           greatest(30, 350 / sqrt(1 + count(*) / 1.5)) as sigma,
                           hashtextextended(player_id, 6) & 1073741823 as dice
                    from (
                        select north as player_id, dice < 512 as won, i from ladder_draw
                        union all select south, dice >= 512, i from ladder_draw
                    ) seats group by player_id
                ) players
            ) rated
        """,  # noqa: S608 - constants
        "rating_decision": f"""
            insert into rating_decision (
                match_id, rated, reason, model_version, decided_at, decided_no,
                north_mu_before, north_sigma_before, north_mu_after, north_sigma_after,
                south_mu_before, south_sigma_before, south_mu_after, south_sigma_after
            )
            overriding system value
            select match_id, true, 'rated', '{MODEL_VERSION}', ended_at, i,
                   1500 + dice, 60.25, 1500.5 + dice, 60.125, 1400 + dice, 61.25, 1399.5 + dice, 61.125
            from ladder_draw order by i
        """,  # noqa: S608 - constants
        "match_archive": """
            insert into match_archive (match_id, rulings, rounds, turns, dealt_at, north_credited_ns,
                                       south_credited_ns, plain_bytes, checksum, data, archived_at)
            select match_id, 150, 8, 120, ended_at - interval '8 minutes', 0, 0, 60000, sha256(i::text::bytea), '',
                   ended_at + interval '30 days'
            from ladder_draw order by i
        """,
        # What triggers keep.
        "rating_count": """
            insert into rating_count (shown, players)
            select shown, count(*) from rating where rated_matches > 0 group by shown
        """,
        "no more draws": "drop table ladder_draw",
    }
