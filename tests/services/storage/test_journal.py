"""The journal on a real PostgreSQL: groups, fences, commits of unknown outcome."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from services.game.metrics import CommitMetrics
from services.storage import matches, ownership
from services.storage.endings import Ending, Evidence
from services.storage.entry import COLUMNS, Entry, Judged
from services.storage.incidents import Effect, Incident, Kind, Touched
from services.storage.journal import TOLD_AT_ONCE, FencedError, Journal
from services.storage.matches import NewMatch
from services.storage.matchlog import read_log
from services.storage.players import put_player
from services.storage.pool import Pool, open_pool
from tests.bench.logrows import records

ENGINE = "game-0"
ALL = tuple(name for name, _ in COLUMNS)


async def new_match(pool: Pool, *, players: tuple[str, str] | None = None) -> str:
    """A match of two new players, owned by ENGINE under fence 1."""
    north, south = players or (f"p-{uuid.uuid4().hex}", f"p-{uuid.uuid4().hex}")
    match_id = str(uuid.uuid4())
    async with pool.acquire() as connection, connection.transaction():
        for player_id in (north, south):
            await put_player(connection, player_id, "A player")
        new = NewMatch(match_id, "casual", False, north, south, 120 * 10**9, 10 * 10**9, 10**9, 10**9)
        await matches.create_match(connection, new, ENGINE)
    return match_id


def entry(match_id: str, revision: int = 1, fence: int = 1) -> Entry:
    """A ruling of one event."""
    return Entry(
        match_id=match_id,
        revision=revision,
        first_sequence=revision,
        last_sequence=revision,
        fence=fence,
        events=json.dumps([{"event": "started", "seat": "north"}]),
        seat="north",
        request_id=f"request {revision}",
        request_hash=b"payload",
        judged=Judged(turn=revision, elapsed_ns=5, charge_ns=0, bank_after_ns=7),
    )


@asynccontextmanager
async def journal_on(url: str, size: int = 4) -> AsyncIterator[tuple[Journal, Pool]]:
    """A journal that writes."""
    pool = await open_pool(url, name="test", size=size, wait_seconds=5)
    journal = Journal(pool, ENGINE, CommitMetrics(CollectorRegistry()))
    task = asyncio.create_task(journal.run())
    try:
        yield journal, pool
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await pool.close()


async def count(pool: Pool, table: str, match_id: str) -> int:
    """Rows of a match in a table."""
    found: int = await pool.fetchval(
        f"select count(*) from {table} where match_id = $1",  # noqa: S608 - names of this file
        uuid.UUID(match_id),
    )
    return found


async def test_rulings_that_wait_together_are_stored_together(database_url: str) -> None:
    """Group commit: many matches, far fewer transactions."""
    async with journal_on(database_url) as (journal, pool):
        ids = [await new_match(pool) for _ in range(40)]
        before = await pool.fetchval("select pg_current_xact_id()::text::bigint")
        await asyncio.gather(*(journal.append(entry(match_id)) for match_id in ids))
        after = await pool.fetchval("select pg_current_xact_id()::text::bigint")
        stored = await pool.fetchval("select count(*) from match_log")
    assert stored == 40
    assert after - before < 10


async def test_a_large_group_is_told_over_several_turns_of_the_loop(database_url: str) -> None:
    """A turn in which hundreds of rooms go on is long, and nobody is heard in it."""
    async with journal_on(database_url) as (journal, pool):
        ids = [await new_match(pool) for _ in range(2 * TOLD_AT_ONCE + 1)]
        loop, turn, told = asyncio.get_running_loop(), 0, Counter[int]()

        def next_turn() -> None:
            nonlocal turn
            turn += 1
            if told.total() < len(ids):
                loop.call_soon(next_turn)

        rulings = [journal.append(entry(match_id)) for match_id in ids]
        for ruling in rulings:
            ruling.add_done_callback(lambda _: told.update([turn]))
        next_turn()
        await asyncio.gather(*rulings)
        assert await pool.fetchval("select count(distinct xmin::text) from match_log") == 1
    assert max(told.values()) == TOLD_AT_ONCE


async def test_rulings_that_are_on_their_way_are_waited_for(database_url: str) -> None:
    """What is appended in a moment shares the transaction; what does not come is not waited for."""
    async with journal_on(database_url) as (journal, pool):
        here, late = await new_match(pool), await new_match(pool)
        appended: list[asyncio.Future[None]] = []

        journal.coming = lambda: 1 - len(appended)
        stored = journal.append(entry(here))
        # After the task that writes, if it should be on its way by now.
        asyncio.get_running_loop().call_soon(lambda: appended.append(journal.append(entry(late))))
        await stored
        await appended[0]
        assert await pool.fetchval("select count(distinct xmin::text) from match_log") == 1
        journal.coming = lambda: 1000
        await journal.append(entry(here, 2))
        assert await count(pool, "match_log", here) == 2


async def test_the_log_gives_back_what_was_stored(database_url: str) -> None:
    """A restart reads events, requests and their order from the log."""
    async with journal_on(database_url) as (journal, pool):
        match_id = await new_match(pool)
        for revision in (1, 2, 3):
            await journal.append(entry(match_id, revision))
        log = await matches.get_log(pool, match_id)
    assert [row.revision for row in log] == [1, 2, 3]
    assert log[1].request_id == "request 2"
    assert log[1].request_hash == b"payload"
    assert log[0].event_list() == [{"event": "started", "seat": "north"}]


async def test_each_field_is_stored_as_it_is(database_url: str) -> None:
    """Whatever its text looks like, and also where there is none."""
    async with journal_on(database_url) as (journal, pool):
        match_id, untouched = await new_match(pool), await new_match(pool)
        events = json.dumps([{"said": "None,NULL {}\t\n\x1e\x1f\\x \u20ac\"'"}], ensure_ascii=False)
        first = replace(
            entry(match_id),
            events=events,
            request_id="None",
            request_hash=bytes(range(32)),
            judged=Judged(1, -2, 3, 4, 5, "timeline", 6, 7, 8, 9, 10, 11, "", "policy"),
        )
        bare = replace(entry(untouched), seat=None, request_id=None, request_hash=None, judged=None)
        await asyncio.gather(journal.append(first), journal.append(bare))
        (row,), (other,) = await read_log(pool, match_id, ALL), await read_log(pool, untouched, ALL)
    assert json.loads(row.pop("events")) == json.loads(events)
    assert [str(value) if name == "match_id" else value for name, value in row.items()] == [
        value for name, value in zip(ALL, records([first])[0], strict=True) if name != "events"
    ]
    assert {name for name, value in other.items() if value is None} == set(ALL[6:])


async def test_a_connection_is_kept_only_while_rulings_wait(database_url: str) -> None:
    """One that breaks while nobody needs it is the pool's to replace: no ruling meets it."""
    async with journal_on(database_url) as (journal, pool):
        match_id = await new_match(pool)
        await journal.append(entry(match_id))
        async with AsyncExitStack() as all_of_them, asyncio.timeout(30):
            for _ in range(4):
                await all_of_them.enter_async_context(pool.acquire())


