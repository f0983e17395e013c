"""Seeks against a real process and a real PostgreSQL: two players meet, and nobody meets twice."""

from __future__ import annotations

import asyncio
import random
import uuid

import grpc
import pytest

from spectacularbid.identity.v1.guest_service_pb2 import CreateGuestRequest
from spectacularbid.match.v1 import table_pb2
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as pb
from tests.services.matchmaking.house import House, eventually, reason


async def test_two_seekers_get_one_match_with_two_seats(open_house: House) -> None:
    ann, ben = open_house.player("ann"), open_house.player("ben")
    first, second = await asyncio.gather(ann.seek().matched(), ben.seek().matched())

    assert first.match_id == second.match_id
    assert {first.seat, second.seat} == {table_pb2.SEAT_NORTH, table_pb2.SEAT_SOUTH}
    assert (first.opponent.player_id, first.opponent.name) == ("player-ben", "ben")
    assert (second.opponent.player_id, second.opponent_rating) == ("player-ann", 0)
    assert first.address == second.address == "127.0.0.1:1"

    row = await open_house.row("select * from match")
    assert (str(row["match_id"]), row["mode"], row["rated"]) == (first.match_id, "rated", True)
    assert (row["bank_ns"], row["delay_ns"]) == (120_000_000_000, 10_000_000_000)
    assert (row["start_limit_ns"], row["continue_limit_ns"]) == (60_000_000_000, 30_000_000_000)
    assert await open_house.pool.fetchval("select count(*) from live_seat") == 2
    assert await open_house.pool.fetchval("select count(*) from seek") == 0
    owner = await open_house.row("select engine_id, fence from match_owner")
    assert tuple(owner) == ("game-1", 1)


async def test_waiting_is_told_at_once_on_change_and_every_two_seconds(open_house: House) -> None:
    seek = open_house.player("ann").seek()
    first = await seek.is_waiting()
    again = await seek.is_waiting()
    assert first.players_waiting == again.players_waiting == 1
    assert again.waited_ms - first.waited_ms >= 1900, (
        "nothing has changed, so the next news comes by the clock"
    )
    for news in (first, again):
        assert news.rating_window == pytest.approx(150 + news.waited_ms / 20, abs=1)

    other = open_house.player("far", bot=False).seek(pb.POOL_CASUAL)
    assert (await other.is_waiting()).players_waiting == 1, "pools are counted apart"


async def test_pools_do_not_mix_and_casual_matches_are_not_rated(open_house: House) -> None:
    rated = open_house.player("rated").seek(pb.POOL_UNSPECIFIED)
    await rated.is_waiting()
    one, other = open_house.player("one"), open_house.player("other")
    match, _ = await asyncio.gather(one.seek(pb.POOL_CASUAL).matched(), other.seek(pb.POOL_CASUAL).matched())
    row = await open_house.row("select mode, rated from match where match_id = $1", uuid.UUID(match.match_id))
    assert tuple(row) == ("casual", False)
    assert await open_house.pool.fetchval("select count(*) from seek") == 1


async def test_a_seek_that_makes_no_sense_is_malformed(house: House) -> None:
    await house.start()
    ann = house.player("ann")
    for request in (
        pb.SeekRequest(),
        pb.SeekRequest(request_id="x" * 65),
        pb.SeekRequest(request_id="with space"),
        pb.SeekRequest(request_id="é"),
        pb.SeekRequest(request_id="x", pool=7),  # type: ignore[arg-type]
    ):
        with pytest.raises(grpc.RpcError) as error:
            await ann.matchmaking.Seek(request, metadata=ann.metadata).read()
        assert reason(error.value)[:2] == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED"), request
    assert await house.pool.fetchval("select count(*) from seek") == 0


async def test_nobody_seeks_without_a_token_and_house_bots_do_not_seek(house: House) -> None:
    await house.start()
    ann = house.player("ann")
    with pytest.raises(grpc.RpcError) as error:
        await ann.matchmaking.Seek(pb.SeekRequest(request_id="x")).read()
    assert reason(error.value)[:2] == (grpc.StatusCode.UNAUTHENTICATED, "TOKEN_INVALID")
    assert (await house.player("greedy", bot=True).seek().failed())[1] == "ROLE_MISSING"


