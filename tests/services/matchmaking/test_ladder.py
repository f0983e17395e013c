"""The ladder: every finished match is decided exactly once, and what is asked is answered the same twice."""

from __future__ import annotations

import asyncio
import uuid
from itertools import pairwise
from typing import Any

import asyncpg
import grpc
import pytest
from prometheus_client import CollectorRegistry

from matchmaker.ladder import Action, Result
from matchmaker.rating import MODEL_VERSION, NEW, Rating, UnknownWinnerError, rate
from services.matchmaking.ladder import LadderWorker
from services.matchmaking.metrics import RatingMetrics
from services.storage import ladder, seeks
from services.storage.declarations import Consequence, Declaration, Scope, ScopeKind, declare
from services.storage.matches import PlayerRow
from services.storage.refold import Ended
from services.storage.rulings import Ruling, make_ruling
from services.storage.seeks import Created, Opened, Place
from spectacularbid.ladder.v1 import ladder_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.services.matchmaking.house import House, Player, eventually, reason

COUNTED = "spectacular_bid_rating_decisions_total"


async def new_match(house: House, north: str, south: str, pool: seeks.PoolName = "rated") -> str:
    """A match of two players, made the way matchmaking makes it."""
    match_id = str(uuid.uuid4())
    async with house.pool.acquire() as connection:
        places = []
        for name in (north, south):
            player = PlayerRow(f"player-{name}", name, bot=False)
            seek_id = uuid.uuid4()
            assert isinstance(await seeks.open_seek(connection, player, seek_id, pool, str(seek_id)), Opened)
            places.append(Place(player.player_id, seek_id))
        made = await seeks.create_match(connection, match_id, pool, places[0], places[1], "game-1")
    assert made == Created()
    return match_id


async def ended_match(
    house: House,
    north: str,
    south: str,
    winner: str | None = "north",
    cause: str = "resignation",
    pool: seeks.PoolName = "rated",
) -> str:
    match_id = await new_match(house, north, south, pool)
    await house.finish(match_id, winner, cause)
    return match_id


def worker(house: House) -> tuple[LadderWorker, CollectorRegistry]:
    registry = CollectorRegistry()
    return LadderWorker(house.pool, RatingMetrics(registry)), registry


async def everything(house: House) -> list[Any]:
    """All ratings, byte for byte."""
    return [tuple(row) for row in await house.pool.fetch("select * from rating order by player_id")]


async def decided(house: House, *match_ids: str) -> None:
    async def done() -> bool:
        count = await house.pool.fetchval(
            "select count(*) from rating_decision where match_id = any($1::uuid[])",
            [uuid.UUID(match_id) for match_id in match_ids],
        )
        return bool(count == len(match_ids))

    await eventually(done)


async def decision(player: Player, match_id: str) -> pb.RatingDecision:
    request = pb.GetRatingDecisionRequest(match_id=match_id)
    return (await player.ladder.GetRatingDecision(request, metadata=player.metadata)).decision


async def standing(player: Player, player_id: str = "") -> pb.Standing:
    request = pb.GetPlayerRequest(player_id=player_id)
    return (await player.ladder.GetPlayer(request, metadata=player.metadata)).standing


async def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as error:
        await call
    return reason(error.value)[:2]


async def test_a_result_becomes_two_new_ratings_and_a_decision_that_says_why(open_house: House) -> None:
    ann, ben = open_house.player("ann"), open_house.player("ben")
    assert (await standing(ann)).rank == 0
    match, _ = await asyncio.gather(ann.seek().matched(), ben.seek().matched())
    assert await refused(decision(ann, match.match_id)) == (grpc.StatusCode.FAILED_PRECONDITION, "MATCH_LIVE")

    ann_is_north = match.seat == table_pb2.SEAT_NORTH
    await open_house.finish(match.match_id, "north" if ann_is_north else "south")
    await decided(open_house, match.match_id)

    made = await decision(ben, match.match_id)
    assert (made.rated, made.reason, made.model_version) == (True, "rated", MODEL_VERSION)
    won, lost = (made.north_after, made.south_after) if ann_is_north else (made.south_after, made.north_after)
    assert (made.north_before.mu, made.south_before.sigma) == (1500, 350)
    assert won.mu - 1500 == pytest.approx(1500 - lost.mu, abs=1e-9)

    winner, loser = await standing(ann), await standing(ann, ben.player_id)
    assert (winner.rank, winner.rated_matches, winner.wins, winner.rating.mu) == (1, 1, 1, won.mu)
    assert (loser.rank, loser.rated_matches, loser.wins, loser.rating.sigma) == (2, 1, 0, lost.sigma)
    assert winner.shown_rating == int(won.mu - 2 * won.sigma)

    history = await ann.ladder.ListMatches(pb.ListMatchesRequest(), metadata=ann.metadata)
    (entry,) = history.matches
    assert entry.match_id == match.match_id
    assert entry.outcome.cause == table_pb2.CAUSE_RESIGNATION
    assert entry.outcome.winner == match.seat
    assert (entry.balances.north, entry.balances.south) == (150, 150)
    assert entry.decision == made
    assert {entry.north.name, entry.south.name} == {"ann", "ben"}


