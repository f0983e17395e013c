"""One process leads; whatever becomes of it, nobody is lost, matched twice or told a match that is not there."""

from __future__ import annotations

import asyncio
import random

import asyncpg
import grpc
import pytest

from services.common.settings import Environment, SettingsError, load
from services.matchmaking.settings import MatchmakingSettings
from spectacularbid.identity.v1.guest_service_pb2 import CreateGuestRequest
from spectacularbid.internal.placement.v1 import placement_service_pb2 as placement_pb
from spectacularbid.internal.placement.v1.placement_service_pb2_grpc import PlacementServiceStub
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as pb
from tests.services.matchmaking.house import SECONDS_MAX, SECRET, House, eventually, reason

TRY_AGAIN = (grpc.StatusCode.UNAVAILABLE, "TRY_AGAIN")


async def matched_at_last(house: House, name: str) -> pb.Matched:
    """What a client does that seeks again whenever it is told to."""
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            outcome = await house.player(name).seek().outcome()
            if isinstance(outcome, pb.Matched):
                return outcome
            assert outcome[1] in ("TRY_AGAIN", "SEEK_REPLACED"), outcome
            await asyncio.sleep(0.05)


async def test_a_standby_is_not_ready_and_sends_players_away(house: House) -> None:
    leader = await house.start("leader")
    standby = await house.start("standby", ready=False)
    await standby.event("readiness", ready=False, missing=["lead"])
    assert (await house.player("ann").seek().failed())[:2] == TRY_AGAIN
    with pytest.raises(grpc.RpcError) as error:
        await house.player("ann").cancel()
    assert reason(error.value)[:2] == TRY_AGAIN
    with pytest.raises(grpc.RpcError) as error:
        await house.game()
    assert reason(error.value)[:2] == TRY_AGAIN

    assert await leader.terminate() == 0
    await standby.ready()
    await house.game()
    await asyncio.gather(*(house.player(name).seek().matched() for name in ("ann", "ben")))


async def test_a_leader_that_leaves_tells_those_who_wait(open_house: House) -> None:
    seeks = [open_house.player("ann").seek()]
    await seeks[0].is_waiting()
    (process,) = open_house.processes
    assert await process.terminate() == 0
    assert (await seeks[0].failed())[:2] == TRY_AGAIN
    assert await open_house.pool.fetchval("select count(*) from seek") == 0


async def test_fc_40_a_killed_leader_leaves_no_seek_pending_and_no_match_by_halves(house: House) -> None:
    """The leader dies at a random moment of a busy queue; everybody seeks again and is matched exactly once."""
    chance = random.Random(40)
    for turn in range(2):
        leader = await house.start(f"leader-{turn}")
        await house.game(f"game-{turn}")
        seeks = [house.player(f"{turn}-{n}").seek() for n in range(20)]
        told = [asyncio.create_task(seek.ended()) for seek in seeks]
        await asyncio.sleep(chance.uniform(0.0, 0.15))
        leader.kill()
        await asyncio.gather(*told)

        await house.start(f"successor-{turn}")
        assert await house.pool.fetchval("select count(*) from seek") == 0
        await house.game(f"game-{turn}")
        matches = await asyncio.gather(*(matched_at_last(house, f"{turn}-{n}") for n in range(20)))
        assert len({match.match_id for match in matches}) == 10
        assert await house.pool.fetchval("select count(*) from match") == 10 * (turn + 1)
        (successor,) = [process for process in house.processes if process.exit_status() is None]
        await successor.terminate()


async def test_a_match_whose_players_were_not_told_before_the_crash_is_told_on_the_next_call(
    house: House,
) -> None:
    leader = await house.start("leader", placed_patience_seconds=60)
    game = await house.game(confirm=False)
    seeks = [house.player(name).seek() for name in ("ann", "ben")]

    async def placed() -> bool:
        return bool(game.places)

    await eventually(placed)
    leader.kill()
    for seek in seeks:
        assert await seek.ended() is grpc.StatusCode.UNAVAILABLE
    await house.start("successor", placed_patience_seconds=1)
    # The process of the match has not registered again yet, and the database does not know where it is.
    assert (await house.player("ann").seek().failed())[:2] == TRY_AGAIN
    await house.pool.execute(
        "insert into engine_lease (engine_id, incarnation, address, lease_until) values ('game-1', 'x', 'lease:1', now())"
    )
    match = await house.player("ann").seek().matched()
    assert (match.match_id, match.address) == (game.places[0][0], "lease:1")
    await house.game()
    match = await house.player("ben").seek().matched()
    assert (match.match_id, match.address) == (game.places[0][0], "127.0.0.1:1")


async def test_a_game_process_that_goes_away_before_it_has_loaded_a_match_gets_it_again(house: House) -> None:
    await house.start(placed_patience_seconds=60)
    lost = await house.game(confirm=False)
    seeks = [house.player(name).seek() for name in ("ann", "ben")]

    async def placed() -> bool:
        return bool(lost.places)

    await eventually(placed)
    back = await house.game()  # of the same name: the older stream ends
    matches = await asyncio.gather(*(seek.matched() for seek in seeks))
    assert back.places == lost.places
    assert {match.match_id for match in matches} == {lost.places[0][0]}