async def test_without_a_game_process_players_keep_waiting_and_are_matched_when_one_comes(
    house: House,
) -> None:
    await house.start()
    seeks = [house.player(name).seek() for name in ("ann", "ben")]
    for seek in seeks:
        while (await seek.is_waiting()).players_waiting < 2:
            pass
        assert (await seek.is_waiting()).waited_ms > 1000, (
            "nothing changes, so the next news comes by the clock"
        )
    assert await house.pool.fetchval("select count(*) from match") == 0
    game = await house.game()
    matches = await asyncio.gather(*(seek.matched() for seek in seeks))
    assert [match.match_id for match in matches] == [game.places[0][0]] * 2


async def test_a_game_process_that_takes_no_more_gets_no_more(house: House) -> None:
    await house.start()
    full = await house.game("game-full")
    full.load(0, accepting=False)
    busy, idle = await house.game("game-busy"), await house.game("game-idle")
    busy.load(10, accepting=True)
    # A round trip behind the load reports: they have been read once this comes back.
    for name in ("a", "b", "c", "d"):
        await asyncio.gather(
            house.player(f"{name}1").seek().matched(), house.player(f"{name}2").seek().matched()
        )
    assert full.places == []
    assert (len(busy.places), len(idle.places)) == (0, 4)


async def test_capacity_is_a_limit(house: House) -> None:
    await house.start()
    game = await house.game(capacity=1)
    await asyncio.gather(house.player("a").seek().matched(), house.player("b").seek().matched())
    seeks = [house.player(name).seek() for name in ("c", "d")]
    for seek in seeks:
        await seek.is_waiting()
    await seeks[0].is_waiting()
    assert len(game.places) == 1
    game.load(0, accepting=True)
    await asyncio.gather(*(seek.matched() for seek in seeks))


async def test_players_are_told_when_the_match_is_loaded(house: House) -> None:
    await house.start(placed_patience_seconds=60)
    game = await house.game(confirm=False)
    seeks = [house.player(name).seek() for name in ("ann", "ben")]

    async def sent() -> bool:
        return len(game.places) == 1

    await eventually(sent)
    telling = [asyncio.create_task(seek.matched()) for seek in [*seeks, house.player("ann").seek()]]
    done, _ = await asyncio.wait(telling, timeout=0.5)
    assert not done, "the match is not loaded yet"
    game.placed(game.places[0][0])
    assert {(await match).match_id for match in telling} == {game.places[0][0]}


async def test_players_are_told_in_the_end_even_if_loading_is_never_confirmed(house: House) -> None:
    await house.start(placed_patience_seconds=0.2)
    game = await house.game(confirm=False)
    matches = await asyncio.gather(*(house.player(name).seek().matched() for name in ("ann", "ben")))
    assert [match.match_id for match in matches] == [game.places[0][0]] * 2


async def test_closing_the_stream_cancels_the_seek(open_house: House) -> None:
    seek = open_house.player("ann").seek()
    await seek.is_waiting()
    seek.call.cancel()

    async def gone() -> bool:
        return bool(await open_house.pool.fetchval("select count(*) = 0 from seek"))

    await eventually(gone)
    ben = open_house.player("ben").seek()
    assert (await ben.is_waiting()).players_waiting == 1
    await ben.is_waiting()
    assert await open_house.pool.fetchval("select count(*) from match") == 0


async def test_cancel_ends_the_stream_and_says_when_there_is_nothing_to_cancel(open_house: House) -> None:
    ann = open_house.player("ann")
    with pytest.raises(grpc.RpcError) as error:
        await ann.cancel()
    assert reason(error.value)[:2] == (grpc.StatusCode.NOT_FOUND, "NO_SEEK")

    seek = ann.seek()
    await seek.is_waiting()
    await ann.cancel()
    assert (await seek.failed())[:2] == (grpc.StatusCode.CANCELLED, "SEEK_CANCELLED")
    assert await open_house.pool.fetchval("select count(*) from seek") == 0


async def test_cancel_after_the_match_names_the_match(open_house: House) -> None:
    ann, ben = open_house.player("ann"), open_house.player("ben")
    match, _ = await asyncio.gather(ann.seek().matched(), ben.seek().matched())
    with pytest.raises(grpc.RpcError) as error:
        await ann.cancel()
    assert reason(error.value) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "ALREADY_MATCHED",
        {"match_id": match.match_id},
    )


async def test_the_queue_is_bounded(house: House) -> None:
    await house.start(seeks_max=2)
    seeks = [house.player(name).seek() for name in ("a", "b")]
    for seek in seeks:
        await seek.is_waiting()
    assert (await house.player("c").seek().failed())[:2] == (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "LIMIT_REACHED",
    )
    newer = house.player("a").seek()
    await newer.is_waiting()  # a player who waits already takes no more room
    assert (await seeks[0].failed())[:2] == (grpc.StatusCode.ABORTED, "SEEK_REPLACED")