@pytest.mark.parametrize(
    ("cause", "winner", "pool", "why"),
    [
        ("void", None, "rated", "void"),
        ("cancelled", None, "rated", "cancelled"),
        ("balance", "south", "casual", "unrated_mode"),
        ("void", None, "casual", "unrated_mode"),
    ],
)
async def test_fc_15_what_does_not_count_changes_nothing(
    house: House, cause: str, winner: str | None, pool: seeks.PoolName, why: str
) -> None:
    """FC-15: the ladder is as before, byte for byte, and the decision says why."""
    decide, _ = worker(house)
    await ended_match(house, "ann", "ben")
    await decide.look()
    before = await everything(house)
    match_id = await ended_match(house, "ann", "ben", winner, cause, pool)
    await decide.look()
    assert await everything(house) == before
    async with house.pool.acquire() as connection:
        made = await ladder.find_decision(connection, uuid.UUID(match_id))
    assert made is not None
    assert (made.rated, made.reason, made.north, made.south) == (False, why, None, None)


async def test_fc_44_an_end_that_is_reported_three_times_is_rated_once(open_house: House) -> None:
    """FC-44: by any number of notices; the database takes the outcome once."""
    match_id = await ended_match(open_house, "ann", "ben")
    for _ in range(3):
        await open_house.pool.execute("select pg_notify('match_outcome', $1)", match_id)
    with pytest.raises(asyncpg.UniqueViolationError):
        await open_house.finish(match_id, "north")
    await decided(open_house, match_id)
    for _ in range(3):
        await open_house.pool.execute("select pg_notify('match_outcome', $1)", match_id)
    # The next decision is made behind everything that was heard before.
    await decided(open_house, await ended_match(open_house, "carl", "dora"))
    assert await open_house.pool.fetchval("select count(*) from rating_decision") == 2
    assert [row[4:6] for row in await everything(open_house)] == [(1, 1), (1, 0), (1, 1), (1, 0)]