async def test_a_match_that_was_never_loaded_is_placed_again_when_its_process_stays_away(
    house: House,
) -> None:
    """Another process gets it under the next fence, well before any lease runs out; the players are told that one's
    address, and whatever the first process still writes comes to nothing."""
    await house.start(placed_patience_seconds=60)
    gone = await house.game("game-1", confirm=False)
    seeks = [house.player(name).seek() for name in ("ann", "ben")]

    async def placed() -> bool:
        return bool(gone.places)

    await eventually(placed)
    other = await house.game("game-2", address="127.0.0.1:2")
    again = house.player("ann").seek()
    gone.leave()
    matches = await asyncio.gather(seeks[0].matched(), seeks[1].matched(), again.matched())
    ((match_id, fence),) = gone.places
    assert {(match.match_id, match.address) for match in matches} == {(match_id, "127.0.0.1:2")}
    assert other.places == [(match_id, fence + 1)]
    owner = await house.row("select engine_id, fence from match_owner")
    assert tuple(owner) == ("game-2", fence + 1)
    # Back too late: the match is not its own any more.
    back = await house.game("game-1", address="127.0.0.1:1")
    assert (await house.player("ben").seek().matched()).address == "127.0.0.1:2"
    assert back.places == []


async def test_a_match_that_another_process_has_taken_up_is_told_where_it_is(house: House) -> None:
    """The first process is gone and its lease has run out: who took the match up is believed."""
    await house.start(placed_patience_seconds=60)
    gone = await house.game("game-1", confirm=False)
    seeks = [house.player(name).seek() for name in ("ann", "ben")]

    async def placed() -> bool:
        return bool(gone.places)

    await eventually(placed)
    await house.pool.execute(
        """
        with lease as (
            insert into engine_lease (engine_id, incarnation, address, lease_until)
            values ('game-3', 'x', 'taken:3', now() + interval '1 hour')
        )
        update match_owner set engine_id = 'game-3', fence = 2
        """
    )
    other = await house.game("game-2", address="127.0.0.1:2")
    gone.leave()
    matches = await asyncio.gather(*(seek.matched() for seek in seeks))
    assert {match.address for match in matches} == {"taken:3"}
    assert other.places == []


async def test_losing_the_connection_that_holds_the_lock_is_losing_the_lead(open_house: House) -> None:
    seek = open_house.player("ann").seek()
    await seek.is_waiting()
    await open_house.pool.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'matchmaking-lead'"
        " and datname = current_database()"
    )
    assert (await seek.failed())[:2] == TRY_AGAIN

    async def registered() -> bool:
        try:
            await open_house.game()
        except grpc.RpcError as error:
            if reason(error)[:2] != TRY_AGAIN:
                raise
            return False
        return True

    await eventually(registered)
    await asyncio.gather(*(matched_at_last(open_house, name) for name in ("ann", "ben")))


async def test_a_seek_row_that_another_leader_cleared_ends_the_seek(open_house: House) -> None:
    """A leader that was deposed without noticing makes no match: its seeks are gone, and it says so."""
    ann = open_house.player("ann").seek()
    await ann.is_waiting()
    await open_house.pool.execute("delete from seek")
    ben = open_house.player("ben").seek()
    assert (await ann.failed())[:2] == TRY_AGAIN
    await ben.is_waiting()
    assert await open_house.pool.fetchval("select count(*) from match") == 0


async def test_a_database_that_takes_no_writes_costs_a_retry_and_nobody_is_lost(open_house: House) -> None:
    ann = open_house.player("ann").seek()
    await ann.is_waiting()
    name = await open_house.pool.fetchval("select current_database()")
    await open_house.pool.execute(f"alter database {name} set default_transaction_read_only = on")
    drop = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'matchmaking'"
    await open_house.pool.execute(f"{drop} and datname = current_database()")
    assert (await open_house.player("ben").seek().failed())[:2] == TRY_AGAIN
    admin = await asyncpg.connect(
        open_house.database_url, server_settings={"default_transaction_read_only": "off"}
    )
    try:
        await admin.execute(f"alter database {name} reset default_transaction_read_only")
        await admin.execute(f"{drop} and datname = current_database()")
    finally:
        await admin.close()
    match, _ = await asyncio.gather(ann.matched(), matched_at_last(open_house, "ben"))
    assert match.opponent.player_id == "player-ben"


async def test_a_game_process_must_know_the_secret_and_say_hello(house: House) -> None:
    await house.start()
    async with grpc.aio.insecure_channel(house.internal) as channel:
        stub = PlacementServiceStub(channel)
        load = placement_pb.RegisterRequest(load=placement_pb.Load())
        for secret, messages, expected in (
            # Refused before anything is read. (A message on its way then would hide why: grpc/grpc#36066.)
            ("wrong", [], (grpc.StatusCode.UNAUTHENTICATED, "TOKEN_INVALID")),
            (SECRET, [load], (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED")),
            (SECRET, [], (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED")),
        ):
            call = stub.Register(iter(messages), metadata=(("authorization", f"Bearer {secret}"),))
            with pytest.raises(grpc.RpcError) as error:
                await call.read()
            assert reason(error.value)[:2] == expected


async def test_without_a_signing_key_there_are_no_guests(house: House) -> None:
    await house.start(guest_key_file="")
    with pytest.raises(grpc.RpcError) as error:
        await house.guests().CreateGuest(CreateGuestRequest(name="ann"))
    assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_production_refuses_a_signing_key_for_guests(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {
        "SPECTACULAR_BID_ENV": "test",
        "SPECTACULAR_BID_DATABASE_URL": "postgresql://x",
        "SPECTACULAR_BID_INTERNAL_SECRET": SECRET,
        "SPECTACULAR_BID_JWKS_FILE": "jwks.json",
        "SPECTACULAR_BID_GUEST_KEY_FILE": "guest.pem",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert load(MatchmakingSettings).env is Environment.TEST
    monkeypatch.setenv("SPECTACULAR_BID_ENV", "production")
    with pytest.raises(SettingsError, match="SPECTACULAR_BID_GUEST_KEY_FILE: must not be set in production"):
        load(MatchmakingSettings)
