"""Who does not come to a match waits for the next one, and nobody is blamed for what the service did."""

from __future__ import annotations

import asyncio
import json
import uuid
from datetime import datetime, timedelta
from typing import Any

import grpc
import pytest

from services.storage import noshows, seeks
from services.storage.matches import PlayerRow
from services.storage.noshows import Cooling
from services.storage.seeks import Created, LiveMatch, Opened, Place
from tests.services.matchmaking.house import House, end_match, eventually, reason, retry_seconds

ANN = PlayerRow("player-ann", "ann", bot=False)
BEN = PlayerRow("player-ben", "ben", bot=False)


async def cancelled_match(
    house: House, *absent: PlayerRow, ago: timedelta = timedelta(), engine: str = "game-1"
) -> str:
    """A match of ann and ben that lasted a minute and was cancelled `ago`, because of those who were absent."""
    match_id = str(uuid.uuid4())
    async with house.pool.acquire() as connection, connection.transaction():
        places = []
        for player in (ANN, BEN):
            await connection.execute(
                "insert into player (player_id, name) values ($1, $2) on conflict do nothing",
                player.player_id,
                player.name,
            )
            place = Place(player.player_id, uuid.uuid4())
            await connection.execute(
                "insert into seek (player_id, seek_id, pool) values ($1, $2, 'rated')",
                place.player_id,
                place.seek_id,
            )
            places.append(place)
        made = await seeks.create_match(connection, match_id, "rated", places[0], places[1], engine)
        assert made == Created()
        await end_match(connection, match_id, None, "cancelled")
        await connection.execute(
            "update match set created_at = clock_timestamp() - $2::interval where match_id = $1",
            uuid.UUID(match_id),
            ago + timedelta(minutes=1),
        )
        await connection.executemany(
            "insert into no_show (match_id, player_id, at) values ($1, $2, clock_timestamp() - $3::interval)",
            [(uuid.UUID(match_id), player.player_id, ago) for player in absent],
        )
    return match_id


async def sought(house: House, player: PlayerRow) -> Any:
    """What becomes of a seek."""
    async with house.pool.acquire() as connection:
        return await seeks.open_seek(connection, player, uuid.uuid4(), "rated", str(uuid.uuid4()))


async def test_a_player_who_did_not_come_is_told_how_long_to_wait_and_why(house: House) -> None:
    await house.start()
    match_id = await cancelled_match(house, ANN)
    with pytest.raises(grpc.RpcError) as error:
        await house.player("ann").seek().matched()
    code, why, metadata = reason(error.value)
    assert (code, why) == (grpc.StatusCode.FAILED_PRECONDITION, "SEEK_COOLDOWN")
    assert (metadata["match_id"], metadata["no_shows"]) == (match_id, "1")
    ended = await house.pool.fetchval("select at from no_show")
    until = datetime.fromisoformat(metadata["until"])
    assert abs(until - (ended + timedelta(seconds=30))) < timedelta(milliseconds=1)
    seconds = retry_seconds(error.value)
    assert seconds is not None
    assert 0 < seconds < 30
    assert await house.pool.fetchval("select count(*) from seek") == 0
    # The one who pressed Start and waited in vain is free.
    await house.player("ben").seek().is_waiting()


async def test_the_cooldown_ends_by_itself(house: House) -> None:
    await cancelled_match(house, ANN, ago=timedelta(seconds=10))
    cooling = await sought(house, ANN)
    assert isinstance(cooling, Cooling)
    assert cooling.wait < timedelta(seconds=20)
    await house.pool.execute("update no_show set at = at - interval '20 s'")
    assert isinstance(await sought(house, ANN), Opened)