async def test_fc_34_a_player_has_one_open_seek_and_is_never_both_seats(open_house: House) -> None:
    """FC-34: the newest seek is the one that stays; the others end with SEEK_REPLACED."""
    for turn in range(20):
        ann = open_house.player(f"ann{turn}")
        seeks = [ann.seek() for _ in range(3)]
        outcomes = [asyncio.create_task(seek.outcome()) for seek in seeks]
        while sum(outcome.done() for outcome in outcomes) < 2:
            await asyncio.wait([o for o in outcomes if not o.done()], return_when=asyncio.FIRST_COMPLETED)
        ended = [o.result() for o in outcomes if o.done()]
        assert [end[1] for end in ended if isinstance(end, tuple)] == ["SEEK_REPLACED"] * 2
        assert (
            await open_house.pool.fetchval("select count(*) from seek where player_id = $1", ann.player_id)
            == 1
        )
        await ann.cancel()
        codes = {end[1] for end in [await o for o in outcomes] if isinstance(end, tuple)}
        assert codes == {"SEEK_REPLACED", "SEEK_CANCELLED"}
    assert await open_house.pool.fetchval("select count(*) from match") == 0


async def test_fc_36_a_cancelled_seek_is_never_matched(open_house: House) -> None:
    """FC-36: OK and never a match, or the match by name."""
    chance = random.Random(36)
    cancelled = matched = 0
    for turn in range(60):
        ann, ben = open_house.player(f"ann{turn}"), open_house.player(f"ben{turn}")
        anns, bens = ann.seek(), ben.seek()
        outcome = asyncio.create_task(anns.outcome())
        other = asyncio.create_task(bens.outcome())
        await asyncio.sleep(chance.uniform(0, 0.05))
        try:
            await ann.cancel()
        except grpc.RpcError as error:
            code, why, metadata = reason(error)
            if why == "NO_SEEK":  # it came before the seek did
                await ben.cancel()
                other.cancel()
                match = None
                anns.call.cancel()
                await asyncio.gather(outcome, other, return_exceptions=True)
                continue
            assert (code, why) == (grpc.StatusCode.FAILED_PRECONDITION, "ALREADY_MATCHED")
            match = await outcome
            assert isinstance(match, pb.Matched)
            assert match.match_id == metadata["match_id"]
            assert isinstance(await other, pb.Matched)
            await open_house.finish(match.match_id, None, "cancelled")
            matched += 1
        else:
            answer = await outcome
            assert isinstance(answer, tuple), answer
            assert answer[1] == "SEEK_CANCELLED"
            assert not await open_house.pool.fetchval(
                "select exists (select from match where $1 in (north, south))", ann.player_id
            )
            cancelled += 1
            await ben.cancel()
            await asyncio.gather(other)
    assert min(cancelled, matched) > 0, "the race must have been lost and won"


async def test_fc_38_a_running_match_is_the_answer_to_a_seek(open_house: House) -> None:
    """FC-38: at once, and nobody is queued for it."""
    ann, ben, carl = (open_house.player(name) for name in ("ann", "ben", "carl"))
    match, _ = await asyncio.gather(ann.seek().matched(), ben.seek().matched())
    carls = carl.seek()
    await carls.is_waiting()
    for _ in range(5):
        again = ann.seek()
        assert await again.matched() == match
        assert again.waiting == [], "at once"
    assert await open_house.pool.fetchval("select count(*) from seek") == 1
    await open_house.finish(match.match_id, "north")
    new = await ann.seek().matched()
    assert new.opponent.player_id == carl.player_id
    assert new.match_id != match.match_id


async def test_fc_38_a_match_that_was_made_elsewhere_ends_a_waiting_seek(open_house: House) -> None:
    """FC-38: a player who waits and takes a seat that no pool has given is not matched again: she hears which match it
    is, and that it is none of the pool's, whichever pool she asks then."""
    ann, ben = open_house.player("ann"), open_house.player("ben")
    anns = ann.seek()
    await anns.is_waiting()
    elsewhere = str(uuid.uuid4())
    await seat_elsewhere(open_house, elsewhere, ann.player_id)
    bens = ben.seek()
    busy = (grpc.StatusCode.FAILED_PRECONDITION, "PLAYER_BUSY", {"match_id": elsewhere})
    assert await anns.failed() == busy
    assert await ann.seek().failed() == busy
    assert await ann.seek(pb.POOL_CASUAL).failed() == busy
    # What she may take up again is cancelled all the same, and then there is nothing more.
    await ann.cancel()
    with pytest.raises(grpc.RpcError) as error:
        await ann.cancel()
    assert reason(error.value)[1] == "NO_SEEK"
    await bens.is_waiting()
    await bens.is_waiting()
    assert await open_house.pool.fetchval("select count(*) from match") == 1


