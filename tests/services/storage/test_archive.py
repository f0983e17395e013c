"""A log is in one of two places, whole and the same, whenever whoever moves it is stopped."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import asyncpg
import pytest

from services.storage import archiving, matches, standings, voids
from services.storage.archiving import ChangedError
from services.storage.entry import Entry
from services.storage.evidence import get_time_facts
from services.storage.incidents import Incident
from services.storage.matchlog import DamagedError, pack, unpack
from services.storage.mending import State, mend
from services.storage.pool import TRANSIENT, Connection
from tests.seats import eventually
from tests.services.storage.results import Fate, decide_all, mortal, put_result

EVENTS: Final[tuple[list[dict[str, Any]], ...]] = (
    [
        {"type": "round_dealt", "salt": "5a17", "north": ["0|0", "1|5"]},
        {"type": "points_moved", "points": 15},
    ],
    [{"type": "turn_timed", "charge_ns": 9_007_199_254_740_993, "note": 'é "quoted" \\ back'}],
    [{"type": "round_dealt"}, {"type": "match_ended", "winner": None}],
)


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Connection]:
    made = await asyncpg.connect(database_url)
    yield made
    await made.close()


async def put_log(connection: Connection, match_id: UUID) -> None:
    """Three rulings: by nobody, by a player on the clock with everything filled in, by a player without a clock."""
    judged: dict[str, Any] = dict.fromkeys(
        ("start_ns", "arrive_ns", "start_raw_ns", "read_raw_ns", "elapsed_ns", "consumed_ns", "charge_ns"),
        2**60,
    )
    judged |= {"turn": 7, "timeline_id": "t", "bank_after_ns": 0, "credited_ns": 5, "carried_ns": 1}
    judged |= {"clock_id": "c", "policy_version": "v1"}
    last = 0
    for number, events in enumerate(EVENTS, 1):
        row: dict[str, Any] = {"match_id": match_id, "revision": number, "first_sequence": last + 1}
        last += len(events)
        row |= {"last_sequence": last, "fence": 1, "events": json.dumps(events)}
        if number > 1:
            row |= {"seat": "north", "request_id": f"r{number}", "request_hash": bytes(range(number))}
        if number == 2:
            row |= judged
        places = ", ".join(f"${n}::jsonb" if name == "events" else f"${n}" for n, name in enumerate(row, 1))
        await connection.execute(
            f"insert into match_log ({', '.join(row)}) values ({places})",  # noqa: S608 - names of this test
            *row.values(),
        )


async def everything(connection: Connection, match_id: UUID) -> list[Any]:
    """All that is ever read of a log of a match that is over, through the functions that read it."""
    return [
        await matches.get_log(connection, str(match_id)),
        await get_time_facts(connection, str(match_id)),
        [result.length for result in await standings.results(connection, "ann", None, 10)],
        (await voids.get_void_facts(connection, datetime.now(UTC) - timedelta(days=1))).players,
    ]


@pytest.fixture
async def match_id(connection: Connection) -> UUID:
    made = (await put_result(connection, "ann", "ben")).match_id
    await put_log(connection, made)
    await decide_all(connection)
    return made


async def rows(connection: Connection) -> list[tuple[Any, ...]]:
    return [
        tuple(row) for row in await connection.fetch("select * from match_log order by match_id, revision")
    ]


async def test_a_log_that_was_moved_reads_as_before_and_comes_back_to_the_byte(
    connection: Connection, match_id: UUID
) -> None:
    stored, read = await rows(connection), await everything(connection, match_id)
    assert len(read[0]) == len(EVENTS)
    assert read[2][0].rounds == 2
    moved = await archiving.move(connection, match_id)
    assert moved is not None
    assert moved.rulings == len(EVENTS)
    assert await rows(connection) == []
    assert await everything(connection, match_id) == read
    assert await archiving.move(connection, match_id) is None
    assert await archiving.restore(connection, match_id) == len(EVENTS)
    assert await rows(connection) == stored
    assert await everything(connection, match_id) == read
    assert await connection.fetchval("select count(*) from match_archive") == 0


@pytest.mark.parametrize("unheard", [False, True])
async def test_whoever_dies_while_moving_loses_nothing(
    connection: Connection, match_id: UUID, database_url: str, unheard: bool
) -> None:
    """The connection ends at each statement in turn, or right after it: the log is whole in one of the two places."""
    read = await everything(connection, match_id)
    at = 0
    while True:
        at += 1
        dying = await mortal(Fate(database_url, at, unheard))
        try:
            await archiving.move(dying, match_id)
        except TRANSIENT:
            pass
        else:
            break
        finally:
            dying.terminate()
        kept, archived = (
            len(await rows(connection)),
            await connection.fetchval("select count(*) from match_archive"),
        )
        assert (kept, archived) in ((len(EVENTS), 0), (0, 1))
        assert await everything(connection, match_id) == read
        await archiving.restore(connection, match_id)
    # BEGIN, the rows, the archive, its reading back, their removal, COMMIT.
    assert at > 6
    assert await everything(connection, match_id) == read


async def test_only_logs_of_matches_that_have_long_been_over_are_moved(
    connection: Connection, match_id: UUID
) -> None:
    live = (await put_result(connection, "cas", "dan")).match_id
    await put_log(connection, live)
    await connection.execute("delete from match_outcome where match_id = $1", live)
    await connection.execute("update match_outcome set ended_at = ended_at - interval '31 days'")
    recent = (await put_result(connection, "eve", "fay")).match_id
    await put_log(connection, recent)
    assert [each.match_id for each in await archiving.candidates(connection, days=30, after=0, limit=9)] == [
        match_id
    ]
    every = await archiving.candidates(connection, days=0, after=0, limit=9)
    assert [each.match_id for each in every] == [match_id, recent]
    rest = await archiving.candidates(connection, days=0, after=every[0].ended_no, limit=9)
    assert [each.match_id for each in rest] == [recent]
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await archiving.move(connection, live)
    assert len(await rows(connection)) == 3 * len(EVENTS)


async def test_one_at_a_time_moves_logs(connection: Connection, database_url: str) -> None:
    other = await asyncpg.connect(database_url)
    assert await archiving.become_mover(other)
    assert not await archiving.become_mover(connection)
    await other.close()

    async def free() -> bool:
        return await archiving.become_mover(connection)

    await eventually(free)


async def test_what_cannot_be_kept_exactly_is_not_moved(
    connection: Connection, match_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column of a kind that the archive does not know; an archive that is not read back as it was meant."""
    before = await rows(connection)
    await connection.execute("alter table match_log add column shape point default point(1, 2)")
    with pytest.raises(TypeError, match="shape"):
        await archiving.move(connection, match_id)
    await connection.execute("alter table match_log drop column shape")
    await connection.reload_schema_state()
    monkeypatch.setattr(archiving, "pack", lambda log: pack([{**row, "fence": 2} for row in log]))
    with pytest.raises(ChangedError, match=str(match_id)):
        await archiving.move(connection, match_id)
    assert await rows(connection) == before
    assert await connection.fetchval("select count(*) from match_archive") == 0


