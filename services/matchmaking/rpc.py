"""The calls: seeks, the ladder's questions, and the streams of game processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import grpc

from matchmaker.ticket import window
from services.common.auth import caller
from services.common.errors import ServiceError, try_again
from services.common.questions import Questions
from services.matchmaking.lobby import Lobby
from services.matchmaking.placement import Engine, Engines
from services.matchmaking.pools import Mode, Pools
from services.matchmaking.seekers import Matched, Seeker, Seekers
from services.matchmaking.settings import MatchmakingSettings
from services.matchmaking.waits import Waits
from services.storage import ladder, matches, ownership, players, standings
from services.storage.matches import PlayerRow
from services.wire import ladder as ladder_wire
from services.wire import matchmaking as wire
from services.wire import pages
from services.wire.commands import match_id_from_pb
from services.wire.identity import player_id_from_pb
from spectacularbid.internal.placement.v1 import placement_service_pb2 as placement_pb
from spectacularbid.internal.placement.v1.placement_service_pb2_grpc import PlacementServiceServicer
from spectacularbid.ladder.v1 import ladder_service_pb2 as ladder_pb
from spectacularbid.ladder.v1.ladder_service_pb2_grpc import LadderServiceServicer
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as pb
from spectacularbid.matchmaking.v1.matchmaking_service_pb2_grpc import MatchmakingServiceServicer

Context = grpc.aio.ServicerContext[Any, Any]


def _caller() -> PlayerRow:
    identity = caller()
    return PlayerRow(identity.player_id, identity.suggested_name, identity.bot)


def _asked(player_id: str) -> str:
    """Who is asked about: the caller, when nobody is named. Raises ServiceError."""
    return player_id_from_pb(player_id) if player_id else caller().player_id


class MatchmakingRpc(MatchmakingServiceServicer):
    """Seeks of players."""

    def __init__(
        self,
        lobby: Lobby,
        seekers: Seekers,
        pools: Pools,
        waits: Waits,
        questions: Questions,
        settings: MatchmakingSettings,
    ) -> None:
        self._lobby = lobby
        self._questions = questions
        self._seekers = seekers
        self._pools = pools
        self._waits = waits
        self._news_period = settings.news_period_seconds
        self._house_bots = settings.house_bots
        self._house_bots_after_ns = settings.house_bots_after_seconds * 1e9
        self._patience = settings.placed_patience_seconds

    async def Seek(self, request: pb.SeekRequest, _context: Context) -> AsyncIterator[pb.SeekResponse]:
        wanted = wire.wanted_from_pb(request)
        player = _caller()
        if player.bot:
            raise ServiceError(
                grpc.StatusCode.PERMISSION_DENIED, "ROLE_MISSING", "house bots are invited, they do not seek"
            )
        async with self._lobby.seek(player, wanted, self._patience) as seeker:
            if isinstance(seeker, Matched):
                yield _matched(seeker)
                return
            while seeker.answer is None:
                yield self._waiting(seeker)
                await seeker.news(self._news_period)
            if isinstance(seeker.answer, ServiceError):
                raise seeker.answer
            yield _matched(seeker.answer)

    def _waiting(self, seeker: Seeker) -> pb.SeekResponse:
        waited = seeker.ticket.waited(time.monotonic_ns())
        seeker.told_waiting = self._seekers.count(seeker.pool)
        estimate = self._waits.estimate(seeker.pool, seeker.ticket.rating)
        ordered = self._pools[seeker.pool]
        return wire.waiting_to_pb(
            waited,
            seeker.told_waiting,
            window(waited),
            estimate,
            paused=ordered.mode is Mode.PAUSED,
            announcement=ordered.announcement,
            house_bots=self._house_bots if waited >= self._house_bots_after_ns else (),
        )

    async def CancelSeek(self, _request: pb.CancelSeekRequest, _context: Context) -> pb.CancelSeekResponse:
        await self._lobby.cancel(caller().player_id)
        return pb.CancelSeekResponse()

    async def LocateMatch(self, request: pb.LocateMatchRequest, _context: Context) -> pb.LocateMatchResponse:
        match_id = match_id_from_pb(request.match_id)
        async with self._questions.acquire() as connection:
            address = await ownership.find_address(connection, match_id)
        if address is None:
            raise ServiceError(grpc.StatusCode.NOT_FOUND, "MATCH_NOT_FOUND", "there is no such match")
        return pb.LocateMatchResponse(address=address)


def _matched(matched: Matched) -> pb.SeekResponse:
    return wire.matched_to_pb(
        matched.match_id, matched.seat, matched.address, matched.opponent, matched.opponent_rating
    )


class LadderRpc(LadderServiceServicer):
    """Questions to the ladder. Any process may answer them."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    async def GetLeaderboard(
        self, request: ladder_pb.GetLeaderboardRequest, _context: Context
    ) -> ladder_pb.GetLeaderboardResponse:
        size = ladder_wire.page_size(request.page_size)
        after = pages.ladder_key(request.page_token)
        async with self._questions.acquire() as connection:
            found = await standings.leaderboard(connection, after, size + 1)
        page = found[:size]
        last = standings.LadderKey(page[-1].shown, page[-1].player.player_id) if len(found) > size else None
        return ladder_pb.GetLeaderboardResponse(
            standings=map(ladder_wire.standing_to_pb, page),
            next_page_token=pages.ladder_token(last) if last else "",
        )

    async def GetNeighbourhood(
        self, request: ladder_pb.GetNeighbourhoodRequest, _context: Context
    ) -> ladder_pb.GetNeighbourhoodResponse:
        each_way = ladder_wire.each_way(request.each_way)
        me = caller().player_id
        player_id = _asked(request.player_id)
        async with self._questions.acquire() as connection:
            if player_id != me and await matches.get_player(connection, player_id) is None:
                raise _no_such_player()
            found, ranked = await standings.neighbourhood(connection, player_id, each_way)
        return ladder_pb.GetNeighbourhoodResponse(
            standings=map(ladder_wire.standing_to_pb, found), ranked_players=ranked
        )

    async def GetPlayer(
        self, request: ladder_pb.GetPlayerRequest, _context: Context
    ) -> ladder_pb.GetPlayerResponse:
        me, player_id = _caller(), _asked(request.player_id)
        async with self._questions.acquire() as connection:
            standing = await standings.standing(connection, player_id)
        if standing is None:
            if player_id != me.player_id:
                raise _no_such_player()
            standing = standings.newcomer(await self._meet(me))
        return ladder_pb.GetPlayerResponse(standing=ladder_wire.standing_to_pb(standing))

    async def _meet(self, player: PlayerRow) -> PlayerRow:
        # Who asks before ever playing is shown the name that others will see.
        async with self._questions.acquire() as connection:
            name = await players.put_player(connection, player.player_id, player.name, bot=player.bot)
        return replace(player, name=name)

    async def ListMatches(
        self, request: ladder_pb.ListMatchesRequest, _context: Context
    ) -> ladder_pb.ListMatchesResponse:
        size = ladder_wire.page_size(request.page_size)
        before = pages.results_key(request.page_token)
        me = caller().player_id
        player_id = _asked(request.player_id)
        async with self._questions.acquire() as connection:
            if player_id != me and await matches.get_player(connection, player_id) is None:
                raise _no_such_player()
            found = await standings.results(connection, player_id, before, size + 1)
        page = found[:size]
        return ladder_pb.ListMatchesResponse(
            matches=map(ladder_wire.result_to_pb, page),
            next_page_token=pages.results_token(page[-1].ended_no) if len(found) > size else "",
        )

    async def GetRatingDecision(
        self, request: ladder_pb.GetRatingDecisionRequest, _context: Context
    ) -> ladder_pb.GetRatingDecisionResponse:
        match_id = UUID(match_id_from_pb(request.match_id))
        async with self._questions.acquire() as connection:
            decision = await ladder.find_decision(connection, match_id)
            if decision is None:
                raise _no_decision(over=await ladder.is_over(connection, match_id))
        return ladder_pb.GetRatingDecisionResponse(decision=ladder_wire.decision_to_pb(decision))


