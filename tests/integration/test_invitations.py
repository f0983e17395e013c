"""A match against a person is an offer: until it is accepted, neither seat, queue nor list of that person is touched."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from client.errors import CallError, from_rpc
from client.session import CASUAL
from engine.command import Resign, Start
from engine.seats import NORTH, SOUTH, BySeat, Seat
from services.storage.invitations import INVITER_MAX, PAIR_MAX
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as seek_pb
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2_grpc as seek_grpc
from tests.seats import Table, new_id
from tests.stack import Player, Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def invites(made: Stack, inviter: Player, invited: Player) -> Table:
    """A match that has not begun, with the inviter in the north."""
    players = BySeat(inviter, invited)
    return Table(made, await made.create(players), players)


async def refused(made: Stack, inviter: Player, invited: Player) -> CallError:
    """Why nobody is invited."""
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await made.create(BySeat(inviter, invited))
    return from_rpc(error.value)


async def listed(made: Stack, player: Player, **wanted: Any) -> list[str]:
    """The matches of a list."""
    request = pb.ListMyMatchesRequest(**wanted)
    page = await made.matches().ListMyMatches(request, metadata=player.metadata)
    return [summary.match_id for summary in page.matches]


async def told(seek: Any) -> seek_pb.SeekResponse:
    """The next news of a seek."""
    news = await seek.read()
    assert isinstance(news, seek_pb.SeekResponse), news
    return news


async def seated(made: Stack, player: Player) -> str | None:
    """The match that the database knows a player to be in."""
    match_id = await made.pool.fetchval(
        "select match_id from live_seat where player_id = $1", player.player_id
    )
    return None if match_id is None else str(match_id)


async def test_an_invitation_touches_neither_seat_nor_seek(shared: Stack) -> None:
    """Who is invited again and again goes on waiting and is matched by the pool; the offers are in no list of theirs but
    their own. They accept one when they are free, by pressing Start, and are in that match from then on."""
    ann, ben, carl, dora = await shared.players(4)
    stub = seek_grpc.MatchmakingServiceStub(shared.channel("matchmaking"))
    seek = stub.Seek(seek_pb.SeekRequest(request_id=new_id(), pool=CASUAL), metadata=ben.metadata)
    assert (await told(seek)).HasField("waiting")
    first = await invites(shared, ann, ben)
    assert await seated(shared, ben) is None
    assert await listed(shared, ben) == await listed(shared, ben, live_only=True) == []
    assert await listed(shared, ben, invitations=True) == [first.match_id]
    assert await listed(shared, ann) == await listed(shared, ann, live_only=True) == [first.match_id]
    # Not even by being in the way of a match of their own.
    carls = stub.Seek(seek_pb.SeekRequest(request_id=new_id(), pool=CASUAL), metadata=carl.metadata)
    await told(carls)
    match_id = ""
    while not match_id:
        match_id = (await told(seek)).matched.match_id
    assert match_id != first.match_id
    with pytest.raises(CallError) as busy:
        await first.do(Start(SOUTH))
    assert (busy.value.code, busy.value.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "PLAYER_BUSY")
    assert busy.value.metadata["match_id"] == match_id == await seated(shared, ben)
    assert (await first.snapshot(SOUTH)).sequence == 0
    # Nobody is told by an invitation whether somebody plays.
    second = await invites(shared, dora, ben)
    assert await listed(shared, ben, invitations=True) == [second.match_id, first.match_id]

    pool_row = await shared.row(match_id)
    seat = NORTH if pool_row.north.player_id == ben.player_id else SOUTH
    both = BySeat(ben, carl) if seat is NORTH else BySeat(carl, ben)
    played = Table(shared, match_id, both)
    await played.start()
    await played.do(Resign(seat))
    await second.do(Start(SOUTH))
    assert await seated(shared, ben) == second.match_id
    assert await listed(shared, ben, invitations=True) == [first.match_id]
    assert await listed(shared, ben, live_only=True) == [second.match_id]
    seek = stub.Seek(seek_pb.SeekRequest(request_id=new_id(), pool=CASUAL), metadata=ben.metadata)
    with pytest.raises(grpc.aio.AioRpcError) as in_another:
        await seek.read()
    assert in_another.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    await second.do(Start(NORTH))
    assert (await second.view(SOUTH)).prompt.decision_id == 2


@pytest.mark.parametrize("leaver", [NORTH, SOUTH])
async def test_an_invitation_is_declined_and_taken_back(shared: Stack, leaver: Seat) -> None:
    """Either leaves before the beginning: both are free at once, nobody has lost, and it is in no history of who never
    accepted."""
    ann, ben = await shared.players(2)
    table = await invites(shared, ann, ben)
    await table.do(Start(NORTH))
    await table.do(Resign(leaver))
    assert await seated(shared, ann) is await seated(shared, ben) is None
    assert await listed(shared, ben) == await listed(shared, ben, invitations=True) == []
    assert await (await shared.client(ann)).history(ben.player_id) == []
    assert len(await listed(shared, ann)) == 1
    assert (await table.refused(Start(SOUTH))).reason == "MATCH_OVER"


async def test_who_is_not_accepted_invites_no_more(shared: Stack) -> None:
    """So many of one pair and so many of one player in ten minutes; those that are accepted do not count."""
    ann, ben, *others = await shared.players(2 + INVITER_MAX)
    for _ in range(PAIR_MAX + 1):
        accepted = await invites(shared, ann, ben)
        await accepted.start()
        await accepted.do(Resign(NORTH))
    for _ in range(PAIR_MAX):
        await (await invites(shared, ann, ben)).do(Resign(SOUTH))
    error = await refused(shared, ann, ben)
    assert (error.code, error.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_REACHED")
    assert error.retry_after_seconds is not None
    assert 500 < error.retry_after_seconds <= 600
    for number in range(INVITER_MAX - PAIR_MAX):
        await (await invites(shared, ann, others[number])).do(Resign(NORTH))
    assert (await refused(shared, ann, others[-1])).reason == "LIMIT_REACHED"
    # Others are free to ask, and to be asked.
    await (await invites(shared, ben, ann)).start()


async def test_who_is_blocked_invites_nobody(shared: Stack) -> None:
    """Whom the newest seek of a player does not want to meet cannot invite that player either."""
    ann, ben = await shared.players(2)
    stub = seek_grpc.MatchmakingServiceStub(shared.channel("matchmaking"))

    async def seeks(*blocked: str) -> None:
        request = seek_pb.SeekRequest(request_id=new_id(), pool=CASUAL, blocked_player_ids=blocked)
        call = stub.Seek(request, metadata=ben.metadata)
        await call.read()
        await stub.CancelSeek(seek_pb.CancelSeekRequest(), metadata=ben.metadata)
        call.cancel()

    await seeks("somebody", ann.player_id)
    error = await refused(shared, ann, ben)
    assert (error.code, error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "INVITATION_REFUSED")
    assert await seated(shared, ann) is None
    await seeks("somebody")
    await (await invites(shared, ann, ben)).start()