async def seat_elsewhere(house: House, match_id: str, player_id: str) -> None:
    async with house.pool.acquire() as connection, connection.transaction():
        await connection.execute("insert into player (player_id, name, bot) values ('bot-x', 'x', true)")
        await connection.execute(
            """
            insert into match (match_id, mode, rated, north, south, bank_ns, delay_ns, start_limit_ns,
                               continue_limit_ns)
            values ($1, 'created', false, 'bot-x', $2, 1, 1, 1, 1)
            """,
            uuid.UUID(match_id),
            player_id,
        )
        await connection.execute("insert into live_seat values ($2, $1)", uuid.UUID(match_id), player_id)
        await connection.execute("insert into match_owner values ($1, 'game-1', 1)", uuid.UUID(match_id))


async def test_fc_38_racing_seeks_leave_nobody_in_two_matches(open_house: House) -> None:
    """FC-38: twenty players on two devices each, in random order, some closing their streams at random."""
    chance = random.Random(38)
    players = [open_house.player(f"p{n}") for n in range(20)]

    async def device(n: int) -> None:
        await asyncio.sleep(chance.uniform(0, 0.2))
        seek = players[n % 20].seek()
        try:
            async with asyncio.timeout(chance.choice([0.02, 0.1, 1.0])):
                await seek.outcome()
        except TimeoutError:
            seek.call.cancel()

    await asyncio.gather(*(device(n) for n in range(60)))
    twice = await open_house.pool.fetch(
        """
        select player, count(*) from (select north as player from match union all select south from match) x
        group by player having count(*) > 1
        """
    )
    assert twice == []
    assert await open_house.pool.fetchval("select count(*) = 2 * (select count(*) from match) from live_seat")


async def test_fc_42_who_waited_alone_is_matched_as_soon_as_another_comes(house: House) -> None:
    """An arrival makes a wave of its own: nobody waits for the next period, which is made long here."""
    await house.start(wave_period_seconds=10)
    await house.game()
    lone = house.player("lone").seek()
    for _ in range(3):
        await lone.is_waiting()
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.gather(lone.matched(), house.player("late").seek().matched())
    assert loop.time() - began < 5


async def test_fc_42_outside_the_window_at_first_and_inside_after_widening(open_house: House) -> None:
    await open_house.pool.execute("insert into player (player_id, name) values ('player-strong', 'strong')")
    await open_house.pool.execute("insert into rating values ('player-strong', 1700, 60, 1580, 9, 9)")
    strong, weak = open_house.player("strong").seek(), open_house.player("weak").seek()
    match = await asyncio.gather(strong.matched(), weak.matched())
    assert match[1].opponent_rating == 1580
    waited = await open_house.pool.fetchval(
        "select extract(epoch from m.created_at - p.created_at) from match m, player p where p.player_id = 'player-weak'"
    )
    assert float(waited) >= 0.99, "200 points apart: 150 at once and 50 more after a second"


async def test_guests_can_play(open_house: House) -> None:
    guest = await open_house.guests().CreateGuest(CreateGuestRequest(name="  Zoë   of Oz "))
    ann = open_house.player("ann")
    match = asyncio.create_task(ann.seek().matched())
    metadata = (("authorization", f"Bearer {guest.token}"),)
    call = ann.matchmaking.Seek(pb.SeekRequest(request_id="1"), metadata=metadata)
    assert [news async for news in call][-1].HasField("matched")
    assert (await match).opponent.name == "Zoë of Oz"
    row = await open_house.row("select name, bot from player where player_id = $1", guest.player_id)
    assert tuple(row) == ("Zoë of Oz", False)


async def test_a_guest_needs_a_name_that_can_be_shown(house: House) -> None:
    await house.start()
    for name in ("   ", "x" * 21, "bell\a"):
        with pytest.raises(grpc.RpcError) as error:
            await house.guests().CreateGuest(CreateGuestRequest(name=name))
        assert reason(error.value)[:2] == (grpc.StatusCode.INVALID_ARGUMENT, "NAME_INVALID"), name