async def test_a_log_that_was_moved_is_not_taken_for_lost(connection: Connection, match_id: UUID) -> None:
    """Its writer may still have rulings of it in memory when the database fails over."""
    kept = [
        Entry(str(match_id), number, 2 * number, 2 * number + 1, 1, json.dumps(events))
        for number, events in enumerate(EVENTS, 1)
    ]
    await archiving.move(connection, match_id)
    for some in (kept, kept[1:], []):
        found = await mend(connection, "game-1", str(match_id), 1, len(EVENTS), some, no_incident)
        assert found.state is State.WHOLE
    assert await rows(connection) == []


def no_incident(_match_id: str, why: str) -> Incident:
    raise AssertionError(why)


def test_an_archive_that_was_damaged_is_found() -> None:
    row = {"revision": 1, "events": "[]", "at": datetime.now(UTC), "request_hash": None}
    packed = pack([row])
    assert unpack(packed.data, packed.checksum, 1)[0] == row
    for data, rulings, why in (
        (packed.data[:-3], 1, "cannot be unpacked"),
        (zlib.compress(b'{"revision":2}\n'), 1, "checksum"),
        (packed.data, 2, "1 rulings instead of 2"),
    ):
        with pytest.raises(DamagedError, match=why):
            unpack(data, packed.checksum, rulings)


def test_no_other_module_reads_logs_of_matches_that_are_over() -> None:
    """Whoever asks match_log alone would miss what was moved. These write it, look for live matches or at both places."""
    asks = {
        path.name
        for path in Path(matches.__file__).parent.glob("*.py")
        if re.search(r"\b(from|join|into)\s+match_log\b", path.read_text("utf-8"))
    }
    assert asks <= {
        "archiving.py",
        "consistency.py",
        "incidents.py",
        "journal.py",
        "matchlog.py",
        "mending.py",
        "openings.py",
        "seeks.py",
    }