def _no_decision(*, over: bool | None) -> ServiceError:
    if over is None:
        return ServiceError(grpc.StatusCode.NOT_FOUND, "MATCH_NOT_FOUND", "there is no such match")
    if not over:
        return ServiceError(grpc.StatusCode.FAILED_PRECONDITION, "MATCH_LIVE", "the match is not over yet")
    return ServiceError(
        grpc.StatusCode.NOT_FOUND, "NO_DECISION", "the decision about this match is not made yet"
    )


def _no_such_player() -> ServiceError:
    return ServiceError(grpc.StatusCode.NOT_FOUND, "PLAYER_NOT_FOUND", "there is no such player")


class PlacementRpc(PlacementServiceServicer):
    """Streams of game processes."""

    def __init__(self, engines: Engines, lobby: Lobby) -> None:
        self._engines = engines
        self._lobby = lobby

    async def Register(
        self, request_iterator: AsyncIterator[placement_pb.RegisterRequest], _context: Context
    ) -> AsyncIterator[placement_pb.RegisterResponse]:
        hello = wire.hello_from_pb(await anext(request_iterator, None))
        if not self._lobby.is_open:
            raise try_again("this process does not lead; try again", 0.5)
        engine = self._engines.register(hello)
        reader = asyncio.create_task(self._read(engine, request_iterator))
        try:
            yield wire.welcome_to_pb()
            async for placement in engine.places():
                yield wire.place_to_pb(placement)
            if engine.closed is not None:
                raise engine.closed
        finally:
            self._engines.unregister(engine)
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def _read(self, engine: Engine, messages: AsyncIterator[placement_pb.RegisterRequest]) -> None:
        try:
            async for message in messages:
                self._engines.report(engine, wire.report_from_pb(message))
        except ServiceError as error:
            engine.close(error)
        finally:
            engine.close(try_again("the game process has closed its side"))