async def test_it_grows_with_repeats_and_is_forgiven_after_a_day(house: House) -> None:
    for hours, expected in ((23, None), (22, None), (0, 120), (0, 240), (0, 480), (0, 900), (0, 900)):
        await cancelled_match(house, ANN, ago=timedelta(hours=hours))
        cooling = await sought(house, ANN)
        if expected is None:
            assert isinstance(cooling, Opened), "that long ago"
            await house.pool.execute("delete from seek")
        else:
            assert isinstance(cooling, Cooling)
            last = await house.pool.fetchval("select max(at) from no_show")
            assert cooling.until - last == timedelta(seconds=expected)
    cooling = await sought(house, ANN)
    assert cooling.no_shows == 7
    await house.pool.execute(
        "update no_show set at = at - interval '1 day' where at < now() - interval '1 hour'"
    )
    cooling = await sought(house, ANN)
    assert cooling.no_shows == 5
    await house.pool.execute("update no_show set at = at - interval '1 day'")
    assert isinstance(await sought(house, ANN), Opened)


async def test_a_player_in_a_live_match_gets_it_and_no_cooldown(house: House) -> None:
    await cancelled_match(house, ANN)
    live = str(uuid.uuid4())
    async with house.pool.acquire() as connection:
        await connection.execute(
            """
            insert into match (match_id, mode, rated, north, south, bank_ns, delay_ns, start_limit_ns,
                               continue_limit_ns)
            values ($1, 'created', false, 'player-ann', 'player-ben', 1, 1, 1, 1)
            """,
            uuid.UUID(live),
        )
        await connection.execute("insert into live_seat values ('player-ann', $1)", uuid.UUID(live))
    found = await sought(house, ANN)
    assert isinstance(found, LiveMatch)
    assert found.match_id == live


async def test_a_seek_while_the_no_show_is_being_recorded_does_not_get_past_it(house: House) -> None:
    """A match is cancelled and blames ann just while her seek is being opened: she is told of the match, or to wait."""
    match_id = uuid.UUID(await cancelled_match(house, ago=timedelta(minutes=5)))
    await house.pool.execute("insert into live_seat values ('player-ann', $1)", match_id)
    async with house.pool.acquire() as other:
        # Another opening of the same player holds this one up after it has looked for a cooldown.
        opening = other.transaction()
        await opening.start()
        await other.execute(
            "insert into seek (player_id, seek_id, pool) values ('player-ann', $1, 'rated')", uuid.uuid4()
        )
        seeking = asyncio.create_task(sought(house, ANN))

        async def is_held_up() -> bool:
            return seeking.done() or await house.pool.fetchval(
                "select exists (select from pg_locks where not granted)"
            )

        await eventually(is_held_up)
        async with house.pool.acquire() as writer, writer.transaction():
            await writer.execute(
                "insert into no_show (match_id, player_id) values ($1, 'player-ann')", match_id
            )
            await writer.execute("delete from live_seat")
        await opening.rollback()
        assert isinstance(await seeking, LiveMatch | Cooling)
    assert isinstance(await sought(house, ANN), Cooling)


async def test_a_thousand_no_shows_are_not_all_looked_at(house: House) -> None:
    for _ in range(noshows.NO_SHOWS_MAX + 5):
        await cancelled_match(house, ANN)
    cooling = await sought(house, ANN)
    assert isinstance(cooling, Cooling)
    assert cooling.no_shows == noshows.NO_SHOWS_MAX


Row = tuple[str, str | None, timedelta, timedelta | None, str]


def incident(
    kind: str, *, engine: str | None = None, ago: float = 50, lasted: float | None = 10, **detail: Any
) -> Row:
    """An incident that began so many seconds ago; it lasts still when no length is given."""
    length = None if lasted is None else timedelta(seconds=lasted)
    return kind, engine, timedelta(seconds=ago), length, json.dumps(detail)


async def declare(house: House, row: Row) -> uuid.UUID:
    """Store an incident."""
    incident_id = uuid.uuid4()
    await house.pool.execute(
        """
        insert into incident (incident_id, kind, noticed_by, engine_id, began_at, ended_at, policy_version, detail)
        values ($1, $2, 'test', $3, clock_timestamp() - $4::interval, clock_timestamp() - $4::interval + $5::interval,
                'test', $6)
        """,
        incident_id,
        *row,
    )
    return incident_id


