"""CreateMatch: who may play whom, what a repeated call does, and what only a test configuration allows."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc
import pytest
import pytest_asyncio

from client.errors import CallError, from_rpc
from engine.command import Resign, Start
from engine.seats import NORTH, SOUTH, BySeat
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.conditions import TEST_ONLY
from tests.engine.tables import deal
from tests.seats import Table, new_id, scripted, tile_to_pb
from tests.stack import Player, Stack, time_control

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def created(
    made: Stack, player: Player, request: pb.CreateMatchRequest, game: str = "game"
) -> pb.CreateMatchResponse:
    """One CreateMatch. Raises CallError."""
    try:
        return await made.matches(game).CreateMatch(request, metadata=player.metadata)
    except grpc.aio.AioRpcError as error:
        raise from_rpc(error) from None


async def refused(
    made: Stack, player: Player, request: pb.CreateMatchRequest, game: str = "game"
) -> CallError:
    """Why a CreateMatch is refused."""
    with pytest.raises(CallError) as error:
        await created(made, player, request, game)
    return error.value


async def test_a_repeated_call_makes_one_match(shared: Stack) -> None:
    """One effect for one request id, one after the other and all at once, and after the end of the match too."""
    one, two = await shared.players(2)
    request = pb.CreateMatchRequest(request_id=new_id(), player_id=two.player_id, seat=table_pb2.SEAT_SOUTH)
    answers = await asyncio.gather(*(created(shared, one, request) for _ in range(10)))
    answers.append(await created(shared, one, request))
    assert len({answer.match_id for answer in answers}) == 1
    assert answers[0].seat == table_pb2.SEAT_SOUTH
    assert answers[0].address == shared.address("game")
    assert await shared.pool.fetchval("select count(*) from match where created_by = $1", one.player_id) == 1
    table = Table(shared, answers[0].match_id, BySeat(two, one))
    await table.start()
    await table.do(Resign(NORTH))
    assert await created(shared, one, request) == answers[0]
    changed = pb.CreateMatchRequest()
    changed.CopyFrom(request)
    changed.seat = table_pb2.SEAT_NORTH
    error = await refused(shared, one, changed)
    assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_ID_REUSED")
    # The id belongs to the player who made it.
    other = pb.CreateMatchRequest(request_id=request.request_id, player_id=one.player_id)
    assert (await created(shared, two, other)).match_id != answers[0].match_id


async def test_a_player_has_one_live_match(shared: Stack) -> None:
    """Whatever comes at once: each makes one match, and hears about that one which it is; of all the seats they offer each
    other, each takes one at most."""
    three = await shared.players(3)

    async def attempt(creator: Player, opponent: Player) -> str | CallError:
        request = pb.CreateMatchRequest(request_id=new_id(), player_id=opponent.player_id)
        try:
            return (await created(shared, creator, request)).match_id
        except CallError as error:
            return error

    pairs = [(one, other) for one in three for other in three if one is not other] * 4
    results = await asyncio.gather(*(attempt(*pair) for pair in pairs))
    made = [result for result in results if isinstance(result, str)]
    errors = [result for result in results if isinstance(result, CallError)]
    assert {(error.code, error.reason) for error in errors} == {
        (grpc.StatusCode.FAILED_PRECONDITION, "PLAYER_BUSY")
    }
    assert len(made) == 3
    assert {error.metadata["match_id"] for error in errors} == set(made)
    seats = await shared.pool.fetch(
        "select player_id from live_seat where match_id = any($1::text[]::uuid[])", made
    )
    assert len(seats) == 3
    # Now one who makes none is invited by two, and takes both seats at once.
    invited, *hosts = await shared.players(3)
    tables = [
        Table(shared, await shared.create(BySeat(host, invited)), BySeat(host, invited)) for host in hosts
    ]
    taken = await asyncio.gather(*(table.do(Start(SOUTH)) for table in tables), return_exceptions=True)
    (busy,) = [error for error in taken if isinstance(error, CallError)]
    (seat,) = await shared.pool.fetch(
        "select match_id from live_seat where player_id = $1", invited.player_id
    )
    assert (busy.reason, busy.metadata["match_id"]) == ("PLAYER_BUSY", str(seat["match_id"]))


async def test_who_plays_whom(shared: Stack) -> None:
    """Unknown players, oneself, unknown house bots; a house bot plays many at once."""
    one, two = await shared.players(2)
    error = await refused(shared, one, pb.CreateMatchRequest(request_id=new_id(), player_id="nobody-at-all"))
    assert (error.code, error.reason) == (grpc.StatusCode.NOT_FOUND, "PLAYER_NOT_FOUND")
    error = await refused(shared, one, pb.CreateMatchRequest(request_id=new_id(), player_id=one.player_id))
    assert error.reason == "MALFORMED"
    for player in (one, two):
        request = pb.CreateMatchRequest(request_id=new_id(), house_bot="greedy", seat=table_pb2.SEAT_SOUTH)
        answer = await created(shared, player, request)
        row = await shared.row(answer.match_id)
        assert (row.north.player_id, row.north.bot, row.south.player_id) == (
            "bot-greedy",
            True,
            player.player_id,
        )
        assert not row.rated


async def test_somebody_new_is_known_after_the_first_call(shared: Stack) -> None:
    """A valid token is enough: the player behind it need not be known before."""
    newcomer = shared.spectator()
    (one,) = await shared.players(1)
    answer = await created(
        shared, newcomer, pb.CreateMatchRequest(request_id=new_id(), player_id=one.player_id)
    )
    assert (await shared.row(answer.match_id)).north.player_id == newcomer.player_id


NOBODY: Final = "00000000-0000-4000-8000-000000000000"
HALF: Final = table_pb2.Tile(low=1)
MALFORMED: Final[list[tuple[str, dict[str, Any]]]] = [
    ("request_id", {"request_id": ""}),
    ("request_id", {"request_id": "two words"}),
    ("player_id", {"player_id": "Not An Id"}),
    ("house_bot", {"house_bot": "genius"}),
    ("same_device", {"same_device": False}),
    ("seat", {"seat": 5}),
    ("jockey", {"jockey": 5}),
    ("time_control", {"time_control": pb.TimeControl(bank_ms=1000)}),
    ("time_control", {"time_control": pb.TimeControl(delay_ms=1000)}),
    ("time_control.bank_ms", {"time_control": time_control(-1, 1000)}),
    ("time_control.bank_ms", {"time_control": time_control(3_600_001, 1000)}),
    ("time_control.delay_ms", {"time_control": time_control(1000, 0)}),
    ("time_control.delay_ms", {"time_control": time_control(1000, 600_001)}),
    ("start_limit_ms", {"start_limit_ms": -1}),
    ("start_limit_ms", {"start_limit_ms": 3_600_001}),
    ("continue_limit_ms", {"continue_limit_ms": -1}),
    ("balances", {"balances": table_pb2.Balances(north=150, south=145)}),
    ("balances", {"balances": table_pb2.Balances(north=300, south=0)}),
    ("balances", {"balances": table_pb2.Balances(north=151, south=149)}),
    ("balances", {"balances": table_pb2.Balances(north=-5, south=305)}),
    ("deals[0]", {"deals": [pb.ScriptedDeal()]}),
    ("deals[1]", {"deals": [*scripted(deal()), pb.ScriptedDeal(tiles=[tile_to_pb("0|0")] * 28)]}),
    ("deals[0].tiles[0]", {"deals": [pb.ScriptedDeal(tiles=[HALF] * 28)]}),
    ("deals", {"deals": scripted(*[deal()] * 65)}),
]


async def test_a_malformed_request_names_the_field(shared: Stack) -> None:
    """INVALID_ARGUMENT, MALFORMED, and nothing is created."""
    one, two = await shared.players(2)
    error = await refused(shared, one, pb.CreateMatchRequest(request_id=new_id()))
    assert (error.reason, error.message.split(":")[0]) == ("MALFORMED", "opponent")
    for name, wrong in MALFORMED:
        opponent = {} if wrong.keys() & {"house_bot", "same_device"} else {"player_id": two.player_id}
        request = pb.CreateMatchRequest(**{"request_id": new_id(), **opponent, **wrong})
        error = await refused(shared, one, request)
        assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED"), wrong
        assert error.message.startswith(f"{name}:"), error.message
    assert await shared.pool.fetchval("select count(*) from match where created_by = $1", one.player_id) == 0


@pytest_asyncio.fixture(loop_scope="session")
async def serious(shared: Stack) -> AsyncIterator[str]:
    """A second game process that is not marked as a test; its name."""
    name = "game-development"
    shared.extra[name] = {"ENV": "development", "CAPACITY": "12", "CREATED_SHARE": "0.25"}
    await shared.start(name)
    yield name
    await shared.processes.pop(name).terminate()


async def test_what_only_a_test_configuration_allows(shared: Stack, serious: str) -> None:
    """Scripted deals, other clocks, balances, openings and limits are refused everywhere else, each named; plain matches
    are made under the conditions of all."""
    one, two = await shared.players(2)
    for name, value in TEST_ONLY.items():
        request = pb.CreateMatchRequest(request_id=new_id(), player_id=two.player_id, **{name: value})
        error = await refused(shared, one, request, serious)
        assert (error.code, error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "TEST_ONLY")
        assert error.message.startswith(f"{name}:")
    everything = pb.CreateMatchRequest(request_id=new_id(), player_id=two.player_id, **TEST_ONLY)
    assert (await refused(shared, one, everything, serious)).message.startswith(", ".join(TEST_ONLY) + ":")
    plain = pb.CreateMatchRequest(request_id=new_id(), player_id=two.player_id)
    answer = await created(shared, one, plain, serious)
    assert answer.address == shared.address(serious)
    row = await shared.row(answer.match_id)
    assert (row.bank_ns, row.delay_ns) == (120 * 10**9, 10 * 10**9)
    assert (row.start_limit_ns, row.continue_limit_ns, row.script) == (60 * 10**9, 30 * 10**9, None)


async def test_created_matches_leave_room_for_those_of_matchmaking(shared: Stack, serious: str) -> None:
    """A quarter of twelve; a match that was left at once counts for as long as it stays in memory. The call that made one
    has its answer all the same."""
    requests = [pb.CreateMatchRequest(request_id=new_id(), same_device=True) for _ in range(8)]
    players = await shared.players(8)

    async def attempt(player: Player, request: pb.CreateMatchRequest) -> pb.CreateMatchResponse | CallError:
        try:
            return await created(shared, player, request, serious)
        except CallError as error:
            return error

    answers = await asyncio.gather(*map(attempt, players, requests))
    made = [answer for answer in answers if isinstance(answer, pb.CreateMatchResponse)]
    assert len(made) == 3
    errors = [answer for answer in answers if isinstance(answer, CallError)]
    assert {(error.code, error.reason) for error in errors} == {
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_REACHED")
    }
    assert all(error.retry_after_seconds for error in errors)
    number = answers.index(made[0])
    player = players[number]
    table = Table(shared, made[0].match_id, BySeat(player, player), game=serious, one_device=True)
    await table.do(Resign(NORTH))
    assert await attempt(player, requests[number]) == made[0]
    again = pb.CreateMatchRequest(request_id=new_id(), same_device=True)
    assert (await refused(shared, player, again, serious)).reason == "LIMIT_REACHED"


async def test_a_match_is_played_where_it_is_owned(shared: Stack, serious: str) -> None:
    """Another process says where: WRONG_ADDRESS with the address, for every call about the live match; the finished match
    can be read anywhere."""
    players = BySeat(*await shared.players(2))
    match_id = await shared.create(players, game=serious)
    elsewhere, here = shared.matches(), Table(shared, match_id, players, game=serious)
    metadata = players.north.metadata
    calls: list[Any] = [
        elsewhere.GetMatch(pb.GetMatchRequest(match_id=match_id), metadata=metadata),
        elsewhere.Submit(here.request(Resign(SOUTH), 0), metadata=players.south.metadata),
        elsewhere.Watch(pb.WatchRequest(match_id=match_id), metadata=metadata).read(),
    ]
    play = elsewhere.Play(metadata=metadata)
    await play.write(pb.PlayRequest(join=pb.WatchRequest(match_id=match_id)))
    for call in [*calls, play.read()]:
        with pytest.raises(grpc.aio.AioRpcError) as wrong:
            await call
        error = from_rpc(wrong.value)
        assert (error.code, error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "WRONG_ADDRESS")
        assert error.metadata["address"] == shared.address(serious)
    # The client library goes where it is sent.
    client = await shared.client(players.north)
    async with client.play(match_id, shared.address("game")) as match:
        await anext(match)
        await here.start()
        await here.do(Resign(SOUTH))
        async for _ in match:
            pass
        assert match.table.outcome is not None
    answer = await elsewhere.GetMatch(pb.GetMatchRequest(match_id=match_id), metadata=metadata)
    assert answer.snapshot.table.outcome.winner == table_pb2.SEAT_NORTH


async def test_lists_of_the_own_matches_come_in_pages(shared: Stack) -> None:
    """Newest first, each once, the live one with its address; page sizes and tokens are checked."""
    players = BySeat(*await shared.players(2))
    made = []
    for number in range(7):
        mine = players if number % 2 else BySeat(players.south, players.north)
        made.append(await shared.create(mine))
        table = Table(shared, made[-1], mine)
        await table.start()
        if number < 6:
            await table.do(Resign(NORTH))
    stub, metadata = shared.matches(), players.north.metadata
    listed: list[pb.MatchSummary] = []
    sizes = Counter[int]()
    request = pb.ListMyMatchesRequest(page_size=3)
    while True:
        page = await stub.ListMyMatches(request, metadata=metadata)
        listed += page.matches
        sizes[len(page.matches)] += 1
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert [summary.match_id for summary in listed] == made[::-1]
    assert sizes == {3: 2, 1: 1}
    assert [bool(summary.address) for summary in listed] == [True] + [False] * 6
    assert listed[0].address == shared.address("game")
    for summary in listed:
        over = summary is not listed[0]
        assert summary.HasField("outcome") is summary.HasField("ended_at") is over
        assert {summary.north.player_id, summary.south.player_id} == {p.player_id for p in players}
        assert summary.outcome.winner == (table_pb2.SEAT_SOUTH if over else table_pb2.SEAT_UNSPECIFIED)
    live = await stub.ListMyMatches(pb.ListMyMatchesRequest(live_only=True), metadata=metadata)
    assert [summary.match_id for summary in live.matches] == [made[-1]]
    nothing = await stub.ListMyMatches(pb.ListMyMatchesRequest(), metadata=shared.spectator().metadata)
    assert not nothing.matches
    for size, token in (
        (-1, ""),
        (101, ""),
        (3, "x"),
        (3, "!!!"),
        (3, "MDAwMS0wMS0wMVQwMDowMDowMCB4"),
        (3, "é"),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as wrong:
            await stub.ListMyMatches(
                pb.ListMyMatchesRequest(page_size=size, page_token=token), metadata=metadata
            )
        error = from_rpc(wrong.value)
        assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED"), token