async def test_only_the_owner_writes(database_url: str) -> None:
    """A zombie's write changes nothing, and the others of its group are stored."""
    async with journal_on(database_url) as (journal, pool):
        lost, kept = await new_match(pool), await new_match(pool)
        assert sorted(
            (taken.match_id, taken.fence) for taken in await ownership.take_up_own(pool, ENGINE, 0)
        ) == sorted([(lost, 2), (kept, 2)])
        late = journal.append(entry(lost, fence=1))
        good = journal.append(entry(kept, fence=2))
        with pytest.raises(FencedError):
            await late
        await good
        assert await count(pool, "match_log", lost) == 0
        assert await count(pool, "match_log", kept) == 1


async def test_a_repeated_append_after_an_unknown_commit_is_a_success(database_url: str) -> None:
    """The first commit went through, its acknowledgement did not: the retry finds its own ruling."""
    async with journal_on(database_url) as (journal, pool):
        match_id = await new_match(pool)
        await journal.append(entry(match_id))
        await journal.append(entry(match_id))
        assert await count(pool, "match_log", match_id) == 1


async def test_a_repeated_append_credits_once(database_url: str) -> None:
    """What a ruling rests on was stored with it: the retry after an unknown commit adds nothing to it."""
    incident = Incident.lasting(Kind.STALL, f"game/{ENGINE}", 5, "v1")
    async with journal_on(database_url) as (journal, pool):
        match_id = await new_match(pool)
        credited = replace(entry(match_id), touched=(Touched(incident, Effect.CREDITED, 5),))
        await journal.append(credited)
        await journal.append(credited)
        assert await pool.fetchval("select credited_ns from incident_match") == 5


async def test_another_ruling_under_the_same_revision_is_not_taken_for_ours(database_url: str) -> None:
    """What a later owner wrote is not our success."""
    async with journal_on(database_url) as (journal, pool):
        match_id = await new_match(pool)
        await journal.append(entry(match_id))
        other = replace(entry(match_id), events='[{"event": "other"}]', request_id="another")
        with pytest.raises(FencedError):
            await journal.append(other)


