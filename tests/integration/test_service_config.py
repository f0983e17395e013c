"""A channel with the service config before a real stack that loses answers: the repeat gets the first answer."""

from __future__ import annotations

import grpc
import pytest

from client.errors import from_rpc
from client.retries import SERVICE_CONFIG
from engine.command import Start
from engine.seats import NORTH
from spectacularbid.identity.v1 import guest_service_pb2
from spectacularbid.identity.v1.guest_service_pb2_grpc import GuestServiceStub
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1.match_service_pb2_grpc import MatchServiceStub
from tests.faultyfront import front_door
from tests.seats import Table, new_id
from tests.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_command_whose_answer_was_lost_is_repeated_and_has_one_effect(shared: Stack) -> None:
    table = await Table.create(shared, start=False)
    async with front_door(shared.address("matchmaking"), shared.address("game")) as front:
        options = [("grpc.service_config", SERVICE_CONFIG)]
        async with grpc.aio.insecure_channel(front.address, options) as channel:
            front.loses = 2
            request = table.request(Start(NORTH), (await table.view(NORTH)).prompt.decision_id)
            answer = await MatchServiceStub(channel).Submit(request, metadata=table.players.north.metadata)
    assert front.calls["/spectacularbid.match.v1.MatchService/Submit"] == 3
    assert answer.applied == pb.Applied(first_sequence=1, last_sequence=1)
    rows = await shared.pool.fetch(
        "select request_id from match_log where match_id = $1 and request_id is not null", table.match_id
    )
    assert [row["request_id"] for row in rows] == [request.request_id]


async def test_one_match_is_created_however_many_answers_are_lost(shared: Stack) -> None:
    (player,) = await shared.players(1)
    async with front_door(shared.address("matchmaking"), shared.address("game")) as front:
        options = [("grpc.service_config", SERVICE_CONFIG)]
        async with grpc.aio.insecure_channel(front.address, options) as channel:
            front.loses = 1
            request = pb.CreateMatchRequest(request_id=new_id(), same_device=True)
            answer = await MatchServiceStub(channel).CreateMatch(request, metadata=player.metadata)
    assert front.calls["/spectacularbid.match.v1.MatchService/CreateMatch"] == 2
    rows = await shared.pool.fetch("select match_id from match where north = $1", player.player_id)
    assert [str(row["match_id"]) for row in rows] == [answer.match_id]


async def test_nobody_makes_two_guests_because_an_answer_was_lost(shared: Stack) -> None:
    async with front_door(shared.address("matchmaking"), shared.address("game")) as front:
        options = [("grpc.service_config", SERVICE_CONFIG)]
        async with grpc.aio.insecure_channel(front.address, options) as channel:
            front.loses = 1
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await GuestServiceStub(channel).CreateGuest(guest_service_pb2.CreateGuestRequest())
    assert from_rpc(error.value).code is grpc.StatusCode.UNAVAILABLE
    assert front.calls["/spectacularbid.identity.v1.GuestService/CreateGuest"] == 1
