"""The calls about who players are: guests, names, profiles."""

from __future__ import annotations

from typing import Any

import grpc

from services.common.auth import TokenIssuer, caller, new_player_id
from services.common.errors import ServiceError
from services.common.names import NameFaultError, PlayerName, parse_name
from services.common.questions import Questions
from services.storage import players
from services.storage.players import NameRefused, Profile
from services.storage.pool import Connection
from services.wire import identity as wire
from spectacularbid.identity.v1 import guest_service_pb2 as guest_pb
from spectacularbid.identity.v1 import player_service_pb2 as pb
from spectacularbid.identity.v1.guest_service_pb2_grpc import GuestServiceServicer
from spectacularbid.identity.v1.player_service_pb2_grpc import PlayerServiceServicer

Context = grpc.aio.ServicerContext[Any, Any]


class GuestRpc(GuestServiceServicer):
    """Identities for anyone, signed with the local stack's own key."""

    def __init__(self, questions: Questions, issuer: TokenIssuer, token_seconds: int) -> None:
        self._questions = questions
        self._issuer = issuer
        self._token_seconds = token_seconds

    async def CreateGuest(
        self, request: guest_pb.CreateGuestRequest, _context: Context
    ) -> guest_pb.CreateGuestResponse:
        name = _name(request.name) if request.name else None
        player_id = new_player_id()
        # A name that is refused makes nobody.
        async with self._questions.acquire() as connection, connection.transaction():
            await players.put_player(connection, player_id, "")
            if name is not None:
                await _register(connection, player_id, name)
            profile = await _profile(connection, player_id)
        token = self._issuer.issue(player_id, profile.name, seconds=self._token_seconds)
        return wire.guest_to_pb(player_id, profile.name, *token)


class PlayerRpc(PlayerServiceServicer):
    """Names and profiles. Any process may answer."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    async def Register(self, request: pb.RegisterRequest, _context: Context) -> pb.RegisterResponse:
        me = caller()
        if me.bot:
            raise ServiceError(
                grpc.StatusCode.PERMISSION_DENIED,
                "ROLE_MISSING",
                "a house bot is called what operators call it",
            )
        name = _name(request.name)
        async with self._questions.acquire() as connection, connection.transaction():
            # Without the suggestion of the token: it must not be in the way of the name that is asked for.
            await players.put_player(connection, me.player_id, "")
            await _register(connection, me.player_id, name)
            profile = await _profile(connection, me.player_id)
        return pb.RegisterResponse(profile=wire.profile_to_pb(profile))

    async def GetProfile(self, request: pb.GetProfileRequest, _context: Context) -> pb.GetProfileResponse:
        me = caller()
        player_id = wire.player_id_from_pb(request.player_id) if request.player_id else me.player_id
        async with self._questions.acquire() as connection:
            if player_id == me.player_id:
                await players.put_player(connection, me.player_id, me.suggested_name, bot=me.bot)
            profile = await _profile(connection, player_id)
        return pb.GetProfileResponse(profile=wire.profile_to_pb(profile))


def _name(text: str) -> PlayerName:
    try:
        return parse_name(text)
    except NameFaultError as error:
        raise ServiceError(grpc.StatusCode.INVALID_ARGUMENT, "NAME_INVALID", f"name: {error}") from None


async def _register(connection: Connection, player_id: str, name: PlayerName) -> None:
    match await players.register(connection, player_id, name):
        case NameRefused.TAKEN:
            raise ServiceError(
                grpc.StatusCode.ALREADY_EXISTS, "NAME_TAKEN", f"somebody is called {name.shown} already"
            )
        case NameRefused.CONFUSABLE:
            raise ServiceError(
                grpc.StatusCode.ALREADY_EXISTS,
                "NAME_CONFUSABLE",
                f"{name.shown} looks like the name of another player",
            )
        case NameRefused.CHOSEN:
            raise ServiceError(
                grpc.StatusCode.FAILED_PRECONDITION, "NAME_CHOSEN", "you have a name already, and names stay"
            )


async def _profile(connection: Connection, player_id: str) -> Profile:
    profile = await players.get_profile(connection, player_id)
    if profile is None:
        raise ServiceError(grpc.StatusCode.NOT_FOUND, "PLAYER_NOT_FOUND", "there is no such player")
    return profile