async def test_a_lost_connection_only_delays(database_url: str) -> None:
    """Every connection is cut while rulings wait: all are stored, each once."""
    async with journal_on(database_url) as (journal, pool):
        ids = [await new_match(pool) for _ in range(30)]
        admin = await asyncpg.connect(database_url)

        async def cut() -> None:
            for _ in range(5):
                await admin.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where application_name = 'test' and pid <> pg_backend_pid()"
                )

        async def play(match_id: str) -> None:
            for revision in range(1, 11):
                await journal.append(entry(match_id, revision))

        try:
            await asyncio.gather(cut(), *(play(match_id) for match_id in ids))
            rows = await admin.fetchval("select count(*) from match_log")
        finally:
            await admin.close()
    assert rows == 300


def ending(evidence: Evidence | None, cause: str = "time") -> Ending:
    """North loses on time."""
    return Ending("south", cause, "", 150, 150, evidence)


def proof() -> Evidence:
    """Evidence of a timeout."""
    return Evidence(str(uuid.uuid4()), "timeout", ENGINE, "incarnation", "v1", "{}")


async def test_an_outcome_frees_its_players_and_comes_with_its_evidence(database_url: str) -> None:
    """Outcome, evidence, final event and the end of the live seats are one transaction."""
    async with journal_on(database_url) as (journal, pool):
        match_id = await new_match(pool)
        assert await count(pool, "live_seat", match_id) == 2
        await journal.append(replace(entry(match_id), ending=ending(proof())))
        assert await count(pool, "live_seat", match_id) == 0
        assert await count(pool, "clock_evidence", match_id) == 1
        assert await count(pool, "match_outcome", match_id) == 1
        assert await ownership.get_owner(pool, match_id) is None


async def test_a_crowd_of_endings_is_one_trip_to_the_database(database_url: str) -> None:
    """Many matches lost in the same moment do not make each other late."""
    said: list[str] = []
    async with journal_on(database_url, size=1) as (journal, pool):
        ended = [replace(entry(await new_match(pool)), ending=ending(proof())) for _ in range(20)]
        async with pool.acquire() as connection:
            connection.add_query_logger(lambda query: said.append(query.query))
        await asyncio.gather(*(journal.append(each) for each in ended))
        # Not what asyncpg asks to learn the types, nor what it says when a connection goes back to the pool.
        trips = [
            query for query in said if "match_log" in query or "match_outcome" in query or "BEGIN" in query
        ]
        assert len(trips) == 1
        ids = [each.match_id for each in ended]
        rows = await pool.fetch(
            """
            select m.match_id, o.evidence_id = e.evidence_id as proven, o.xmin = l.xmin as together, w.released_at,
                   (select count(*) from live_seat s where s.match_id = m.match_id) as seats
            from match m join match_outcome o using (match_id) join clock_evidence e using (match_id)
            join match_log l using (match_id) join match_owner w using (match_id)
            """
        )
    assert set(ids) == {str(row["match_id"]) for row in rows}
    assert all(row["proven"] and row["together"] and row["released_at"] and not row["seats"] for row in rows)


async def test_what_rulings_rest_on_comes_with_them_in_one_trip(database_url: str) -> None:
    """After a stall every ruling is credited; some end their matches. An incident that credits a match twice adds up."""
    said: list[str] = []
    stall, other = (Incident.lasting(Kind.STALL, f"game/{ENGINE}", size, "v1") for size in (5, 6))
    touched = (
        Touched(stall, Effect.CREDITED, 5),
        Touched(other, Effect.CREDITED, 6),
        Touched(stall, Effect.CONTINUED, 1),
    )
    async with journal_on(database_url, size=1) as (journal, pool):
        rulings = [replace(entry(await new_match(pool)), touched=touched) for _ in range(20)]
        rulings.append(replace(entry(await new_match(pool)), ending=ending(proof())))
        lost = await new_match(pool)
        await pool.execute("update match_owner set fence = 2 where match_id = $1", uuid.UUID(lost))
        async with pool.acquire() as connection:
            connection.add_query_logger(lambda query: said.append(query.query))
        late = journal.append(replace(entry(lost), touched=touched))
        await asyncio.gather(*(journal.append(each) for each in rulings))
        with pytest.raises(FencedError):
            await late
        assert len([query for query in said if "insert into" in query or "BEGIN" in query]) == 1
        rows = await pool.fetch(
            """
            select m.match_id, sum(x.credited_ns) as credited, array_agg(effect) as effects
            from match m join match_log l using (match_id) join incident_match x using (match_id) group by 1
            """
        )
        assert await pool.fetchval("select count(*) from incident") == 2
        assert await count(pool, "incident_match", lost) == 0
        assert await count(pool, "match_outcome", rulings[-1].match_id) == 1
    assert {str(row["match_id"]) for row in rows} == {each.match_id for each in rulings[:-1]}
    assert all((row["credited"], row["effects"]) == (12, ["credited"] * 2) for row in rows)