@pytest.mark.parametrize(
    ("what", "row", "excuses"),
    [
        ("its process", incident("stall", engine="game-1"), True),
        ("its process, for a moment", incident("stall", engine="game-1", lasted=0.9), False),
        ("its process, still", incident("clock_lost", engine="game-1", lasted=None), True),
        ("another process", incident("stall", engine="game-2"), False),
        ("another process's clock", incident("clock_lost", engine="game-2"), False),
        ("the database, as another process saw it", incident("commit_stalled", engine="game-2"), True),
        ("the network of another process's players", incident("mass_disconnect", engine="game-2"), True),
        ("matchmaking", incident("takeover"), True),
        ("all", incident("operator", scope="all"), True),
        ("all, before the match", incident("operator", scope="all", ago=90, lasted=20), False),
        ("all, at its beginning", incident("operator", scope="all", ago=90, lasted=40), True),
        ("all, after its end", incident("operator", scope="all", ago=-10), False),
        ("its process, declared", incident("operator", engine="game-1", scope="engine"), True),
        ("another process, declared", incident("operator", engine="game-2", scope="engine"), False),
        (
            "other matches, declared",
            incident("operator", scope="matches", matches=[str(uuid.uuid4())]),
            False,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_excuses_a_no_show(house: House, what: str, row: Row, excuses: bool) -> None:
    """The match lived for the last minute on game-1. The incident becomes known afterwards."""
    await cancelled_match(house, ANN)
    assert isinstance(await sought(house, ANN), Cooling)
    await declare(house, row)
    assert isinstance(await sought(house, ANN), Opened if excuses else Cooling), what


async def test_an_incident_that_touched_the_match_excuses_whenever_it_was(house: House) -> None:
    match_id = await cancelled_match(house, ANN)
    incident_id = await declare(house, incident("handoff", engine="game-2", ago=3600))
    assert isinstance(await sought(house, ANN), Cooling)
    await house.pool.execute(
        "insert into incident_match (incident_id, match_id, effect) values ($1, $2, 'continued')",
        incident_id,
        uuid.UUID(match_id),
    )
    assert isinstance(await sought(house, ANN), Opened)


async def test_a_declaration_that_names_the_match_excuses(house: House) -> None:
    match_id = await cancelled_match(house, ANN)
    await declare(house, incident("operator", scope="matches", matches=[match_id]))
    assert isinstance(await sought(house, ANN), Opened)


@pytest.mark.parametrize(
    ("seen", "left", "had"),
    [(4, None, False), (6, None, True), (3600, 4, False), (3600, 6, True)],
    ids=["leads", "is gone", "left just now", "left"],
)
async def test_that_nobody_leads_now_counts_before_it_is_written_down(
    house: House, seen: int, left: int | None, had: bool
) -> None:
    match_id = uuid.UUID(await cancelled_match(house))
    await house.pool.execute(
        """
        insert into lead (leader_id, renewed_at, left_at)
        values (gen_random_uuid(), clock_timestamp() - $1::interval, clock_timestamp() - $2::interval)
        """,
        timedelta(seconds=seen),
        None if left is None else timedelta(seconds=left),
    )
    ask = "select match_had_incident($1, clock_timestamp() - $2::interval)"
    assert await house.pool.fetchval(ask, match_id, timedelta()) is had
    # What was longer ago is a matter of incidents.
    assert not await house.pool.fetchval(ask, match_id, timedelta(hours=2))


async def test_an_incident_excuses_only_for_its_match(house: House) -> None:
    """Two no-shows, one of them ours: the other counts once."""
    await cancelled_match(house, ANN, engine="game-2")
    await cancelled_match(house, ANN, engine="game-1")
    await declare(house, incident("stall", engine="game-2"))
    cooling = await sought(house, ANN)
    assert isinstance(cooling, Cooling)
    assert cooling.no_shows == 1


async def test_the_rest_of_the_queue_is_not_held_up(open_house: House) -> None:
    await cancelled_match(open_house, ANN)
    refused, matches = await asyncio.gather(
        open_house.player("ann").seek().failed(),
        asyncio.gather(*(open_house.player(name).seek().matched() for name in ("carl", "dora"))),
    )
    assert refused[1] == "SEEK_COOLDOWN"
    assert {match.opponent.name for match in matches} == {"carl", "dora"}
