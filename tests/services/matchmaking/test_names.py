"""Names over the wire: registered once, seen by everybody, refused with a reason a program can branch on."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from services.common.names import neutral_name
from spectacularbid.identity.v1 import player_service_pb2 as pb
from spectacularbid.identity.v1.guest_service_pb2 import CreateGuestRequest
from tests.services.matchmaking.house import House, Player, reason


async def register(house: House, player: Player, name: str) -> pb.Profile:
    request = pb.RegisterRequest(name=name)
    return (await house.profiles().Register(request, metadata=player.metadata)).profile


async def profile(house: House, player: Player, player_id: str = "") -> pb.Profile:
    request = pb.GetProfileRequest(player_id=player_id)
    return (await house.profiles().GetProfile(request, metadata=player.metadata)).profile


async def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as error:
        await call
    return reason(error.value)[:2]


async def test_a_player_of_any_issuer_registers_a_name_and_everybody_sees_it(open_house: House) -> None:
    ann, ben = open_house.player("ann"), open_house.player("ben")
    assert (await profile(open_house, ann)).name == "ann", "what the token suggests, when it is free"
    made = await register(open_house, ann, "  Zoë   of Oz ")
    assert (made.player_id, made.name, made.registered, made.bot) == (ann.player_id, "Zoë of Oz", True, False)
    assert await register(open_house, ann, "Zoë of Oz") == made, "a repeated call is answered the same"
    assert await profile(open_house, ben, ann.player_id) == made
    hers, his = await asyncio.gather(ann.seek().matched(), ben.seek().matched())
    assert (hers.opponent.name, his.opponent.name) == ("ben", "Zoë of Oz")


async def test_a_name_is_refused_with_its_reason_and_nothing_changes(house: House) -> None:
    await house.start()
    ann, ben = house.player("ann"), house.player("a")
    await register(house, ann, "Bill")
    exists = grpc.StatusCode.ALREADY_EXISTS
    assert await refused(register(house, ben, "BILL")) == (exists, "NAME_TAKEN")
    assert await refused(register(house, ben, "Bi11")) == (exists, "NAME_CONFUSABLE")
    assert await refused(register(house, ben, "\u0430dmin")) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "NAME_INVALID",
    )
    assert await refused(register(house, ann, "Will")) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "NAME_CHOSEN",
    )
    assert (await profile(house, ann)).name == "Bill"
    mine = await profile(house, ben)
    assert (mine.name, mine.registered) == (neutral_name(ben.player_id), False)
    assert await refused(profile(house, ann, "player-nobody")) == (
        grpc.StatusCode.NOT_FOUND,
        "PLAYER_NOT_FOUND",
    )
    bot = house.player("bot", bot=True)
    assert await refused(register(house, bot, "Billy")) == (
        grpc.StatusCode.PERMISSION_DENIED,
        "ROLE_MISSING",
    )


async def test_a_guest_whose_name_is_refused_is_not_made(house: House) -> None:
    await house.start()
    first = await house.guests().CreateGuest(CreateGuestRequest(name="Ann "))
    assert first.name == "Ann"
    count = "select count(*) from player"
    before = await house.pool.fetchval(count)
    again = house.guests().CreateGuest(CreateGuestRequest(name="ANN"))
    assert await refused(again) == (grpc.StatusCode.ALREADY_EXISTS, "NAME_TAKEN")
    assert await house.pool.fetchval(count) == before
    nameless = await house.guests().CreateGuest(CreateGuestRequest())
    assert nameless.name == neutral_name(nameless.player_id)
    metadata = (("authorization", f"Bearer {nameless.token}"),)
    named = await house.profiles().Register(pb.RegisterRequest(name="Ben"), metadata=metadata)
    assert (named.profile.player_id, named.profile.name) == (nameless.player_id, "Ben")


async def test_of_many_guests_who_want_one_name_at_once_one_is_made(house: House) -> None:
    await house.start()
    wanted = (house.guests().CreateGuest(CreateGuestRequest(name="Zoë")) for _ in range(8))
    answers = await asyncio.gather(*wanted, return_exceptions=True)
    made = [answer for answer in answers if not isinstance(answer, BaseException)]
    assert [guest.name for guest in made] == ["Zoë"]
    refusals = [reason(answer)[1] for answer in answers if isinstance(answer, grpc.RpcError)]
    assert refusals == ["NAME_TAKEN"] * 7
    assert await house.pool.fetchval("select count(*) from player") == 1


async def test_a_token_is_good_whatever_name_it_suggests(house: House) -> None:
    await house.start()
    token, _ = house.issuer.issue("player-x", "bell\a" * 100)
    metadata = (("authorization", f"Bearer {token}"),)
    found = await house.profiles().GetProfile(pb.GetProfileRequest(), metadata=metadata)
    assert found.profile.name == neutral_name("player-x")