async def test_a_zombie_ends_nothing(database_url: str) -> None:
    """What would come with a ruling of somebody who is not the owner any more does not come either."""
    async with journal_on(database_url) as (journal, pool):
        match_id, mine = await new_match(pool), await new_match(pool)
        await ownership.take_up_own(pool, ENGINE, 0)
        lost = journal.append(replace(entry(match_id, fence=1), ending=ending(proof())))
        stored = journal.append(replace(entry(mine, fence=2), ending=ending(proof())))
        await stored
        with pytest.raises(FencedError):
            await lost
        for table in ("match_outcome", "clock_evidence"):
            assert (await count(pool, table, match_id), await count(pool, table, mine)) == (0, 1)
        assert await count(pool, "live_seat", match_id) == 2
        owner = await ownership.get_owner(pool, match_id)
        assert owner is not None


@pytest.mark.parametrize("credited", [True, False], ids=["credits", "ends"])
async def test_what_waited_under_the_fence_of_before_is_not_stored_with_the_ruling_after_it(
    database_url: str, *, credited: bool
) -> None:
    """The database was away, so that both wait for it together: the older one is lost with all that came with it."""
    incident = Incident.lasting(Kind.STALL, f"game/{ENGINE}", 5, "v1")
    touched = (Touched(incident, Effect.CREDITED, 5),) if credited else ()
    async with journal_on(database_url) as (journal, pool):
        match_id = await new_match(pool)
        await ownership.take_up_own(pool, ENGINE, 0)
        late = journal.append(replace(entry(match_id, fence=1), ending=ending(proof()), touched=touched))
        good = journal.append(entry(match_id, fence=2))
        with pytest.raises(FencedError):
            await late
        await good
        assert await pool.fetchval("select fence from match_log") == 2
        for table in ("match_outcome", "clock_evidence", "incident_match"):
            assert await count(pool, table, match_id) == 0
        assert await count(pool, "live_seat", match_id) == 2
        assert await ownership.get_owner(pool, match_id) is not None


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "alone"])
async def test_an_end_from_before_does_not_replace_the_one_in_the_log(
    database_url: str, *, declared: bool
) -> None:
    """Lost on time just as the database went away, void under the next fence when it is back: nobody has won."""
    incident = Incident.lasting(Kind.OPERATOR, "operator/somebody", 5, "v1")
    touched = (Touched(incident, Effect.VOID),) if declared else ()
    async with journal_on(database_url) as (journal, pool):
        match_id = await new_match(pool)
        await ownership.take_up_own(pool, ENGINE, 0)
        lost = journal.append(replace(entry(match_id, fence=1), ending=ending(proof())))
        void = replace(ending(replace(proof(), kind="void"), "void"), winner=None, detail="operator")
        stored = journal.append(replace(entry(match_id, fence=2), ending=void, touched=touched))
        came_of = await asyncio.gather(lost, stored, return_exceptions=True)
        outcome = await pool.fetchrow("select winner, cause, fence from match_outcome")
        assert tuple(outcome or ()) == (None, "void", 2)
        assert await pool.fetchval("select array_agg(kind) from clock_evidence") == ["void"]
        assert await pool.fetchval("select array_agg(fence) from match_log") == [2]
    assert [type(each) for each in came_of] == [FencedError, type(None)]


async def test_there_is_no_forfeit_without_evidence(database_url: str) -> None:
    """The database refuses an outcome on time that rests on nothing; nothing of the ruling is stored."""
    async with journal_on(database_url) as (journal, pool):
        match_id = await new_match(pool)
        with pytest.raises(asyncpg.CheckViolationError):
            await journal.append(replace(entry(match_id), ending=ending(None)))
        assert await count(pool, "match_log", match_id) == 0
        assert await count(pool, "match_outcome", match_id) == 0


async def test_a_player_has_one_live_match(database_url: str) -> None:
    """The primary key of live_seat is the rule, also for two creations at once."""
    async with journal_on(database_url) as (_, pool):
        results = await asyncio.gather(
            *(new_match(pool, players=("anna", f"other-{number}")) for number in range(6)),
            return_exceptions=True,
        )
        made = [result for result in results if isinstance(result, str)]
        refused = [result for result in results if isinstance(result, matches.PlayerBusyError)]
        assert len(made) == 1
        assert len(refused) == 5
        assert await pool.fetchval("select count(*) from match") == 1
