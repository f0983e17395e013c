"""Races of seeks, settled by the database: many at once, against a real process and a real PostgreSQL."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from urllib.parse import urlsplit

import asyncpg
import grpc

from services.storage import matches
from services.storage.matches import NewMatch, PlayerBusyError
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as pb
from spectacularbid.matchmaking.v1.matchmaking_service_pb2_grpc import MatchmakingServiceStub
from tests.proxy import Proxy, Way
from tests.services.matchmaking.house import House, Player, Seek, eventually, reason

ONE_SEAT_EACH = """
    select player_id from (select north as player_id from match union all select south from match) seated
    group by player_id having count(*) > 1
"""


async def nobody_sits_twice(house: House) -> None:
    """No player in two matches (none of them is over), none with herself, every seat of every match taken."""
    assert await house.pool.fetch(ONE_SEAT_EACH) == []
    assert await house.pool.fetchval("select count(*) from match where north = south") == 0
    assert await house.pool.fetchval("select count(*) = 2 * (select count(*) from match) from live_seat")


async def test_fc_34_two_devices_of_200_players_at_once(open_house: House) -> None:
    """FC-34: 400 seeks, two a player at the same moment under different names: of each two one is told SEEK_REPLACED, or both
    are told of the one match; nobody is both seats."""
    players = [open_house.player(f"p{n}") for n in range(200)]
    outcomes = await asyncio.gather(
        *(device.outcome() for player in players for device in (player.seek(), player.seek()))
    )
    for one, other in zip(outcomes[::2], outcomes[1::2], strict=True):
        found = [outcome for outcome in (one, other) if isinstance(outcome, pb.Matched)]
        ended = [outcome[1] for outcome in (one, other) if isinstance(outcome, tuple)]
        assert found, ended
        assert len({match.match_id for match in found}) == 1
        assert set(ended) <= {"SEEK_REPLACED"}
    assert await open_house.pool.fetchval("select count(*) from match") == 100
    assert await open_house.pool.fetchval("select count(*) from seek") == 0
    await nobody_sits_twice(open_house)


async def cancelled_in_the_end(player: Player) -> str | None:
    """Cancels until there is something to be cancelled; the match that came first, or None."""
    while True:
        try:
            await player.cancel()
        except grpc.RpcError as error:
            code, why, metadata = reason(error)
            if why == "NO_SEEK":  # it came before the seek did
                await asyncio.sleep(0)
                continue
            assert (code, why) == (grpc.StatusCode.FAILED_PRECONDITION, "ALREADY_MATCHED")
            return metadata["match_id"]
        return None


async def test_fc_36_a_thousand_cancels_race_with_the_pairing(open_house: House) -> None:
    """FC-36: each seek is cancelled after 0 to 50 ms while others arrive: OK and never a match, or the match by name."""
    chance = random.Random(36)
    told: Counter[str] = Counter()

    async def race(number: int) -> None:
        player = open_house.player(f"p{number}")
        outcome = asyncio.create_task(player.seek().outcome())
        await asyncio.sleep(chance.uniform(0, 0.05))
        match_id = await cancelled_in_the_end(player)
        answer = await outcome
        if match_id is None:
            assert isinstance(answer, tuple), answer
            assert answer[1] == "SEEK_CANCELLED"
            cancelled.append(player.player_id)
        else:
            assert isinstance(answer, pb.Matched), answer
            assert answer.match_id == match_id
        told["cancelled" if match_id is None else "matched"] += 1

    cancelled: list[str] = []
    for batch in range(0, 1000, 50):
        await asyncio.gather(*(race(number) for number in range(batch, batch + 50)))
    assert told.total() == 1000
    assert min(told["cancelled"], told["matched"]) > 0, "the race must have been lost and won"
    assert (
        await open_house.pool.fetchval(
            "select count(*) from match where north = any($1) or south = any($1)", cancelled
        )
        == 0
    )
    assert await open_house.pool.fetchval("select count(*) from match") * 2 == told["matched"]
    assert await open_house.pool.fetchval("select count(*) from seek") == 0


async def created_elsewhere(pool: asyncpg.Pool[asyncpg.Record], north: str, south: str) -> bool:
    """What a game process does for CreateMatch; False when one of the two has a live match already."""
    new = NewMatch(str(uuid.uuid4()), "created", False, north, south, 1, 1, 1, 1)
    async with pool.acquire() as connection:
        try:
            async with connection.transaction():
                await matches.create_match(connection, new, "game-1")
        except PlayerBusyError:
            return False
    return True


async def test_fc_38_seeks_race_with_created_matches(open_house: House) -> None:
    """FC-38: 1000 players seek while half of them are called to created matches, by twos and at random moments: each ends
    in exactly one match, and is told of that one: that it is theirs, or that it keeps them busy."""
    chance = random.Random(38)
    ids = [f"player-p{number}" for number in range(1000)]
    await open_house.pool.executemany(
        "insert into player (player_id, name) values ($1, $1)", [(id_,) for id_ in ids]
    )
    made: Counter[bool] = Counter()

    async def create(batch: int) -> None:
        for number in chance.sample(range(batch, batch + 100, 2), 25):
            await asyncio.sleep(chance.uniform(0, 0.01))
            # One of these two may sit elsewhere by now: with somebody whom the queue gave her.
            made[await created_elsewhere(open_house.pool, ids[number], ids[number + 1])] += 1

    for batch in range(0, 1000, 100):
        *outcomes, _ = await asyncio.gather(
            *(open_house.player(f"p{number}").seek().outcome() for number in range(batch, batch + 100)),
            create(batch),
        )
        for number, outcome in enumerate(outcomes, batch):
            row = await open_house.row(
                "select match_id, mode from live_seat join match using (match_id) where player_id = $1",
                ids[number],
            )
            seated, mode = row
            if mode == "created":
                busy = (grpc.StatusCode.FAILED_PRECONDITION, "PLAYER_BUSY", {"match_id": str(seated)})
                assert outcome == busy
            else:
                assert isinstance(outcome, pb.Matched), outcome
                assert outcome.match_id == str(seated)
    assert min(made.values()) > 0, "the race must have been lost and won"
    assert len(made) == 2
    assert await open_house.pool.fetchval("select count(*) from match") == 500
    await nobody_sits_twice(open_house)


async def test_who_is_called_to_a_match_while_nobody_else_waits_is_told_of_it(open_house: House) -> None:
    """There is nobody to be paired with, which is how it would be found out otherwise."""
    alone = open_house.player("ann").seek()
    await alone.is_waiting()
    await open_house.pool.execute("insert into player (player_id, name) values ('player-ben', 'ben')")
    assert await created_elsewhere(open_house.pool, "player-ann", "player-ben")
    match_id = str(await open_house.pool.fetchval("select match_id from match"))
    assert await alone.failed() == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "PLAYER_BUSY",
        {"match_id": match_id},
    )
    assert await open_house.pool.fetchval("select count(*) from seek") == 0


async def test_fc_38_who_disconnects_while_being_matched_learns_of_it_on_the_next_call(
    open_house: House,
) -> None:
    """Streams are lost at random moments of the pairing. Whoever has a match by then is told by the same seek; whoever
    has none waits on."""
    chance = random.Random(380)
    at_once = 0

    async def flicker(player: Player) -> None:
        nonlocal at_once
        name = str(uuid.uuid4())
        seek = player.seek(request_id=name)
        await seek.is_waiting()
        await asyncio.sleep(chance.uniform(0, 0.05))
        seek.call.cancel()
        again = player.seek(request_id=name)
        await again.matched()
        at_once += not again.waiting

    for batch in range(0, 200, 20):
        await asyncio.gather(*(flicker(open_house.player(f"p{n}")) for n in range(batch, batch + 20)))
    assert 0 < at_once < 200, "some were matched while they were away, and some were not"
    assert await open_house.pool.fetchval("select count(*) from match") == 100
    await nobody_sits_twice(open_house)


async def test_a_silent_client_leaves_the_queue(house: House) -> None:
    """The network swallows everything in both directions and resets nothing: the stream is known to be dead when its
    pings are not answered. Nobody is matched with it afterwards, and its seek may come again."""
    await house.start(keepalive_seconds=1, keepalive_timeout_seconds=5)
    ann = house.player("ann")
    url = urlsplit(f"//{house.address}")
    assert url.hostname is not None
    assert url.port is not None
    async with Proxy(url.hostname, url.port) as proxy, grpc.aio.insecure_channel(proxy.address) as channel:
        request = pb.SeekRequest(request_id="one")
        silent = Seek(MatchmakingServiceStub(channel).Seek(request, metadata=ann.metadata))
        await silent.is_waiting()
        since = await house.pool.fetchval("select since from seek")
        proxy.swallow(Way.UP, Way.DOWN)

        async def gone() -> bool:
            return bool(await house.pool.fetchval("select count(*) = 0 from seek"))

        await eventually(gone)
        await house.game()
        ben = house.player("ben").seek()
        assert (await ben.is_waiting()).players_waiting == 1
        again = ann.seek(request_id="one")
        match, _ = await asyncio.gather(again.matched(), ben.matched())
        assert match.opponent.player_id == "player-ben"
        assert again.waiting == [] or again.waiting[0].waited_ms > 1000
        created = await house.pool.fetchval("select created_at from match")
        assert since < created


async def test_fc_42_two_who_wait_are_paired_in_the_wave_after_they_suit(house: House) -> None:
    """FC-42: who was looked at alone is looked at again: after a minute of it as after a second."""
    await house.start()
    await house.game()
    lone = house.player("lone").seek(request_id="one")
    await lone.is_waiting()
    lone.call.cancel()

    async def known() -> bool:
        return bool(await house.pool.fetchval("select count(*) = 1 from seek_memory"))

    await eventually(known)
    # A minute of waiting, as the service counts it.
    await house.pool.execute("update seek_memory set since = since - interval '60 s'")
    lone = house.player("lone").seek(request_id="one")
    waiting = await lone.is_waiting()
    assert waiting.waited_ms >= 60_000
    assert waiting.rating_window > 3000
    await asyncio.gather(lone.matched(), house.player("late").seek().matched())
