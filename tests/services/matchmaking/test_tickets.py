"""What pairing is told about a player: strength, recent opponents, and the limits the player sets."""

from __future__ import annotations

import asyncio
import uuid
from datetime import timedelta
from typing import Any

import grpc
import pytest

from services.common.auth import HOUSE_BOTS
from services.common.errors import ServiceError
from services.storage.strengths import RECENT, RECENT_MATCHES, strength_of
from services.wire.matchmaking import BLOCKED_MAX, RATING_MAX, wanted_from_pb
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as pb
from tests.services.matchmaking.house import SECONDS_MAX, House, eventually, reason


async def met(
    house: House, other: str, mode: str = "casual", ago: timedelta = timedelta(), *, north: bool = True
) -> None:
    """ann played with another player, so long ago."""
    await house.pool.executemany(
        "insert into player (player_id, name) values ($1, $1) on conflict do nothing",
        [("player-ann",), (f"player-{other}",)],
    )
    seats = ("player-ann", f"player-{other}") if north else (f"player-{other}", "player-ann")
    await house.pool.execute(
        """
        insert into match (match_id, mode, rated, north, south, bank_ns, delay_ns, start_limit_ns, continue_limit_ns,
                           created_at)
        values ($1, $2, false, $3, $4, 1, 1, 1, 1, clock_timestamp() - $5::interval)
        """,
        uuid.uuid4(),
        mode,
        *seats,
        ago,
    )


async def test_recent_opponents_are_those_of_the_last_matches_of_the_last_hour(house: House) -> None:
    await met(house, "old", ago=RECENT)
    async with house.pool.acquire() as connection:
        assert (await strength_of(connection, "player-ann")).recent == set()
    for number in range(RECENT_MATCHES + 1):
        await met(house, f"p{number}", ago=timedelta(minutes=10 - number), north=number % 2 == 0)
    await met(house, "friend", mode="created")
    async with house.pool.acquire() as connection:
        strength = await strength_of(connection, "player-ann")
        assert strength.recent == {f"player-p{number}" for number in range(1, RECENT_MATCHES + 1)}
        assert (strength.rating.mu, strength.rating.sigma, strength.shown) == (1500, 350, 0)
        await connection.execute("insert into rating values ('player-ann', 1700, 60, 1580, 9, 9)")
        strength = await strength_of(connection, "player-ann")
        assert (strength.rating.mu, strength.rating.sigma, strength.shown) == (1700, 60, 1580)


@pytest.mark.parametrize(
    ("field", "request_fields"),
    [
        ("lowest_rating", {"lowest_rating": -RATING_MAX - 1}),
        ("highest_rating", {"highest_rating": RATING_MAX + 1}),
        ("highest_rating", {"lowest_rating": 1501, "highest_rating": 1500}),
        ("blocked_player_ids", {"blocked_player_ids": [f"p{n}" for n in range(BLOCKED_MAX + 1)]}),
        ("blocked_player_ids", {"blocked_player_ids": ["No Such Id"]}),
        ("blocked_player_ids", {"blocked_player_ids": [""]}),
    ],
)
def test_limits_that_make_no_sense_are_malformed_and_named(
    field: str, request_fields: dict[str, Any]
) -> None:
    with pytest.raises(ServiceError, match=f"^{field}: ") as error:
        wanted_from_pb(pb.SeekRequest(request_id="x", **request_fields))
    assert (error.value.code, error.value.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED")


def test_limits_are_kept_as_they_were_given() -> None:
    wanted = wanted_from_pb(
        pb.SeekRequest(request_id="x", lowest_rating=0, blocked_player_ids=["b", "a", "b"])
    )
    assert (wanted.lowest, wanted.highest, wanted.blocked) == (0, None, frozenset({"a", "b"}))
    at_most = [f"p{n}" for n in range(BLOCKED_MAX)]
    assert (
        len(wanted_from_pb(pb.SeekRequest(request_id="x", blocked_player_ids=at_most)).blocked) == BLOCKED_MAX
    )


@pytest.mark.parametrize(
    "limits",
    [{"blocked_player_ids": ["player-ben"]}, {"lowest_rating": 1501}, {"highest_rating": 1499}],
    ids=["blocked", "lowest", "highest"],
)
async def test_a_limit_of_one_side_keeps_two_players_apart(open_house: House, limits: dict[str, Any]) -> None:
    """ann and ben are alone and wait; the next two are matched with one of them each."""
    await open_house.pool.execute("insert into player (player_id, name) values ('player-carl', 'carl')")
    mu = 1600 if "lowest_rating" in limits else 1400
    await open_house.pool.execute("insert into rating values ('player-carl', $1, 350, 700, 1, 1)", float(mu))
    ann, ben = open_house.player("ann").seek(**limits), open_house.player("ben").seek()
    while (await ann.is_waiting()).players_waiting < 2:
        pass
    while (await ben.is_waiting()).waited_ms < 1000:
        pass
    assert await open_house.pool.fetchval("select count(*) from match") == 0
    carl = open_house.player("carl").seek(blocked_player_ids=["player-ben"])
    match, _ = await asyncio.gather(ann.matched(), carl.matched())
    assert match.opponent.player_id == "player-carl"
    await ben.is_waiting()


async def test_an_estimate_is_told_with_its_basis_once_there_is_one(open_house: House) -> None:
    async def match(number: int) -> None:
        await asyncio.gather(*(open_house.player(f"{number}{side}").seek().matched() for side in "ab"))

    for number in range(2):
        await match(number)
    waiting = open_house.player("ann").seek()
    assert not (await waiting.is_waiting()).HasField("estimate"), "four waits are not enough"
    waiting.call.cancel()

    async def alone() -> bool:
        return bool(await open_house.pool.fetchval("select count(*) = 0 from seek"))

    await eventually(alone)
    for number in range(2, 4):
        await match(number)
    waiting = open_house.player("ann").seek()
    news = await waiting.is_waiting()
    async with asyncio.timeout(SECONDS_MAX):
        while not news.HasField("estimate"):
            news = await waiting.is_waiting()
    assert news.estimate.basis == 8
    assert news.estimate.similar_rating
    assert 0 <= news.estimate.median_ms <= news.estimate.most_ms < 60_000


async def test_who_waits_long_is_told_of_the_house_bots(house: House) -> None:
    await house.start(house_bots_after_seconds=0.3, news_period_seconds=0.1)
    waiting = house.player("ann").seek()
    news: list[pb.Waiting] = []
    async with asyncio.timeout(SECONDS_MAX):
        while not news or not news[-1].house_bots:
            news.append(await waiting.is_waiting())
    assert [tuple(each.house_bots) for each in news] == [
        HOUSE_BOTS if each.waited_ms >= 300 else () for each in news
    ]
    assert len(news) > 1


async def test_limits_are_refused_by_the_call_itself(house: House) -> None:
    await house.start()
    with pytest.raises(grpc.RpcError) as error:
        await house.player("ann").seek(lowest_rating=2, highest_rating=1).matched()
    assert reason(error.value)[:2] == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED")