async def test_fc_44_three_workers_at_once_decide_each_match_once_and_in_order(house: House) -> None:
    """FC-44: every player's ratings are the fold of her matches in the order in which they ended."""
    names = ["ann", "ben", "carl", "dora"]
    expected = dict.fromkeys((f"player-{name}" for name in names), NEW)
    matches: list[str] = []
    for turn in range(24):
        north, south = names[turn % 4], names[(turn + 1 + turn // 8) % 4]
        winner = ("north", "south")[turn % 3 % 2]
        matches.append(await ended_match(house, north, south, winner))
        pair = {seat: expected[f"player-{name}"] for seat, name in (("north", north), ("south", south))}
        after = rate(pair, winner)
        expected |= {f"player-{north}": after["north"], f"player-{south}": after["south"]}

    workers = [worker(house) for _ in range(3)]
    await asyncio.gather(*(look.look() for look, _ in workers))

    ratings = await house.pool.fetch("select player_id, mu, sigma from rating")
    assert {row["player_id"]: Rating(row["mu"], row["sigma"]) for row in ratings} == expected
    rows = await house.pool.fetch("select match_id::text from rating_decision order by decided_no")
    assert sorted(row["match_id"] for row in rows) == sorted(matches)
    counted = [registry.get_sample_value(COUNTED, {"reason": "rated"}) or 0 for _, registry in workers]
    assert sum(counted) == len(matches)


async def test_each_decision_begins_where_the_players_last_one_ended(house: House) -> None:
    for _ in range(6):
        await ended_match(house, "ann", "ben")
    decide, _ = worker(house)
    await decide.look()
    rows = await house.pool.fetch(
        "select north_mu_before, north_mu_after from rating_decision d join match_outcome using (match_id)"
        " order by ended_no"
    )
    assert len(rows) == 6
    assert all(one["north_mu_after"] == other["north_mu_before"] for one, other in pairwise(rows))


WAIT_HERE = """
create function wait_here() returns trigger language plpgsql as
$$ begin perform pg_advisory_xact_lock(44); return new; end $$;
create {trigger}
for each row {when} execute function wait_here();
"""
FIRST, SECOND = ("when (new.player_id = 'player-ann')", "when (new.player_id = 'player-ben')")


@pytest.mark.parametrize(
    ("trigger", "when"),
    [
        ("trigger t before insert on rating_decision", ""),
        ("trigger t after insert on rating_decision", ""),
        ("trigger t before update on rating", FIRST),
        ("trigger t before update on rating", SECOND),
        ("trigger t after update on rating", SECOND),
        ("constraint trigger t after insert on rating_decision deferrable initially deferred", ""),
    ],
    ids=["decision", "decision stored", "first rating", "second rating", "both ratings stored", "commit"],
)
async def test_fc_44_a_worker_that_is_killed_at_any_statement_decides_nothing_by_halves(
    house: House, trigger: str, when: str
) -> None:
    """FC-44: a trigger holds the process at one statement; there it is killed, and another finishes the work."""
    await ended_match(house, "ann", "ben")
    decide, _ = worker(house)
    await decide.look()
    before = await everything(house)
    await house.pool.execute(WAIT_HERE.format(trigger=trigger, when=when))
    victim = await house.start()
    async with house.pool.acquire() as connection, connection.transaction():
        await connection.execute("select pg_advisory_xact_lock(44)")
        match_id = await ended_match(house, "ann", "ben", "south")

        async def stuck() -> bool:
            waiting = "select exists (select from pg_locks where locktype = 'advisory' and not granted)"
            return bool(await connection.fetchval(waiting))

        await eventually(stuck)
        victim.kill()
        assert await everything(house) == before
    await house.start("matchmaking-2")
    await decided(house, match_id)
    assert await house.pool.fetchval("select count(*) from rating_decision") == 2
    assert [row[4:6] for row in await everything(house)] == [(2, 1), (2, 1)]


async def test_a_declared_hold_is_a_decision_that_players_can_read_until_it_is_released(
    open_house: House,
) -> None:
    """The process holds by itself what ends in the window; a ruling changes the decision, and says who it rests on."""
    ann, pool = open_house.player("ann"), open_house.pool
    now = await pool.fetchval("select clock_timestamp()")
    declaration = Declaration("ada", "packets were lost", Scope(ScopeKind.ALL), Consequence.HOLD, now, None)
    async with pool.acquire() as connection:
        await declare(connection, declaration, "v1")
    match_id = await ended_match(open_house, "ann", "ben")
    await decided(open_house, match_id)
    made = await decision(ann, match_id)
    assert (made.rated, made.reason, made.revision) == (False, "held", 1)
    assert (made.incident_id, made.explanation) == (declaration.incident_id, "packets were lost")
    assert (await standing(ann)).rank == 0

    async with pool.acquire() as connection:
        ruling = Ruling("ada", "nothing was wrong with this one", action=Action.RELEASE)
        await make_ruling(connection, ruling, [uuid.UUID(match_id)])
    made = await decision(ann, match_id)
    assert (made.rated, made.reason, made.revision) == (True, "rated", 2)
    assert (made.incident_id, made.explanation) == ("", "nothing was wrong with this one")
    assert (await standing(ann)).wins == 1
    (entry,) = (await ann.ladder.ListMatches(pb.ListMatchesRequest(), metadata=ann.metadata)).matches
    assert entry.decision == made


async def test_fc_48_an_outcome_that_makes_no_sense_is_refused_and_never_a_tie(house: House) -> None:
    """FC-48: outcomes come through the database and in no other way. A constraint refuses the row, the pure function the
    winner, and a row that came all the same is counted and left alone."""
    senseless = await new_match(house, "ann", "ben")
    for winner in ("", "0", "99", "player-ann"):
        with pytest.raises(asyncpg.CheckViolationError):
            await house.finish(senseless, winner)
        async with house.pool.acquire() as connection:
            result = Result(True, "player-ann", "player-ben", winner, "time")
            with pytest.raises(UnknownWinnerError):
                await ladder.decide(connection, Ended(uuid.UUID(senseless), 1, result))
    assert await everything(house) == []

    # The database lets no such row in. Should one come all the same, it stops nobody else.
    await house.pool.execute("alter table match_outcome drop constraint match_outcome_winner")
    await house.finish(senseless, None, "balance")
    good = await ended_match(house, "carl", "dora")
    decide, registry = worker(house)
    await decide.look()
    assert registry.get_sample_value("spectacular_bid_rating_refused_total") == 1
    assert registry.get_sample_value(COUNTED, {"reason": "rated"}) == 1
    assert await house.pool.fetchval("select match_id::text from rating_decision") == good


async def seed(house: House, **shown: int) -> None:
    for name, points in shown.items():
        await house.pool.execute(
            "insert into player (player_id, name) values ($1, $2)", f"player-{name}", name
        )
        await house.pool.execute(
            "insert into rating values ($1, $2, 50, $3, 3, 1)", f"player-{name}", points + 100.0, points
        )


async def pages(player: Player, size: int) -> list[tuple[int, str]]:
    token, found = "", []
    while True:
        page = await player.ladder.GetLeaderboard(
            pb.GetLeaderboardRequest(page_size=size, page_token=token), metadata=player.metadata
        )
        assert len(page.standings) <= size
        found += [(entry.rank, entry.player.name) for entry in page.standings]
        token = page.next_page_token
        if not token:
            return found


async def test_fc_50_equal_ratings_share_a_rank_on_every_page_size(house: House) -> None:
    await house.start()
    reader = house.player("reader")
    assert await pages(reader, 10) == []
    await seed(house, dora=1500, carl=1550, ben=1550, ann=1600)
    expected = [(1, "ann"), (2, "ben"), (2, "carl"), (4, "dora")]
    for size in (1, 2, 3, 4, 100):
        assert await pages(reader, size) == expected, size
        assert await pages(reader, size) == expected, "the order inside a tie is stable"
    for rank, name in expected:
        assert (await standing(reader, f"player-{name}")).rank == rank
    await seed(house, eve=1500, finn=1500, gus=-3)
    assert [rank for rank, _ in await pages(reader, 2)] == [1, 2, 2, 4, 4, 4, 7]


async def test_history_comes_in_pages_newest_first(house: House) -> None:
    await house.start()
    matches = [await ended_match(house, "ann", f"other{turn}") for turn in range(5)]
    await decided(house, *matches)
    reader = house.player("reader")
    token, found = "", []
    while True:
        request = pb.ListMatchesRequest(player_id="player-ann", page_size=2, page_token=token)
        page = await reader.ladder.ListMatches(request, metadata=reader.metadata)
        found += [entry.match_id for entry in page.matches]
        token = page.next_page_token
        if not token:
            break
    assert found == matches[::-1]
    mine = await reader.ladder.ListMatches(pb.ListMatchesRequest(), metadata=reader.metadata)
    assert not mine.matches


async def test_a_finished_match_whose_decision_is_not_made_yet_says_so(house: House) -> None:
    await house.start()
    reader = house.player("reader")
    async with house.pool.acquire() as connection, connection.transaction():
        await connection.execute("lock table rating_decision in exclusive mode")
        match_id = await ended_match(house, "ann", "ben")
        assert await refused(decision(reader, match_id)) == (grpc.StatusCode.NOT_FOUND, "NO_DECISION")
        request = pb.ListMatchesRequest(player_id="player-ann")
        (entry,) = (await reader.ladder.ListMatches(request, metadata=reader.metadata)).matches
        assert not entry.HasField("decision")
    await decided(house, match_id)
    assert (await decision(reader, match_id)).rated


async def test_questions_that_make_no_sense_are_refused(house: House) -> None:
    await house.start()
    me = house.player("me")
    malformed = (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED")
    stub, metadata = me.ladder, me.metadata
    for size in (-1, 101):
        request = pb.GetLeaderboardRequest(page_size=size)
        assert await refused(stub.GetLeaderboard(request, metadata=metadata)) == malformed
    results_token = "WyJyZXN1bHRzIiw1XQ"
    tokens = [
        "x",
        "e30",
        "é",
        "[]",
        "A" * 600,
        results_token,
        "WyJsYWRkZXIiLCJhIiwiYiJd",
        "WyJsYWRkZXIiLHRydWUsImIiXQ",
    ]
    for token in tokens:
        request = pb.GetLeaderboardRequest(page_token=token)
        assert await refused(stub.GetLeaderboard(request, metadata=metadata)) == malformed, token
    for token in ("x", "WyJyZXN1bHRzIiwtMV0", "WyJyZXN1bHRzIiw5ZTk5XQ"):
        listing = pb.ListMatchesRequest(page_token=token)
        assert await refused(stub.ListMatches(listing, metadata=metadata)) == malformed, token
    assert await refused(decision(me, "no-uuid")) == malformed
    missing = (grpc.StatusCode.NOT_FOUND, "MATCH_NOT_FOUND")
    assert await refused(decision(me, str(uuid.uuid4()))) == missing
    no_player = (grpc.StatusCode.NOT_FOUND, "PLAYER_NOT_FOUND")
    assert await refused(standing(me, "nobody")) == no_player
    listing = pb.ListMatchesRequest(player_id="nobody")
    assert await refused(stub.ListMatches(listing, metadata=metadata)) == no_player
